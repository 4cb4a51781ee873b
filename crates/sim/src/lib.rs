//! Simulation of translation schemes: machines, operating systems, the run loop, counters and results.
//!
//! A [`Simulation`] is one scheme on one machine. It has an operating system with its own memory, a
//! memory-management unit, optionally a timing model, and optionally an oracle that checks
//! translations. [`run`] decodes the instructions of a workload once and feeds them to one
//! simulation per scheme. Data flow in one direction, with one exception in [`System`]: a page
//! fault goes to the operating system, whose updates come back to the page tables.

mod advised;
mod background;
mod compare;
mod costs;
mod effort;
mod energy;
mod error;
mod exits;
mod explain;
mod feeding;
mod footprint;
mod hardware_threads;
mod host_memory;
mod idle_options;
mod machine;
mod memory;
mod memory_history;
mod mode_switching;
mod observer;
mod operating_system;
mod oracles;
mod phases;
mod placed;
mod processors;
mod recording;
mod registry;
mod request;
mod run_options;
mod sampled;
mod samples;
mod shadow_paging;
mod simulation;
mod snapshot;
mod sparse;
mod spec;
mod stretches;
mod system;
mod translation_work;
mod warmup;
mod wiring;
mod workload;

pub use advised::{AdvisedRange, AdvisedRanges};
pub use compare::run;
pub use energy::EnergyCosts;
pub use error::SimError;
pub use exits::{Exits, HostWork};
pub use explain::{Explained, Explanation, TlbState, explain};
pub use hardware_threads::ProcessorOptions;
pub use machine::{
    Alternative, Machine, MachineFile, Plausible, ProcessorModels, Virtualization, one_line,
};
pub use memory::{GuestOptions, MemoryOptions, MemoryState, SizeOptions, Snapshots};
pub use mode_switching::ModeSwitching;
pub use observer::{FiguresOnly, Observer, Progress, Silent};
pub use operating_system::{OperatingSystemCosts, OperatingSystemCycles};
pub use perforate_records::{
    ContentsPoint, MemoryMap, MemoryPoint, Region, RunResult, Sampled, Series, Vocabulary, Warmup,
};
pub use perforate_schemes::{self as scheme, Composition, PolicyOptions, Scheme, SchemeError};
pub use phases::{Phase, PhasedRun};
pub use placed::SchemeSetup;
pub use recording::{CUT_OFF, recording_notes};
pub use registry::{counters, vocabulary};
pub use request::Request;
pub use run_options::{MeasuringOptions, PlacementOptions, WarmupLength};
pub use sampled::{TimedWindows, Timing};
pub use simulation::{RunOptions, Simulation};
pub use snapshot::{MemorySnapshot, host_record};
pub use spec::{ResolvedRun, RunSpec};
pub use system::{System, SystemOptions};
pub use wiring::{Side, Wiring};
pub use workload::{Workload, open_trace, open_workload};

/// Documentation test that compiles and runs the code in the tutorial on adding a scheme.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/adding-a-scheme.md")]
struct AddingAScheme;
