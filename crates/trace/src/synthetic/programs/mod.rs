//! Workloads that run an algorithm on data of their own.
//!
//! They stand for the programs of paper G, §4.2: GUPS, canneal and seven benchmarks on
//! dictionaries, graphs and matrices. Data are made when the first instruction is asked for, which
//! takes some seconds per gigabyte of a graph; the program starts with its memory mapped in full
//! and filled. When an algorithm is done, it starts over.

mod breadth_first;
mod canneal;
mod dictionary;
mod graph;
mod gups;
mod independent_set;
mod matching;
mod rmat;
mod set_cover;
mod spanning_tree;
mod sparse_matrix;

#[cfg(test)]
mod tests;

use super::registry::{Parameter, ParameterKind};

pub(super) use breadth_first::BREADTH_FIRST;
pub(super) use canneal::CANNEAL;
pub(super) use dictionary::DICTIONARY;
pub(super) use gups::GUPS;
pub(super) use independent_set::INDEPENDENT_SET;
pub(super) use matching::MATCHING;
pub(super) use set_cover::SET_COVER;
pub(super) use spanning_tree::SPANNING_TREE;
pub(super) use sparse_matrix::SPARSE_MATRIX;

/// Bytes that sizes leave unused, so that each array can begin on a page of its own.
const SLACK_BYTES: u64 = 64 << 10;

/// The `size` of a workload whose data in paper G's Table 5 take `help` says how much. 64G keeps
/// the numbers of elements below 2³².
const fn size(help: &'static str) -> Parameter {
    Parameter { name: "size", kind: ParameterKind::Size(1 << 20, 64 << 30), default: "1G", help }
}
