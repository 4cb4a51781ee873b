//! Workload `store`: a key-value store that is filled, thinned by deletions, and read at random.
//!
//! `table.rs` is a store in the manner of Redis; `allocator.rs` is its memory allocator, in the manner of
//! jemalloc. Both keep real data structures. Choices of Perforate:
//!
//! - The allocator follows jemalloc 5 as Redis builds it: size classes 8 bytes apart, then four per
//!   doubling; slabs (runs of pages divided into equal objects) for sizes below 16KB; for each larger
//!   object, an extent one page longer than its class, in which it begins at a random cache line of the
//!   first page. There is one arena and no thread cache. The shortest free extent that is long enough is
//!   used first. The metadata are a descriptor of 128 bytes per extent in use, and an 8-byte page-map
//!   entry for its first and its last page.
//! - The first mapping has 2MB. Each further mapping is one size class longer and lies below the previous
//!   one. With `grows=yes` the heap grows by 132KB at a time instead, as that of a Redis with glibc's malloc.
//! - A key takes four objects: an entry of 24 bytes, a name of 18, an object header of 16, and the value
//!   with 6 bytes of header and end. When there is a key for each slot, the table doubles and moves all
//!   keys at once.
//! - A read accesses the slot, the entries and names of the chain up to the key, the object and the
//!   value, and copies the value to a fixed buffer. Code, stack, sockets and the kernel are left out.
//! - Keys to delete are chosen with equal probability. Then all free extents are returned at once
//!   (MADV_DONTNEED).
//! - The accesses of look-ups depend on each other. Values are copied 32 bytes at a time.

mod allocator;
mod extents;
mod process;
mod records;
mod size_class;
mod table;
#[cfg(test)]
mod tests;
mod touched;

use perforate_config::{BoundedSize, Count, Share};
use perforate_types::Random;

use crate::registry::{Registered, WorkloadSpec};
use crate::source::PAGE_BYTES;
use crate::traced::{Program, Tracer};
use process::{Copying, Process};
use table::Store;

/// Maximum number of keys of the workload `store`. It bounds the memory of the simulator, which holds the
/// store's records and the state of about six simulated pages per key.
const MOST_KEYS: u64 = 16_000_000;
const LONGEST_VALUE_BYTES: u64 = 1 << 20;
const MOST_READS: u64 = 1_000_000_000;
/// Memory of the simulator per key of the workload `store`, in bytes: addresses of the key's objects, chain
/// links, and the key's share of the allocator's maps.
const HOST_BYTES_PER_KEY: u64 = 256;
/// Divisor that gives the number of warm-up reads from the number of counted reads.
const WARMUP_SHARE: u64 = 10;
/// Physical memory in bytes that the store needs beyond its values: page tables, the allocator's metadata,
/// the hash table.
const SPARE_BYTES: u64 = 2 << 30;
/// Constant that makes the random choice of keys to read independent of the allocator's random numbers.
const READS_PURPOSE: u64 = 0x7265_6164;

options! {
    /// Options of the workload `store`.
    pub struct StoreOptions {
        /// Number of keys that are inserted; 4M in paper P.
        pub keys: Count<1, MOST_KEYS> = Count::new(500_000),
        /// Size of a value.
        pub value: BoundedSize<1, LONGEST_VALUE_BYTES> = BoundedSize::new(16 << 10),
        /// Objects of 16KB and more take no extra page, as in Redis since 2023.
        pub compact: bool = false,
        /// Memory is mapped 132KB at a time, as glibc's heap grows: no 2MB pages on first touches.
        pub grows: bool = false,
        /// Share of keys that remain after random deletions.
        pub live: Share = Share::WHOLE,
        /// Reads that touch each page of a value once, after a warm-up of a tenth as many; for counts.
        pub page_reads: Count<0, MOST_READS> = Count::new(0),
        /// Reads that copy values, after a warm-up of a tenth as many; 0 for no end.
        pub reads: Count<0, MOST_READS> = Count::new(0),
    }
}

impl StoreOptions {
    /// Makes the specification of the workload with these options.
    pub fn workload(self) -> WorkloadSpec {
        WorkloadSpec::of::<KeyValueStore>(self)
    }

    /// Number of keys that remain after the deletions; at least one.
    pub fn live_keys(&self) -> u64 {
        ((self.keys.get() as f64 * self.live.value()).round() as u64).max(1)
    }

    /// Size in bytes of a physical memory in which the store has room under every scheme, in whole 2MB pages.
    pub fn memory_bytes(&self) -> u64 {
        let largest = size_class::round_up(self.value.bytes() + 10) + 2 * PAGE_BYTES;
        (self.keys.get() * largest + SPARE_BYTES).next_multiple_of(2 << 20)
    }
}

pub(crate) struct KeyValueStore {
    options: StoreOptions,
    seed: u64,
}

impl Registered for KeyValueStore {
    const NAME: &'static str = "store";
    const SUMMARY: &'static str =
        "a key-value store with its allocator, like Redis: filled, partly deleted, read (paper P)";
    const EXAMPLE: &'static str = "store:keys=200k,value=4K,live=50%";
    type Options = StoreOptions;

    fn host_bytes(options: &StoreOptions) -> u64 {
        options.keys.get() * HOST_BYTES_PER_KEY
    }
}

impl Program for KeyValueStore {
    const SETUP_UNTIL: Option<&'static str> = Some("reads");

    fn start(&options: &StoreOptions, seed: u64, tracer: &mut Tracer) -> Self {
        tracer.leave_code_out();
        Self { options, seed }
    }

    async fn run(&mut self, tracer: &mut Tracer) {
        let Self { options, seed } = *self;
        let keys = options.keys.get();
        let (page_reads, reads) = (options.page_reads.get(), options.reads.get());
        let mut process = Process::new(tracer);
        let mut store = Store::new(&mut process, &options, seed);
        for _ in 0..keys {
            store.insert(&mut process).await;
            process.tracer.pause().await;
        }
        let mut random = Random::keyed(seed, READS_PURPOSE, 0);
        begin("deletions", &mut process, &store).await;
        if options.live_keys() < keys {
            store.delete_until(&mut process, options.live_keys(), &mut random).await;
        }
        if page_reads > 0 {
            begin("page-reads-warm-up", &mut process, &store).await;
            read(&store, &mut process, &mut random, page_reads / WARMUP_SHARE).await;
            begin("page-reads", &mut process, &store).await;
            read(&store, &mut process, &mut random, page_reads).await;
        }
        process.copying = Copying::Vectors;
        begin("reads-warm-up", &mut process, &store).await;
        read(&store, &mut process, &mut random, reads.div_ceil(WARMUP_SHARE)).await;
        begin("reads", &mut process, &store).await;
        let reads = if reads == 0 { u64::MAX } else { reads };
        read(&store, &mut process, &mut random, reads).await;
    }
}

/// Announces a phase with an event that has statistics of the store.
async fn begin(phase: &str, process: &mut Process<'_>, store: &Store) {
    let figures = [
        ("live_keys", store.live_keys()),
        ("requested_bytes", store.requested_bytes()),
        ("touched_bytes", process.touched.pages * PAGE_BYTES),
        ("first_touches", process.touched.first_touches),
    ];
    process.tracer.begin_phase(phase, &figures).await;
}

/// Reads the values of `reads` random keys.
async fn read(store: &Store, process: &mut Process<'_>, random: &mut Random, reads: u64) {
    for _ in 0..reads {
        store.read(process, random);
        process.tracer.pause().await;
    }
}
