//! One-pass timing model: out-of-order core, caches, DRAM, page walkers.
