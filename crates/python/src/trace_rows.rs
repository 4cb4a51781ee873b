//! Decoded instructions as rows: one for each memory access, and one for each instruction without access.

use std::sync::Arc;

use perforate_types::{
    AccessKind, Chunk, Instruction, MemoryAccess, ProcessId, ProgramEvent, ThreadId,
};

use crate::column::{Column, Numbers, Pool};

/// A column that a batch can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Number of the instruction in the trace, from 0.
    Instruction,
    /// Address of the instruction.
    Ip,
    /// Address of the access; 0 in a row without access.
    Address,
    /// Size of the access in bytes; 0 in a row without access.
    Size,
    /// 0: no access, 1: read, 2: write.
    Kind,
    /// Length of the instruction in bytes; 0 if unknown.
    Length,
    /// Kind of branch, as an index of `Branch::ALL`; 0: none.
    Branch,
    /// True if the branch was taken.
    Taken,
    /// Kind of operation, as an index of `Operation::ALL`.
    Operation,
    /// Registers read, four in each row; unused ones are 0.
    Sources,
    /// Bit mask of the sources that are not part of an address.
    DataSources,
    /// Registers written, two in each row.
    Destinations,
    /// Process number.
    Process,
    /// Thread number.
    Thread,
}

impl Field {
    /// All columns with their names.
    pub const ALL: [(&'static str, Self); 14] = [
        ("instruction", Self::Instruction),
        ("ip", Self::Ip),
        ("address", Self::Address),
        ("size", Self::Size),
        ("kind", Self::Kind),
        ("length", Self::Length),
        ("branch", Self::Branch),
        ("taken", Self::Taken),
        ("operation", Self::Operation),
        ("sources", Self::Sources),
        ("data_sources", Self::DataSources),
        ("destinations", Self::Destinations),
        ("process", Self::Process),
        ("thread", Self::Thread),
    ];

    /// Column with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, field)| *field)
    }

    fn empty(self, rows: usize, pool: &Pool) -> Numbers {
        let like = match self {
            Self::Instruction | Self::Ip | Self::Address => Numbers::U64(Vec::new()),
            Self::Size | Self::Process | Self::Thread => Numbers::U16(Vec::new()),
            Self::Taken => Numbers::Bool(Vec::new()),
            _ => Numbers::U8(Vec::new()),
        };
        pool.take(&like, rows * self.width())
    }

    fn width(self) -> usize {
        match self {
            Self::Sources => 4,
            Self::Destinations => 2,
            _ => 1,
        }
    }
}

/// Rows of the next batch.
pub struct Rows {
    fields: Vec<Field>,
    columns: Vec<Numbers>,
    rows: usize,
    running: (ProcessId, ThreadId),
    places: Places,
    pool: Arc<Pool>,
}

