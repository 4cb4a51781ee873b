//! Workloads that run an algorithm on data of their own and record its instructions.
//!
//! They stand for the programs of paper G, §4.2: GUPS, canneal and seven benchmarks on
//! dictionaries, graphs and matrices. Each is a state machine ([`Algorithm`]) whose steps do a bit
//! of the work on real contents, so that addresses, dependencies and branches are those of the
//! algorithm. Data are made when the first instruction is asked for, which takes some seconds per
//! gigabyte of a graph; the program starts with its memory mapped in full and filled.

mod array;
mod code;
mod graph;
mod machine;
mod rmat;
mod source;

mod breadth_first;
mod canneal;
mod dictionary;
mod gups;
mod independent_set;
mod matching;
mod set_cover;
mod spanning_tree;
mod sparse_matrix;

#[cfg(test)]
mod tests;

use array::Space;
use code::Code;
use machine::Machine;

use super::registry::{Parameter, ParameterKind};
use super::spec::WorkloadSpec;

pub(super) use breadth_first::BREADTH_FIRST;
pub(super) use canneal::CANNEAL;
pub(super) use dictionary::DICTIONARY;
pub(super) use gups::GUPS;
pub(super) use independent_set::INDEPENDENT_SET;
pub(super) use matching::MATCHING;
pub(super) use set_cover::SET_COVER;
pub(super) use spanning_tree::SPANNING_TREE;
pub(super) use sparse_matrix::SPARSE_MATRIX;

/// An algorithm as a state machine that never ends: when it is done, it starts over.
trait Algorithm: Send + Sized + 'static {
    /// Makes the data, as the program's initialisation would leave them.
    fn new(spec: &WorkloadSpec, seed: u64, space: &mut Space) -> Self;

    /// The blocks that steps run.
    fn code(&self) -> Code;

    /// Does a bit of work: at least one instruction, and no more than some hundred.
    fn step(&mut self, machine: &mut Machine);
}

/// Bytes that sizes leave unused, so that each array can begin on a page of its own.
const SLACK_BYTES: u64 = 64 << 10;

/// The `size` of a workload whose data in paper G's Table 5 take `help` says how much. 64G keeps
/// the numbers of elements below 2³².
const fn size(help: &'static str) -> Parameter {
    Parameter { name: "size", kind: ParameterKind::Size(1 << 20, 64 << 30), default: "1G", help }
}
