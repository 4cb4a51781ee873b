//! Decoded instructions as rows: one for each memory access, and one for each instruction without access.

use std::sync::Arc;

use perforate_types::{
    AccessKind, Chunk, Instruction, MemoryAccess, ProcessId, ProgramEvent, ThreadId,
};

use crate::column::{Column, Numbers, Pool};

/// Description of a column that a batch of a trace's rows can have.
pub struct Field {
    /// Name of the column in Python.
    pub name: &'static str,
    /// Number of numbers in each row of the column.
    width: usize,
    /// Function that makes an empty vector of the column's type.
    empty: fn() -> Numbers,
    /// Function that adds the values of a chunk's rows to the column.
    add: fn(&ChunkRows<'_>, &mut Numbers),
}

/// Declares fields: name, type and number of values in each row, and the method of [`ChunkRows`] that adds
/// the values.
macro_rules! fields {
    ($($name:ident: $type:ident * $width:literal, $method:ident($value:expr);)*) => {
        /// All columns that a batch can have.
        pub static FIELDS: &[Field] = &[$(Field {
            name: stringify!($name),
            width: $width,
            empty: || Numbers::$type(Vec::new()),
            add: |rows, numbers| match numbers {
                Numbers::$type(column) => rows.$method(column, $value),
                _ => unreachable!("columns have the type of their fields"),
            },
        }),*];
    };
}

fields! {
    // Number of the instruction in the trace, from 0.
    instruction: U64 * 1, each_number(|number| number);
    // Address of the instruction.
    ip: U64 * 1, each(|it| it.ip.value());
    // Address of the access; 0 in a row without access.
    address: U64 * 1, each_access(|access| access.address.value());
    // Size of the access in bytes; 0 in a row without access.
    size: U16 * 1, each_access(|access| access.size);
    // 0: no access, 1: read, 2: write.
    kind: U8 * 1, each_access(|access| 1 + u8::from(access.kind == AccessKind::Write));
    // Length of the instruction in bytes; 0 if unknown.
    length: U8 * 1, each(|it| it.length);
    // Kind of branch, as an index of `Branch::ALL`; 0: none.
    branch: U8 * 1, each(|it| it.branch as u8);
    // True if the branch was taken.
    taken: Bool * 1, each(|it| u8::from(it.taken));
    // Kind of operation, as an index of `Operation::ALL`.
    operation: U8 * 1, each(|it| it.operation as u8);
    // Registers read; unused ones are 0.
    sources: U8 * 4, several(|it| it.sources);
    // Bit mask of the sources that are not part of an address.
    data_sources: U8 * 1, each(|it| it.data_sources);
    // Registers written; unused ones are 0.
    destinations: U8 * 2, several(|it| it.destinations);
    // Process number.
    process: U16 * 1, each_running(|(process, _)| process.0);
    // Thread number.
    thread: U16 * 1, each_running(|(_, thread)| thread.0);
}

/// Rows (an access, or an instruction without accesses) that are collected for the next batch.
pub struct Rows {
    fields: Vec<&'static Field>,
    columns: Vec<Numbers>,
    rows: usize,
    running: (ProcessId, ThreadId),
    places: Places,
    pool: Arc<Pool>,
}

impl Rows {
    /// Makes an empty collection of rows with these columns.
    pub fn new(fields: &[&'static Field], pool: Arc<Pool>) -> Self {
        let (fields, running) = (fields.to_vec(), (ProcessId::default(), ThreadId::default()));
        Self { fields, columns: Vec::new(), rows: 0, running, places: Places::default(), pool }
    }

    /// Number of rows collected so far.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Removes all rows and returns them as a batch.
    pub fn take(&mut self) -> Batch {
        let columns = std::mem::take(&mut self.columns).into_iter().zip(&self.fields);
        let columns = columns.map(|(numbers, field)| (numbers, field.width)).collect();
        let pool = Arc::clone(&self.pool);
        Batch { rows: std::mem::take(&mut self.rows), columns, pool }
    }

    /// Adds the rows of the first `count` instructions of a chunk. Its first instruction has the number
    /// `first` in the trace. `room` is the expected number of rows of the batch.
    pub fn add(&mut self, chunk: &Chunk, count: usize, first: u64, room: usize) {
        let instructions = &chunk.instructions[..count.min(chunk.instructions.len())];
        if self.columns.is_empty() {
            let room = room + room / 4;
            let empty = |field: &&Field| self.pool.take(&(field.empty)(), room * field.width);
            self.columns = self.fields.iter().map(empty).collect();
        }
        self.places.find(instructions);
        let (places, running) = (&self.places, self.running);
        let rows = ChunkRows { chunk, instructions, places, first, running };
        for (field, numbers) in self.fields.iter().zip(&mut self.columns) {
            (field.add)(&rows, numbers);
        }
        self.rows += self.places.owners.len();
        self.follow_switches(chunk);
    }

    /// Updates the running process and thread by the switch events of a chunk.
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
    /// Index in the chunk of each row's instruction.
    owners: Vec<u32>,
    /// Index of the row of each access.
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

/// Instructions of a chunk, with their rows and what the columns are computed from.
struct ChunkRows<'a> {
    chunk: &'a Chunk,
    instructions: &'a [Instruction],
    places: &'a Places,
    /// Number in the trace of the chunk's first instruction.
    first: u64,
    /// Process and thread that run at the chunk's first instruction.
    running: (ProcessId, ThreadId),
}

impl ChunkRows<'_> {
    /// Adds to `column`, for each row, the value that `value` returns for the row's instruction.
    fn each<T>(&self, column: &mut Vec<T>, value: impl Fn(&Instruction) -> T) {
        let owners = self.places.owners.iter();
        column.extend(owners.map(|&owner| value(&self.instructions[owner as usize])));
    }

