//! What can be asked of the machine itself: its processor and memory, how large pages are set up,
//! how programs run on it with and without them.
//!
//! Files are read by functions from bytes, so that any content, also a damaged one, can be tried on
//! them; what cannot be read is absent, not wrong. Those of `/proc` on memory are in
//! [`proc`](crate::proc). The parts that call the operating system ([`Area`], [`Worker`],
//! [`time_program`]) change nothing outside their own processes.

mod area;
mod benchmark;
mod clock;
mod counters;
mod cpuid;
mod large_pages;
mod limit;
mod processor;
mod program;
mod settings;
mod worker;

pub use area::{Advice, Area};
pub use benchmark::{Benchmark, Paging, Prepared};
pub use clock::clock_ghz;
pub use cpuid::{TlbSize, TlbUse, amd_tlbs, intel_tlbs};
pub use large_pages::{LargePageSettings, chosen};
pub use limit::{Headroom, MemoryLimit, bounded, parse_cgroups};
pub use processor::{CacheSize, Processor, parse_cpuinfo};
pub use program::{ProgramTime, large_share_of_program, time_program};
pub(crate) use settings::parse_allowed;
pub use settings::{first_to_be_killed, pin, without_large_pages};
pub use worker::{Job, Measured, Worker, WorkerState, serve};
pub(crate) use worker::{parse_done, parse_ready};
