//! Gap-tolerant superpages, worked out by hand: what stands in memory, what a walk reads, what the
//! walk cache spares, and random changes against a naive map.

mod address_spaces;
mod cached;
mod dirty;
mod native;
mod nested;
mod per_process;
mod random;
mod tables;
mod walks;
