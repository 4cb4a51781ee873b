//! Tests of the MMU with ordinary page tables, through its public interface.

mod coalescing;
mod counters;
mod parts;
mod small_entries;
mod storm;
