//! The memory-management unit with ordinary page tables, from outside.

mod coalescing;
mod counters;
mod parts;
mod small_entries;
mod storm;
