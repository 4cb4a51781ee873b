//! Decoded instructions as rows of columns: a row for each memory access, and one for each instruction
//! without any.

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
    /// First byte accessed; 0 in a row without an access.
    Address,
    /// Bytes accessed; 0 in a row without an access.
    Size,
    /// 0: no access, 1: read, 2: write.
    Kind,
    /// Length of the instruction in bytes; 0 where the trace does not say.
    Length,
    /// Kind of branch, by its place in `Branch::ALL`; 0: none.
    Branch,
    /// Whether the branch was taken.
    Taken,
    /// What is computed, by its place in `Operation::ALL`.
    Operation,
    /// Registers read, four in a row; 0 fills unused places.
    Sources,
    /// Which of them make no address, a bit each.
    DataSources,
    /// Registers written, two in a row.
    Destinations,
    /// The process that runs.
    Process,
    /// The thread that runs.
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

    /// The column of this name.
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

/// Rows in the making.
pub struct Rows {
    fields: Vec<Field>,
    columns: Vec<Numbers>,
    rows: usize,
    running: (ProcessId, ThreadId),
    places: Places,
    pool: Arc<Pool>,
}

impl Rows {
    /// No rows, with these columns, whose memory comes from a pool.
    pub fn new(fields: &[Field], pool: Arc<Pool>) -> Self {
        let (fields, running) = (fields.to_vec(), (ProcessId::default(), ThreadId::default()));
        Self { fields, columns: Vec::new(), rows: 0, running, places: Places::default(), pool }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Takes the rows out; about so many come next.
    pub fn take(&mut self) -> Batch {
        let columns = std::mem::take(&mut self.columns).into_iter().zip(&self.fields);
        let columns = columns.map(|(numbers, field)| (numbers, field.width())).collect();
        let pool = Arc::clone(&self.pool);
        Batch { rows: std::mem::take(&mut self.rows), columns, pool }
    }

    /// Adds the first `count` instructions of a chunk, the first being number `first` of the trace;
    /// `room` is for how many rows there should be room in all.
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
        self.hear(chunk);
    }

    /// Learns who runs after a chunk.
    pub fn hear(&mut self, chunk: &Chunk) {
        for (_, event) in &chunk.events {
            if let ProgramEvent::Switch { process, thread } = event {
                self.running = (*process, *thread);
            }
        }
    }
}

/// Which row of a chunk belongs to which instruction, and which to which access. Found once, so that a
/// column is a loop without branches.
#[derive(Default)]
struct Places {
    /// Number of the instruction of each row.
    owners: Vec<u32>,
    /// Row of each access.
    rows: Vec<u32>,
}

impl Places {
    fn find(&mut self, instructions: &[Instruction]) {
        // Both are written one place too far, where the next instruction writes again.
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
            of_runner(column, chunk, instructions, running, |(process, _)| process.0);
        }
        (Field::Thread, Numbers::U16(column)) => {
            of_runner(column, chunk, instructions, running, |(_, thread)| thread.0);
        }
        _ => unreachable!("columns have the numbers of their fields"),
    }
}

/// A value of each instruction, in each of its rows.
fn each<T>(
    column: &mut Vec<T>,
    instructions: &[Instruction],
    places: &Places,
    value: impl Fn(&Instruction) -> T,
) {
    column.extend(places.owners.iter().map(|&owner| value(&instructions[owner as usize])));
}

/// Several values of each instruction.
fn several<const N: usize>(
    column: &mut Vec<u8>,
    instructions: &[Instruction],
    places: &Places,
    values: impl Fn(&Instruction) -> [u8; N],
) {
    column.extend(places.owners.iter().flat_map(|&owner| values(&instructions[owner as usize])));
}

/// A value of each access, 0 in rows without one.
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

/// A value of who runs, which events between instructions change.
fn of_runner(
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

/// Rows that are whole.
pub struct Batch {
    /// How many there are.
    pub rows: usize,
    columns: Vec<(Numbers, usize)>,
    pool: Arc<Pool>,
}

impl Batch {
    /// The columns, in the order in which they were asked for.
    pub fn columns(self) -> impl Iterator<Item = Column> {
        let Self { columns, pool, .. } = self;
        let column = move |(numbers, width)| Column::new(numbers, width, Arc::clone(&pool));
        columns.into_iter().map(column)
    }
}
