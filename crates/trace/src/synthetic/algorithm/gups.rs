//! GUPS: the RandomAccess benchmark of the HPC Challenge.

use super::array::{Place, Space};
use super::code::{Code, Op, compare, conditional, integer, load, store};
use super::machine::Machine;
use super::source::Running;
use super::{Algorithm, size};
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
    build: Running::<Gups>::boxed,
};

/// The sequence is of polynomials over GF(2), modulo x⁶³ + x² + x + 1 as in HPCC.
const POLYNOMIAL: u64 = 7;
/// Bytes of a word of the table.
const WORD_BYTES: u64 = 8;

const RANDOM: u8 = 10;
const SHIFTED: u8 = 11;
const SIGN: u8 = 12;
const INDEX: u8 = 13;
const VALUE: u8 = 14;
const COUNT: u8 = 15;
/// The work between updates: four chains that have nothing to do with them.
const WORK: [u8; 4] = [20, 21, 22, 23];

const UPDATE: &[Op] = &[
    integer(SHIFTED, &[RANDOM]),
    integer(SIGN, &[RANDOM]),
    integer(SIGN, &[SIGN]),
    integer(RANDOM, &[SHIFTED, SIGN]),
    integer(INDEX, &[RANDOM]),
    load(VALUE, &[INDEX]),
    integer(VALUE, &[VALUE, RANDOM]),
    store(&[VALUE, INDEX]),
];
const LOOP: &[Op] = &[integer(COUNT, &[COUNT]), compare(&[COUNT]), conditional()];
const UPDATE_INSTRUCTIONS: u64 = (UPDATE.len() + LOOP.len()) as u64;

/// Every update reads and writes the word that a pseudo-random number chooses. What the table
/// holds is of no consequence, so nothing is kept of it.
struct Gups {
    table: Place,
    mask: u64,
    random: u64,
    work: usize,
}

impl Algorithm for Gups {
    fn new(spec: &WorkloadSpec, seed: u64, space: &mut Space) -> Self {
        let words = 1 << (spec.size("size") / WORD_BYTES).ilog2();
        Self {
            table: space.place(words, WORD_BYTES),
            mask: words - 1,
            // Zero would be followed by zeros for ever.
            random: Random::new(seed).next() | 1,
            work: (spec.size("instructions") - UPDATE_INSTRUCTIONS) as usize,
        }
    }

    fn code(&self) -> Code {
        let work = (0..self.work).map(|number| WORK[number % WORK.len()]);
        let work = work.map(|register| integer(register, &[register]));
        let body: Vec<Op> =
            UPDATE.iter().copied().chain(work).chain(LOOP.iter().copied()).collect();
        Code::new(&[&body])
    }

    fn step(&mut self, machine: &mut Machine) {
        self.random = next(self.random);
        let index = self.random & self.mask;
        self.table.read(index, machine);
        self.table.write(index, machine);
        machine.run(0, true);
    }
}

/// Multiplies a polynomial by x.
fn next(random: u64) -> u64 {
    random << 1 ^ if random >> 63 == 1 { POLYNOMIAL } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_polynomial() {
        assert_eq!(next(1), 2);
        assert_eq!(next(1 << 63), 7);
        assert_eq!(next(1 << 63 | 1), 5);
    }
}
