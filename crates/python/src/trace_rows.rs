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
    pool: Arc<Pool>,
}

impl Rows {
    /// No rows, with these columns, whose memory comes from a pool.
    pub fn new(fields: &[Field], pool: Arc<Pool>) -> Self {
        let (fields, running) = (fields.to_vec(), (ProcessId::default(), ThreadId::default()));
        Self { fields, columns: Vec::new(), rows: 0, running, pool }
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
        for (field, numbers) in self.fields.iter().zip(&mut self.columns) {
            add_column(*field, numbers, chunk, instructions, (first, before));
        }
        self.rows += instructions.iter().map(|one| usize::from(one.accesses.max(1))).sum::<usize>();
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

fn add_column(
    field: Field,
    numbers: &mut Numbers,
    chunk: &Chunk,
    instructions: &[Instruction],
    (first, running): (u64, (ProcessId, ThreadId)),
) {
    let accesses = &chunk.accesses;
    match (field, numbers) {
        (Field::Ip, Numbers::U64(column)) => each(column, instructions, |one| one.ip.value()),
        (Field::Address, Numbers::U64(column)) => {
            each_access(column, instructions, accesses, |access| access.address.value());
        }
        (Field::Instruction, Numbers::U64(column)) => {
            let mut next = first;
            each(column, instructions, |_| {
                next += 1;
                next - 1
            });
        }
        (Field::Size, Numbers::U16(column)) => {
            each_access(column, instructions, accesses, |access| access.size);
        }
        (Field::Kind, Numbers::U8(column)) => {
            each_access(column, instructions, accesses, |access| match access.kind {
                AccessKind::Write => 2,
                AccessKind::Read | AccessKind::Fetch => 1,
            });
        }
        (Field::Length, Numbers::U8(column)) => each(column, instructions, |one| one.length),
        (Field::Branch, Numbers::U8(column)) => each(column, instructions, |one| one.branch as u8),
        (Field::Taken, Numbers::Bool(column)) => {
            each(column, instructions, |one| u8::from(one.taken));
        }
        (Field::Operation, Numbers::U8(column)) => {
            each(column, instructions, |one| one.operation as u8);
        }
        (Field::DataSources, Numbers::U8(column)) => {
            each(column, instructions, |one| one.data_sources);
        }
        (Field::Sources, Numbers::U8(column)) => several(column, instructions, |one| one.sources),
        (Field::Destinations, Numbers::U8(column)) => {
            several(column, instructions, |one| one.destinations);
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
fn each<T: Copy>(
    column: &mut Vec<T>,
    instructions: &[Instruction],
    mut value: impl FnMut(&Instruction) -> T,
) {
    for instruction in instructions {
        let value = value(instruction);
        column.push(value);
        for _ in 1..instruction.accesses {
            column.push(value);
        }
    }
}

/// Several values of each instruction.
fn several<const N: usize>(
    column: &mut Vec<u8>,
    instructions: &[Instruction],
    values: impl Fn(&Instruction) -> [u8; N],
) {
    for instruction in instructions {
        for _ in 0..instruction.accesses.max(1) {
            column.extend_from_slice(&values(instruction));
        }
    }
}

/// A value of each access, 0 in rows without one.
fn each_access<T: Default>(
    column: &mut Vec<T>,
    instructions: &[Instruction],
    accesses: &[MemoryAccess],
    value: impl Fn(&MemoryAccess) -> T,
) {
    let mut accesses = accesses.iter();
    for instruction in instructions {
        match instruction.accesses {
            0 => column.push(T::default()),
            1 => column.extend(accesses.next().map(&value)),
            several => column.extend(accesses.by_ref().take(several.into()).map(&value)),
        }
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
