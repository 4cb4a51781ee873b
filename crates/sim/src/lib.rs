//! Machines, schemes, the run loop, counters and results.
