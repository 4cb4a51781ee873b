//! Tests of the MMU with ordinary page tables, through its public interface.

mod coalescing;
mod config;
mod contiguous;
mod counters;
mod five_levels;
mod kvm;
mod parts;
mod peers;
mod radix;
mod small_entries;
mod storm;
#[path = "../../../os/tests/all/linux/table.rs"]
#[allow(dead_code)]
mod table;
