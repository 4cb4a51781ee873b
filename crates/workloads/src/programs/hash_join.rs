//! Workload `hash-join`: a join of two tables by hashing.
//!
//! It is the benchmark HashJoin of Mitosis (Achermann et al., ASPLOS 2020). The inner table is a hash table
//! with as many chains as entries; its keys are multiples of 4. The outer table has consecutive keys, and
//! is read from start to end. Each of its rows looks in the two chains that a 128-bit hash of its key
//! selects. Its default has ten outer rows for an inner one.

use perforate_config::{BoundedSize, Count};
use perforate_types::{Random, scaled};

use super::{Algorithm, Data, DataSize, SLACK_BYTES};
use crate::registry::Registered;
use crate::traced::{Array, Place, Space, Tracer, Value};

data_options! { JoinOptions:
    /// Size of all tables; 17G in Mitosis.
    size;
    /// Outer rows for each inner row; the default of Mitosis's program.
    ratio: Count<1, 1000> = Count::new(10),
    /// Inner rows for as many outer rows as `ratio` says.
    inner: Count<1, 1000> = Count::new(1),
}

/// Distance between neighbouring keys of the inner table.
const STRIDE: u64 = 4;
/// Size of an outer row in bytes: a key and 15 words that are not read.
const ROW_BYTES: u64 = 128;
/// Size of the head of a chain in bytes, a pointer.
const HEAD_BYTES: u64 = 8;
/// Size of an inner entry in bytes: a key and the pointer to the next entry of its chain.
const ENTRY_BYTES: u64 = 16;
/// Size of a key or pointer in bytes.
const WORD_BYTES: u64 = 8;
/// Integer and multiply instructions of a 128-bit MurmurHash3 of eight bytes, in one dependence chain.
const HASH_INSTRUCTIONS: u32 = 30;
/// Head or next entry of a chain that ends.
const END: u32 = u32::MAX;

/// Program of the workload `hash-join`.
pub(crate) struct Join {
    /// First entry of each chain.
    pub(super) heads: Array<u32>,
    entries: Place,
    /// Entry after each entry of a chain.
    next: Vec<u32>,
    outer: Place,
    rows: u64,
    seed: u64,
    /// Rows of the outer table that have found an entry, counted once for each of the two chains.
    pub(super) matches: u64,
}

impl Registered for Join {
    const NAME: &'static str = "hash-join";
    const SUMMARY: &'static str = "a join of two tables by hashing (HashJoin in Mitosis)";
    const EXAMPLE: &'static str = "hash-join:size=4G,ratio=1";
    type Options = JoinOptions;

    fn host_bytes(options: &JoinOptions) -> u64 {
        inner_rows(options) * 2 * size_of::<u32>() as u64
    }
}

/// Number of entries of the inner table.
fn inner_rows(options: &JoinOptions) -> u64 {
    let (outer, inner) = (options.ratio.get(), options.inner.get());
    let bytes = inner * (HEAD_BYTES + ENTRY_BYTES) + outer * ROW_BYTES;
    (options.data_bytes() - SLACK_BYTES) / bytes * inner
}

impl Algorithm for Join {
    fn new(options: &JoinOptions, seed: u64, space: &mut Space) -> Self {
        let entries = inner_rows(options);
        let mut heads = vec![END; entries as usize];
        // Each entry becomes the first of its chain.
        let mut insert = |entry: u32| {
            let [chain, _] = chains(u64::from(entry + 1) * STRIDE, entries, seed);
            std::mem::replace(&mut heads[chain as usize], entry)
        };
        let next = (0..entries as u32).map(&mut insert).collect();
        let rows = entries / options.inner.get() * options.ratio.get();
        Self {
            heads: space.array(heads, HEAD_BYTES),
            entries: space.place(entries, ENTRY_BYTES),
            next,
            outer: space.place(rows, ROW_BYTES),
            rows,
            seed,
            matches: 0,
        }
    }

    async fn repeat(&mut self, t: &mut Tracer) {
        self.join(t).await;
        t.jump();
    }
}

impl Join {
    /// Joins the tables once.
    pub(super) async fn join(&mut self, t: &mut Tracer) {
        let mut row = t.integer((), 0_u64);
        loop {
            let key = self.outer.load_field(t, row, (0, WORD_BYTES), *row);
            let mut hash = key.map(|_| ());
            for step in 0..HASH_INSTRUCTIONS {
                let t = &mut t.unrolled(step as usize);
                // A third of the steps of MurmurHash3 are multiplications.
                hash = if step % 3 == 2 { t.multiply(hash, ()) } else { t.integer(hash, ()) };
            }
            let chains = chains(*key, self.next.len() as u64, self.seed);
            for (number, chain) in chains.into_iter().enumerate() {
                let t = &mut t.unrolled(number);
                let chain = t.divide(hash, chain);
                self.matches += u64::from(self.search(t, chain, key));
            }
            row = t.integer(row, *row + 1);
            t.pause().await;
            if !t.branch(*row < self.rows, row) {
                break;
            }
        }
    }

    /// Follows a chain up to the entry with `key`. Returns true if there is one.
    #[inline]
    fn search(&self, t: &mut Tracer, chain: Value<u64>, key: Value<u64>) -> bool {
        let mut entry = self.heads.load(t, chain);
        while t.branch(*entry != END, entry) {
            let held = u64::from(*entry + 1) * STRIDE;
            let held = self.entries.load_field(t, entry, (0, WORD_BYTES), held);
            if t.branch(*held == *key, (held, key)) {
                return true;
            }
            let next = self.next[*entry as usize];
            entry = self.entries.load_field(t, entry, (WORD_BYTES, WORD_BYTES), next);
        }
        false
    }
}

/// The two chains that the hash of a key selects.
#[inline]
fn chains(key: u64, count: u64, seed: u64) -> [u64; 2] {
    let mut random = Random::new(Random::new(seed ^ key).next());
    [scaled(random.next(), count), scaled(random.next(), count)]
}
