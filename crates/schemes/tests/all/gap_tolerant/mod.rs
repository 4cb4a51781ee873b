//! Gap-tolerant superpages, worked out by hand: contents of memory, reads of walks, hits in the
//! walk cache, and random changes compared with a naive map.

mod address_spaces;
mod cached;
mod dirty;
mod five_levels;
mod native;
mod nested;
mod per_process;
mod random;
mod tables;
mod walks;