impl Rows {
    /// Empty rows with these columns.
    pub fn new(fields: &[Field], pool: Arc<Pool>) -> Self {
        let (fields, running) = (fields.to_vec(), (ProcessId::default(), ThreadId::default()));
        Self { fields, columns: Vec::new(), rows: 0, running, places: Places::default(), pool }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Takes all rows.
    pub fn take(&mut self) -> Batch {
        let columns = std::mem::take(&mut self.columns).into_iter().zip(&self.fields);
        let columns = columns.map(|(numbers, field)| (numbers, field.width())).collect();
        let pool = Arc::clone(&self.pool);
        Batch { rows: std::mem::take(&mut self.rows), columns, pool }
    }

    /// Adds the first `count` instructions of a chunk. Its first instruction has the number `first`. `room` is
    /// the expected number of rows of the batch.
    pub fn add(&mut self, chunk: &Chunk, count: usize, first: u64, room: usize) {
        let instructions = &chunk.instructions[..count.min(chunk.instructions.len())];
        if self.columns.is_empty() {
            let room = room + room / 4;
            self.columns = self.fields.iter().map(|field| field.empty(room, &self.pool)).collect();
        }
        let before = self.running;
        self.places.find(instructions);
        for (field, numbers) in self.fields.iter().zip(&mut self.columns) {
            add_column(*field, numbers, (chunk, instructions), &self.places, (first, before));
        }
        self.rows += self.places.owners.len();
        self.follow_switches(chunk);
    }

    /// Finds the process and thread that run after a chunk.
    fn follow_switches(&mut self, chunk: &Chunk) {
        for (_, event) in &chunk.events {
            if let ProgramEvent::Switch { process, thread } = event {
                self.running = (*process, *thread);
            }
        }
    }
}

/// Rows of the instructions and accesses of a chunk. They are computed once, so that filling a column is a
/// loop without branches.
#[derive(Default)]
struct Places {
    /// Number of the instruction of each row.
    owners: Vec<u32>,
    /// Row of each access.
    rows: Vec<u32>,
}

impl Places {
    fn find(&mut self, instructions: &[Instruction]) {
        // An instruction without access writes one element past its rows, which the next one overwrites.
        let accesses: usize = instructions.iter().map(|one| usize::from(one.accesses)).sum();
        let idle = instructions.iter().filter(|one| one.accesses == 0).count();
        self.owners.resize(accesses + idle + 1, 0);
        self.rows.resize(accesses + 1, 0);
        let (mut row, mut access) = (0, 0);
        for (number, instruction) in (0..).zip(instructions) {
            let count = usize::from(instruction.accesses);
            self.owners[row] = number;
            self.rows[access] = row as u32;
            for more in 1..count {
                self.owners[row + more] = number;
                self.rows[access + more] = (row + more) as u32;
            }
            row += count.max(1);
            access += count;
        }
        self.owners.truncate(row);
        self.rows.truncate(access);
    }
}

fn add_column(
    field: Field,
    numbers: &mut Numbers,
    (chunk, instructions): (&Chunk, &[Instruction]),
    places: &Places,
    (first, running): (u64, (ProcessId, ThreadId)),
) {
    let accesses = &chunk.accesses;
    match (field, numbers) {
        (Field::Ip, Numbers::U64(column)) => each(column, instructions, places, |it| it.ip.value()),
        (Field::Address, Numbers::U64(column)) => {
            each_access(column, accesses, places, |access| access.address.value());
        }
        (Field::Instruction, Numbers::U64(column)) => {
            column.extend(places.owners.iter().map(|&owner| first + u64::from(owner)));
        }
        (Field::Size, Numbers::U16(column)) => {
            each_access(column, accesses, places, |access| access.size);
        }
        (Field::Kind, Numbers::U8(column)) => {
            each_access(column, accesses, places, |it| 1 + u8::from(it.kind == AccessKind::Write));
        }
        (Field::Length, Numbers::U8(column)) => each(column, instructions, places, |it| it.length),
        (Field::Branch, Numbers::U8(column)) => {
            each(column, instructions, places, |it| it.branch as u8);
        }
        (Field::Taken, Numbers::Bool(column)) => {
            each(column, instructions, places, |it| u8::from(it.taken));
        }
        (Field::Operation, Numbers::U8(column)) => {
            each(column, instructions, places, |it| it.operation as u8);
        }
        (Field::DataSources, Numbers::U8(column)) => {
            each(column, instructions, places, |it| it.data_sources);
        }
        (Field::Sources, Numbers::U8(column)) => {
            several(column, instructions, places, |it| it.sources);
        }
        (Field::Destinations, Numbers::U8(column)) => {
            several(column, instructions, places, |it| it.destinations);
        }
        (Field::Process, Numbers::U16(column)) => {
            each_running(column, chunk, instructions, running, |(process, _)| process.0);
        }
        (Field::Thread, Numbers::U16(column)) => {
            each_running(column, chunk, instructions, running, |(_, thread)| thread.0);
        }
        _ => unreachable!("columns have the numbers of their fields"),
    }
}

/// Adds a value of each instruction, in each of its rows.
fn each<T>(
    column: &mut Vec<T>,
    instructions: &[Instruction],
    places: &Places,
    value: impl Fn(&Instruction) -> T,
) {
    column.extend(places.owners.iter().map(|&owner| value(&instructions[owner as usize])));
}

/// Adds several values of each instruction, in each of its rows.
fn several<const N: usize>(
    column: &mut Vec<u8>,
    instructions: &[Instruction],
    places: &Places,
    values: impl Fn(&Instruction) -> [u8; N],
) {
    column.extend(places.owners.iter().flat_map(|&owner| values(&instructions[owner as usize])));
}

/// Adds a value of each access, and 0 in rows without access.
fn each_access<T: Clone + Default>(
    column: &mut Vec<T>,
    accesses: &[MemoryAccess],
    places: &Places,
    value: impl Fn(&MemoryAccess) -> T,
) {
    let before = column.len();
    column.resize(before + places.owners.len(), T::default());
    let rows = &mut column[before..];
    for (&row, access) in places.rows.iter().zip(accesses) {
        rows[row as usize] = value(access);
    }
}

/// Adds a value of the running process and thread, which change with events between instructions.
fn each_running(
    column: &mut Vec<u16>,
    chunk: &Chunk,
    instructions: &[Instruction],
    mut running: (ProcessId, ThreadId),
    value: impl Fn((ProcessId, ThreadId)) -> u16,
) {
    let mut events = chunk.events.iter().peekable();
    for (number, instruction) in instructions.iter().enumerate() {
        while let Some((_, event)) = events.next_if(|(before, _)| *before as usize <= number) {
            if let ProgramEvent::Switch { process, thread } = event {
                running = (*process, *thread);
            }
        }
        for _ in 0..instruction.accesses.max(1) {
            column.push(value(running));
        }
    }
}

/// A batch of rows.
pub struct Batch {
    /// Number of rows.
    pub rows: usize,
    columns: Vec<(Numbers, usize)>,
    pool: Arc<Pool>,
}

impl Batch {
    /// Columns, in the order of the fields.
    pub fn columns(self) -> impl Iterator<Item = Column> {
        let Self { columns, pool, .. } = self;
        let column = move |(numbers, width)| Column::new(numbers, width, Arc::clone(&pool));
        columns.into_iter().map(column)
    }
}
