//! Modules of the library for advice; also compiled into this crate's tests.

mod areas;
mod begin;
#[path = "../preload/environment.rs"]
mod environment;
mod functions;
mod items;
mod own_maps;
mod patch;
#[path = "../preload/report.rs"]
mod report;
#[allow(dead_code)] // the library for layouts uses the rest
#[path = "../preload/system.rs"]
pub mod system;
