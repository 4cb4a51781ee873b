//! Tests of the MMU with ordinary page tables, through its public interface.

mod coalescing;
mod counters;
mod kvm;
mod parts;
mod peers;
mod small_entries;
mod storm;
// Nothing of the hardware was mended for its tables.
#[path = "../../../os/tests/all/linux/table.rs"]
#[allow(dead_code)]
mod table;