    /// Adds to `column`, for each row, the value that `value` returns for the instruction's number.
    fn each_number<T>(&self, column: &mut Vec<T>, value: impl Fn(u64) -> T) {
        let owners = self.places.owners.iter();
        column.extend(owners.map(|&owner| value(self.first + u64::from(owner))));
    }

    /// Adds to `column`, for each row, the values that `values` returns for the row's instruction.
    fn several<const N: usize>(
        &self,
        column: &mut Vec<u8>,
        values: impl Fn(&Instruction) -> [u8; N],
    ) {
        let owners = self.places.owners.iter();
        column.extend(owners.flat_map(|&owner| values(&self.instructions[owner as usize])));
    }

    /// Adds to `column`, for each row, the value that `value` returns for the row's access; 0 if it has none.
    fn each_access<T: Clone + Default>(
        &self,
        column: &mut Vec<T>,
        value: impl Fn(&MemoryAccess) -> T,
    ) {
        let before = column.len();
        column.resize(before + self.places.owners.len(), T::default());
        let rows = &mut column[before..];
        for (&row, access) in self.places.rows.iter().zip(&self.chunk.accesses) {
            rows[row as usize] = value(access);
        }
    }

    /// Adds to `column`, for each row, the value that `value` returns for the running process and thread,
    /// which change with events between instructions.
    fn each_running(&self, column: &mut Vec<u16>, value: impl Fn((ProcessId, ThreadId)) -> u16) {
        let mut running = self.running;
        let mut events = self.chunk.events.iter().peekable();
        for (number, instruction) in self.instructions.iter().enumerate() {
            while let Some((_, event)) = events.next_if(|(before, _)| *before as usize <= number) {
                if let ProgramEvent::Switch { process, thread } = event {
                    running = (*process, *thread);
                }
            }
            let rows = usize::from(instruction.accesses.max(1));
            column.extend(std::iter::repeat_n(value(running), rows));
        }
    }
}

/// A batch of rows of a trace, by column.
pub struct Batch {
    /// Number of rows in the batch.
    pub rows: usize,
    columns: Vec<(Numbers, usize)>,
    pool: Arc<Pool>,
}

impl Batch {
    /// Columns of the batch, in the order of the fields.
    pub fn columns(self) -> impl Iterator<Item = Column> {
        let Self { columns, pool, .. } = self;
        let column = move |(numbers, width)| Column::new(numbers, width, Arc::clone(&pool));
        columns.into_iter().map(column)
    }
}
