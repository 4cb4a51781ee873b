//! Traces, foreign formats and workloads, from outside.

#[path = "../common/mod.rs"]
mod common;
mod corruption;
mod foreign;
mod foreign_formats;
mod foreign_writing;
mod round_trip;
mod workloads;
