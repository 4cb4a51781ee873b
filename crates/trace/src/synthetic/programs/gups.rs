//! GUPS: the RandomAccess benchmark of the HPC Challenge.

use super::{Algorithm, size};
use crate::program::{Place, Running, Space, Tracer, Value};
use crate::synthetic::random::Random;
use crate::synthetic::registry::{Parameter, ParameterKind, Workload};
use crate::synthetic::spec::WorkloadSpec;

pub(in crate::synthetic) const GUPS: Workload = Workload {
    name: "gups",
    summary: "GUPS: updates of random words of a table (HPCC RandomAccess; paper G)",
    parameters: &[
        size("bytes of the table, 1M to 64G, rounded down to a power of two (paper G: 4G)"),
        Parameter {
            name: "instructions",
            kind: ParameterKind::Between(UPDATE_INSTRUCTIONS, 1000),
            default: "56",
            help: "instructions per update (paper G, Table 5: 17.9 reads per 1000)",
        },
    ],
    host_bytes: |_| 0,
    build: Running::boxed::<Gups>,
};

/// The sequence is of polynomials over GF(2), modulo x⁶³ + x² + x + 1 as in HPCC.
const POLYNOMIAL: u64 = 7;
/// Bytes of a word of the table.
const WORD_BYTES: u64 = 8;
/// Instructions of an update: eight that make it and three of the loop.
const UPDATE_INSTRUCTIONS: u64 = 11;

/// Every update reads and writes the word that a pseudo-random number chooses. What the table
/// holds is of no consequence, so nothing is kept of it.
struct Gups {
    table: Place,
    mask: u64,
    first: u64,
    /// Instructions between updates.
    work: u32,
}

impl Algorithm for Gups {
    fn new(spec: &WorkloadSpec, seed: u64, space: &mut Space) -> Self {
        let words = 1 << (spec.size("size") / WORD_BYTES).ilog2();
        Self {
            table: space.place(words, WORD_BYTES),
            mask: words - 1,
            // Zero would be followed by zeros for ever.
            first: Random::new(seed).next() | 1,
            work: (spec.size("instructions") - UPDATE_INSTRUCTIONS) as u32,
        }
    }

    async fn repeat(&mut self, t: &mut Tracer) {
        let mut random = Value::constant(self.first);
        let mut updates = Value::constant(());
        loop {
            // Multiplies a polynomial by x.
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
