//! Key-value store in the manner of Redis: a chained hash table that doubles. Each key has an entry, a
//! name, an object header and a value, each allocated separately in the heap.

use perforate_types::Random;

use super::StoreOptions;
use super::allocator::Allocator;
use super::process::Process;

/// Size of a slot of the hash table in bytes: one pointer.
const SLOT_BYTES: u64 = 8;
/// Number of slots in the first hash table, before it grows.
const FIRST_SLOTS: u64 = 4;
/// Size of a key's entry in bytes: pointers to name, object and next entry.
const ENTRY_BYTES: u64 = 24;
/// Size of a key's name in bytes: `key:` and twelve digits, one byte of header, one byte at the end.
const NAME_BYTES: u64 = 18;
/// Size of an object's header in bytes.
const OBJECT_BYTES: u64 = 16;
/// Marker of the end of a slot's chain of keys.
const NONE: u32 = u32::MAX;
/// Constant that makes the hash function differ from seed to seed.
const HASH_PURPOSE: u64 = 0x6861_7368;

/// Addresses of the parts of a key: entry, name, object and value.
#[derive(Clone, Copy)]
struct Record {
    entry: u64,
    name: u64,
    object: u64,
    value: u64,
}

/// The store's hash table, with chaining.
struct Table {
    address: u64,
    /// First key in the chain of each slot.
    chains: Vec<u32>,
}

/// A key-value store, with its heap.
pub(super) struct Store {
    allocator: Allocator,
    hash_seed: u64,
    /// Size of a value with its header in bytes.
    value_bytes: u64,
    table: Table,
    records: Vec<Record>,
    /// For each key, the next key in the chain of its slot.
    next: Vec<u32>,
    /// Keys that exist, in no particular order.
    live: Vec<u32>,
    /// Address of the buffer in which every reply is assembled.
    reply: u64,
}

impl Store {
    /// Creates an empty store.
    pub(super) fn new(process: &mut Process<'_>, options: &StoreOptions, seed: u64) -> Self {
        let mut allocator = Allocator::new(seed, !options.compact, options.grows);
        let value_bytes = with_header(options.value.bytes());
        let table = Table::new(process, &mut allocator, FIRST_SLOTS);
        let reply = allocator.allocate(process, value_bytes).address;
        Self {
            allocator,
            hash_seed: seed,
            value_bytes,
            table,
            records: Vec::new(),
            next: Vec::new(),
            live: Vec::new(),
            reply,
        }
    }

    /// Number of keys that exist.
    pub(super) fn live_keys(&self) -> u64 {
        self.live.len() as u64
    }

    /// Bytes that the store requested from the allocator for existing keys and the table.
    pub(super) fn requested_bytes(&self) -> u64 {
        let each = ENTRY_BYTES + NAME_BYTES + OBJECT_BYTES + self.value_bytes;
        self.live_keys() * each + self.table.bytes()
    }

