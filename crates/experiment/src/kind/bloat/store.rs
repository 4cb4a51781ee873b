//! A key-value store in the manner of Redis: a chained hash table that doubles, and for each key
//! an entry, a name, an object header and a value, each with a place of its own in the heap.

use perforate_sim::SimError;
use perforate_types::AccessKind::{Read, Write};

use super::allocator::Allocator;
use super::program::Program;
use perforate_os::Random;

/// Bytes of a table slot: one pointer.
const SLOT_BYTES: u64 = 8;
/// Slots of the first table.
const FIRST_SLOTS: u64 = 4;
/// Bytes of an entry: pointers to name, object and next entry.
const ENTRY_BYTES: u64 = 24;
/// Bytes of a name: `key:` and twelve digits, one byte of header, one at the end.
const NAME_BYTES: u64 = 18;
/// Bytes of an object's header.
const OBJECT_BYTES: u64 = 16;
/// No entry.
const NONE: u32 = u32::MAX;
/// Makes the hash function differ from seed to seed.
const HASH_PURPOSE: u64 = 0x6861_7368;

/// Where the parts of one key lie.
#[derive(Clone, Copy)]
struct Record {
    entry: u64,
    name: u64,
    object: u64,
    value: u64,
}

/// The hash table proper.
struct Table {
    address: u64,
    /// First key of each chain.
    chains: Vec<u32>,
}

/// A store and the heap it lives in.
pub struct Store {
    allocator: Allocator,
    hash_seed: u64,
    /// Bytes of a value with its header.
    value_bytes: u64,
    table: Table,
    records: Vec<Record>,
    /// Next key in the chain, by key.
    next: Vec<u32>,
    /// Keys that are there, in no order.
    live: Vec<u32>,
    /// Where a reply is put together; the same place for each.
    reply: u64,
}

impl Store {
    /// An empty store for values of `value_bytes`; for `padding` see [`Allocator::new`].
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(
        program: &mut impl Program,
        value_bytes: u64,
        padding: bool,
        seed: u64,
    ) -> Result<Self, SimError> {
        let mut allocator = Allocator::new(seed, padding);
        let value_bytes = with_header(value_bytes);
        let table = Table::new(program, &mut allocator, FIRST_SLOTS)?;
        let reply = allocator.allocate(program, value_bytes)?.address;
        Ok(Self {
            allocator,
            hash_seed: seed,
            value_bytes,
            table,
            records: Vec::new(),
            next: Vec::new(),
            live: Vec::new(),
            reply,
        })
    }

    /// Number of keys that are there.
    pub fn live_keys(&self) -> u64 {
        self.live.len() as u64
    }

    /// Bytes of the parts of all keys that are there, and of the table: what the program asked for.
    pub fn requested_bytes(&self) -> u64 {
        let each = ENTRY_BYTES + NAME_BYTES + OBJECT_BYTES + self.value_bytes;
        self.live_keys() * each + self.table.bytes()
    }

    /// First byte and length of everything the store holds now.
    #[cfg(test)]
    pub fn places(&self) -> Vec<(u64, u64)> {
        let mut places =
            vec![(self.table.address, self.table.bytes()), (self.reply, self.value_bytes)];
        for &key in &self.live {
            let Record { entry, name, object, value } = self.records[key as usize];
            places.extend([(entry, ENTRY_BYTES), (name, NAME_BYTES)]);
            places.extend([(object, OBJECT_BYTES), (value, self.value_bytes)]);
        }
        places.sort_unstable();
        places
    }

    /// Writes a new key.
    ///
    /// # Errors
    /// Out of memory.
    pub fn insert(&mut self, program: &mut impl Program) -> Result<(), SimError> {
        let key = self.records.len() as u32;
        // The request's value and its header exist before the table is looked at.
        let object = self.write(program, OBJECT_BYTES)?;
        let value = self.write(program, self.value_bytes)?;
        let found = self.find(program, key)?;
        assert!(!found, "a new key");
        self.grow_if_full(program)?;
        let name = self.write(program, NAME_BYTES)?;
        let entry = self.write(program, ENTRY_BYTES)?;
        self.records.push(Record { entry, name, object, value });
        self.next.push(NONE);
        self.live.push(key);
        self.link(program, key)
    }

    /// Reads a random key that is there: the table, the chain, the object, the value, and the
    /// reply that is written.
    ///
    /// # Errors
    /// Out of memory.
    pub fn read(&self, program: &mut impl Program, random: &mut Random) -> Result<(), SimError> {
        let key = self.live[random.below(self.live_keys()) as usize];
        let found = self.find(program, key)?;
        assert!(found, "a key that is there");
        let record = self.records[key as usize];
        program.access(Read, record.object)?;
        program.copy(record.value, self.reply, self.value_bytes)
    }

