//! Workload `gups`: the RandomAccess benchmark of the HPC Challenge.

use perforate_config::{BoundedSize, Count};
use perforate_types::Random;

use super::{Algorithm, Data, DataSize};
use crate::registry::Registered;
use crate::traced::{Place, Space, Tracer, Value};

data_options! { GupsOptions:
    /// Size of the table, rounded down to a power of two; 4G in paper G.
    size;
    /// Instructions per update (paper G, Table 5: 17.9 reads per 1000).
    instructions: Count<UPDATE_INSTRUCTIONS, 1000> = Count::new(56),
}

/// Low bits of the polynomial x⁶⁴ + x² + x + 1, modulo which the pseudo-random numbers (polynomials over
/// GF(2)) are multiplied by x, as in HPCC.
const POLYNOMIAL: u64 = 7;
/// Size of a word of the table in bytes.
const WORD_BYTES: u64 = 8;
/// Minimum number of instructions per update: eight for the update and three for the loop.
const UPDATE_INSTRUCTIONS: u64 = 11;

/// Program of the workload `gups`. Every update reads and writes the word that a pseudo-random number
/// selects. The contents of the table do not matter, so they are not stored.
pub(crate) struct Gups {
    table: Place,
    mask: u64,
    first: u64,
    /// Number of further integer instructions after each update, so that an update takes as many instructions
    /// as the user chose.
    work: u32,
}

impl Registered for Gups {
    const NAME: &'static str = "gups";
    const SUMMARY: &'static str =
        "GUPS: updates of random words of a table (HPCC RandomAccess; paper G)";
    const EXAMPLE: &'static str = "gups:size=4G";
    type Options = GupsOptions;
}

impl Algorithm for Gups {
    fn new(options: &GupsOptions, seed: u64, space: &mut Space) -> Self {
        let words = 1 << (options.data_bytes() / WORD_BYTES).ilog2();
        Self {
            table: space.place(words, WORD_BYTES),
            mask: words - 1,
            // Zero would be followed by zeros forever.
            first: Random::new(seed).next() | 1,
            work: (options.instructions.get() - UPDATE_INSTRUCTIONS) as u32,
        }
    }

    async fn repeat(&mut self, t: &mut Tracer) {
        let mut random = Value::constant(self.first);
        let mut updates = Value::constant(());
        loop {
            // Multiply a polynomial by x.
            let shifted = t.integer(random, *random << 1);
            let sign = t.integer(random, *random >> 63);
            let sign = t.integer(sign, *sign * POLYNOMIAL);
            random = t.integer((shifted, sign), *shifted ^ *sign);
            let index = t.integer(random, *random & self.mask);
            let word = self.table.load(t, index, ());
            let word = t.integer((word, random), ());
            self.table.store(t, index, word);
            t.compute(self.work, 4);
            updates = t.integer(updates, ());
            t.branch(true, updates);
            t.pause().await;
        }
    }
}