    /// Lists address and length in bytes of every object in the store.
    #[cfg(test)]
    pub(super) fn places(&self) -> Vec<(u64, u64)> {
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

    /// Inserts a new key with its value.
    pub(super) async fn insert(&mut self, process: &mut Process<'_>) {
        let key = self.records.len() as u32;
        // The request's value and its header exist before the look-up in the table.
        let object = self.write(process, OBJECT_BYTES);
        let value = self.write(process, self.value_bytes);
        let found = self.find(process, key);
        assert!(!found, "a new key");
        self.grow_if_full(process).await;
        let name = self.write(process, NAME_BYTES);
        let entry = self.write(process, ENTRY_BYTES);
        self.records.push(Record { entry, name, object, value });
        self.next.push(NONE);
        self.live.push(key);
        self.link(process, key)
    }

    /// Reads a random existing key: table, chain, object and value are read, and a reply is written.
    pub(super) fn read(&self, process: &mut Process<'_>, random: &mut Random) {
        let key = self.live[random.below(self.live_keys()) as usize];
        let found = self.find(process, key);
        assert!(found, "a key that is there");
        let record = self.records[key as usize];
        process.read(record.object);
        process.copy(record.value, self.reply, self.value_bytes)
    }

    /// Deletes random keys until `keep` keys remain, then returns free memory to the operating system.
    pub(super) async fn delete_until(
        &mut self,
        process: &mut Process<'_>,
        keep: u64,
        random: &mut Random,
    ) {
        while self.live_keys() > keep {
            let place = random.below(self.live_keys()) as usize;
            let key = self.live.swap_remove(place);
            self.unlink(process, key);
            let record = self.records[key as usize];
            for (address, bytes) in [
                (record.name, NAME_BYTES),
                (record.value, self.value_bytes),
                (record.object, OBJECT_BYTES),
                (record.entry, ENTRY_BYTES),
            ] {
                self.allocator.free(process, address, bytes);
            }
            process.tracer.pause().await;
        }
        self.allocator.purge(process).await;
    }

    /// Allocates `bytes` bytes and writes them. Returns their address.
    fn write(&mut self, process: &mut Process<'_>, bytes: u64) -> u64 {
        let address = self.allocator.allocate(process, bytes).address;
        process.write_all(address, bytes);
        address
    }

    fn slot(&self, key: u32) -> usize {
        let hash = Random::keyed(self.hash_seed, HASH_PURPOSE, key.into()).next();
        (hash & (self.table.chains.len() as u64 - 1)) as usize
    }

    /// Walks the chain to `key`, reading entries and names on the way. Returns false if the key does
    /// not exist.
    fn find(&self, process: &mut Process<'_>, key: u32) -> bool {
        let slot = self.slot(key);
        process.read(self.table.slot_address(slot));
        let mut at = self.table.chains[slot];
        while at != NONE {
            let record = self.records[at as usize];
            process.read(record.entry);
            process.read(record.name);
            if at == key {
                return true;
            }
            at = self.next[at as usize];
        }
        false
    }

    /// Inserts `key` at the head of its slot's chain.
    fn link(&mut self, process: &mut Process<'_>, key: u32) {
        let slot = self.slot(key);
        process.write(self.records[key as usize].entry);
        process.write(self.table.slot_address(slot));
        self.next[key as usize] = std::mem::replace(&mut self.table.chains[slot], key);
    }

    fn unlink(&mut self, process: &mut Process<'_>, key: u32) {
        let found = self.find(process, key);
        assert!(found, "a key that is there");
        let slot = self.slot(key);
        let after = self.next[key as usize];
        let mut at = self.table.chains[slot];
        if at == key {
            self.table.chains[slot] = after;
            return process.write(self.table.slot_address(slot));
        }
        while self.next[at as usize] != key {
            at = self.next[at as usize];
        }
        self.next[at as usize] = after;
        process.write(self.records[at as usize].entry)
    }

    /// Moves all keys to a table of twice the size if there is a key for each slot.
    async fn grow_if_full(&mut self, process: &mut Process<'_>) {
        let slots = self.table.chains.len() as u64;
        if self.live_keys() < slots {
            return;
        }
        let new = Table::new(process, &mut self.allocator, 2 * slots);
        let old = std::mem::replace(&mut self.table, new);
        process.read_all(old.address, old.bytes());
        for first in &old.chains {
            let mut key = *first;
            while key != NONE {
                let after = self.next[key as usize];
                self.link(process, key);
                key = after;
            }
            process.tracer.pause().await;
        }
        self.allocator.free(process, old.address, old.bytes())
    }
}

impl Table {
    /// Creates an empty table. Fresh memory is zero, so its slots need no write.
    fn new(process: &mut Process<'_>, allocator: &mut Allocator, slots: u64) -> Self {
        let table = allocator.allocate(process, slots * SLOT_BYTES);
        if !table.is_zero {
            process.write_all(table.address, slots * SLOT_BYTES);
        }
        Self { address: table.address, chains: vec![NONE; slots as usize] }
    }

    fn bytes(&self) -> u64 {
        self.chains.len() as u64 * SLOT_BYTES
    }

    fn slot_address(&self, slot: usize) -> u64 {
        self.address + slot as u64 * SLOT_BYTES
    }
}

/// Size of a string in bytes, with its header and the byte at its end, as in Redis.
fn with_header(bytes: u64) -> u64 {
    let header_bytes = match bytes {
        0..0x100 => 3,
        0x100..0x1_0000 => 5,
        _ => 9,
    };
    header_bytes + bytes + 1
}
