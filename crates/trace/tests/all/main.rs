//! Tests of traces and foreign formats through the public interface.

#[path = "../common/mod.rs"]
mod common;
mod corruption;
mod edges;
mod foreign;
mod foreign_formats;
mod foreign_writing;
mod kept;
mod round_trip;
mod threads;
