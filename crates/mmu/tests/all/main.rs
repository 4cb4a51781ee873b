//! The memory-management unit with ordinary page tables, from outside.

mod coalescing;
mod small_entries;