    /// Deletes random keys until `keep` are left, then gives free memory back.
    ///
    /// # Errors
    /// Out of memory, for page tables.
    pub fn delete_until(
        &mut self,
        program: &mut impl Program,
        keep: u64,
        random: &mut Random,
    ) -> Result<(), SimError> {
        while self.live_keys() > keep {
            let place = random.below(self.live_keys()) as usize;
            let key = self.live.swap_remove(place);
            self.unlink(program, key)?;
            let record = self.records[key as usize];
            for (address, bytes) in [
                (record.name, NAME_BYTES),
                (record.value, self.value_bytes),
                (record.object, OBJECT_BYTES),
                (record.entry, ENTRY_BYTES),
            ] {
                self.allocator.free(program, address, bytes)?;
            }
        }
        self.allocator.purge(program)
    }

    /// A new place for `bytes`, all written.
    fn write(&mut self, program: &mut impl Program, bytes: u64) -> Result<u64, SimError> {
        let address = self.allocator.allocate(program, bytes)?.address;
        program.pass_over(Write, address, bytes)?;
        Ok(address)
    }

    fn slot(&self, key: u32) -> usize {
        let hash = Random::new(self.hash_seed, HASH_PURPOSE, key.into()).next();
        (hash & (self.table.chains.len() as u64 - 1)) as usize
    }

    /// Walks the chain to `key`; entries and names on the way are read.
    fn find(&self, program: &mut impl Program, key: u32) -> Result<bool, SimError> {
        let slot = self.slot(key);
        program.access(Read, self.table.slot_address(slot))?;
        let mut at = self.table.chains[slot];
        while at != NONE {
            let record = self.records[at as usize];
            program.access(Read, record.entry)?;
            program.access(Read, record.name)?;
            if at == key {
                return Ok(true);
            }
            at = self.next[at as usize];
        }
        Ok(false)
    }

    /// Puts `key` first in its chain.
    fn link(&mut self, program: &mut impl Program, key: u32) -> Result<(), SimError> {
        let slot = self.slot(key);
        program.access(Write, self.records[key as usize].entry)?;
        program.access(Write, self.table.slot_address(slot))?;
        self.next[key as usize] = std::mem::replace(&mut self.table.chains[slot], key);
        Ok(())
    }

    fn unlink(&mut self, program: &mut impl Program, key: u32) -> Result<(), SimError> {
        let found = self.find(program, key)?;
        assert!(found, "a key that is there");
        let slot = self.slot(key);
        let after = self.next[key as usize];
        let mut at = self.table.chains[slot];
        if at == key {
            self.table.chains[slot] = after;
            return program.access(Write, self.table.slot_address(slot));
        }
        while self.next[at as usize] != key {
            at = self.next[at as usize];
        }
        self.next[at as usize] = after;
        program.access(Write, self.records[at as usize].entry)
    }

    /// Moves everything to a table twice as long when there is a key for each slot.
    fn grow_if_full(&mut self, program: &mut impl Program) -> Result<(), SimError> {
        let slots = self.table.chains.len() as u64;
        if self.live_keys() < slots {
            return Ok(());
        }
        let new = Table::new(program, &mut self.allocator, 2 * slots)?;
        let old = std::mem::replace(&mut self.table, new);
        program.pass_over(Read, old.address, old.bytes())?;
        for first in &old.chains {
            let mut key = *first;
            while key != NONE {
                let after = self.next[key as usize];
                self.link(program, key)?;
                key = after;
            }
        }
        self.allocator.free(program, old.address, old.bytes())
    }
}

impl Table {
    /// An empty table; its slots are zero without being written, where fresh memory is.
    fn new(
        program: &mut impl Program,
        allocator: &mut Allocator,
        slots: u64,
    ) -> Result<Self, SimError> {
        let table = allocator.allocate(program, slots * SLOT_BYTES)?;
        if !table.is_zero {
            program.pass_over(Write, table.address, slots * SLOT_BYTES)?;
        }
        Ok(Self { address: table.address, chains: vec![NONE; slots as usize] })
    }

    fn bytes(&self) -> u64 {
        self.chains.len() as u64 * SLOT_BYTES
    }

    fn slot_address(&self, slot: usize) -> u64 {
        self.address + slot as u64 * SLOT_BYTES
    }
}

/// Bytes of a string with its header and the byte at its end, as Redis keeps it.
fn with_header(bytes: u64) -> u64 {
    let header_bytes = match bytes {
        0..0x100 => 3,
        0x100..0x1_0000 => 5,
        _ => 9,
    };
    header_bytes + bytes + 1
}
