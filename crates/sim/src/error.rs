//! Errors of a simulation.

use std::path::PathBuf;

use perforate_config::{ConfigError, Size};
use perforate_mmu::PageFault;
use perforate_oracle::{Disagreement, OracleError};
use perforate_os::OsError;
use perforate_timing::TimingError;
use perforate_trace::TraceError;
use perforate_types::{AccessKind, VirtualAddress};

/// Error that prevents a simulation or ends it early.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// A machine file cannot be read.
    #[error("{}: {source}", path.display())]
    MachineFile {
        /// Path of the machine file.
        path: PathBuf,
        /// I/O error that the file system reported.
        source: std::io::Error,
    },
    /// A machine file is invalid.
    #[error("machine {name}: {problem}")]
    Machine {
        /// Name or path of the machine.
        name: String,
        /// Problem, its place in the file, and the expected value.
        problem: String,
    },
    /// There is no machine of that name.
    #[error("no machine {name:?}; {suggestion}; or give the path of a machine file (.toml)")]
    UnknownMachine {
        /// Name that was requested.
        name: String,
        /// Nearest name, or a list of all names.
        suggestion: String,
    },
    /// A scheme or pair of schemes does not exist or is impossible.
    #[error(transparent)]
    Scheme(#[from] perforate_schemes::SchemeError),
    /// The guest has more memory than its host.
    #[error(
        "a guest with {guest_bytes} bytes of memory does not fit into a host with {host_bytes}: \
         choose a larger host memory, a smaller memory, or overcommit with swap of the host"
    )]
    GuestTooLarge {
        /// The guest's memory in bytes.
        guest_bytes: u64,
        /// The host's memory in bytes.
        host_bytes: u64,
    },
    /// An error in the memory or options of the host, not of the guest.
    #[error("host: {0}")]
    Host(Box<SimError>),
    /// An option has a wrong value.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The machine's TLBs cannot hold the entries of a scheme.
    #[error(
        "scheme {scheme}: perforated pages are 2MB-grained entries of the second-level TLB, which \
         holds 4KB entries only on {machine} (tlb.l2_2m = \"none\"); choose another scheme or machine"
    )]
    NoLargeEntries {
        /// Name of the scheme.
        scheme: String,
        /// Name of the machine.
        machine: String,
    },
    /// There is no workload or file of that name.
    #[error("no workload or file {name:?}; {hint}")]
    UnknownWorkload {
        /// Name that was requested.
        name: String,
        /// Nearest name, or a list of all names.
        hint: String,
    },
    /// The timing model's cache tags cannot distinguish all addresses of the memory.
    #[error(
        "{memory_bytes} bytes of memory are more than the caches of {machine} can tell apart, which \
         is {limit_bytes} bytes; a functional run goes without caches"
    )]
    MemoryBeyondCaches {
        /// Memory of the run in bytes.
        memory_bytes: u64,
        /// Name of the machine.
        machine: String,
        /// Largest size of a memory in bytes whose addresses the machine's caches can distinguish.
        limit_bytes: u64,
    },
    /// The TLBs, caches and predictors of a machine file together take too much of this computer's
    /// memory.
    #[error(
        "machine {machine}: {key} = {value} is too large for {for_whom}: its TLBs, caches and predictors \
         take {total} of this computer's memory; at most {most} are possible"
    )]
    MachineTooLarge {
        /// Name of the machine.
        machine: String,
        /// Key of the machine file whose structure takes the most memory.
        key: &'static str,
        /// Value of that key.
        value: u64,
        /// Phrase with the numbers of cores and schemes, each of which has its own structures.
        for_whom: String,
        /// Memory of this computer that all simulated structures together take.
        total: Size,
        /// Largest memory of this computer that all simulated structures together may take.
        most: Size,
    },
    /// `--skip` reaches beyond the end of the workload.
    #[error(
        "--skip {skip}: {name} has {instructions} instructions{}; expected fewer to be skipped",
        if *instructions == 0 { " that can be skipped" } else { "" }
    )]
    SkipBeyondEnd {
        /// Name of the workload.
        name: String,
        /// Number of instructions to skip.
        skip: u64,
        /// Number of instructions in the workload.
        instructions: u64,
    },
    /// `--skip` is too large for a synthetic workload.
    #[error(
        "--skip {skip}: a synthetic workload is generated as it is skipped, and has no end; expected at \
         most {most} instructions"
    )]
    SkipOfGenerated {
        /// Number of instructions to skip.
        skip: u64,
        /// Largest number of instructions that can be skipped.
        most: u64,
    },
    /// A thread cannot be started.
    #[error(
        "a thread cannot be started ({0}); expected room for one more in the limits of this user \
         (ulimit -u) and in memory"
    )]
    Thread(std::io::Error),
    /// A snapshot cannot be used.
    #[error("{path}: {problem}")]
    Snapshot {
        /// Path of the snapshot, as the user gave it.
        path: String,
        /// Description of the problem with the file.
        problem: String,
    },
    /// A trace or workload has an error.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The simulated operating system reports an error.
    #[error("scheme {scheme}, instruction {instruction}: {source}")]
    Os {
        /// Name of the scheme.
        scheme: String,
        /// Number of instructions executed before the error.
        instruction: u64,
        /// Error of the operating system.
        source: OsError,
    },
    /// The host's simulated operating system reports an error.
    #[error("scheme {scheme}, instruction {instruction}, host: {source}")]
    HostOs {
        /// Name of the scheme.
        scheme: String,
        /// Number of instructions executed before the error.
        instruction: u64,
        /// Error of the host's operating system.
        source: OsError,
    },
    /// The configuration of the timing model is invalid.
    #[error(transparent)]
    Timing(#[from] TimingError),
    /// A translation differs from the oracle's.
    #[error("scheme {scheme}, seed {seed}, instruction {instruction}: {source}")]
    Disagreement {
        /// Name of the scheme.
        scheme: String,
        /// Seed that reproduces the error.
        seed: u64,
        /// Number of instructions executed before the error.
        instruction: u64,
        /// Expected and actual translation.
        source: Disagreement,
    },
    /// The simulated operating system sent an update that contradicts earlier ones.
    #[error("scheme {scheme}, seed {seed}, instruction {instruction}: {source}")]
    Oracle {
        /// Name of the scheme.
        scheme: String,
        /// Seed that reproduces the error.
        seed: u64,
        /// Number of instructions executed before the error.
        instruction: u64,
        /// Error of the oracle.
        source: OracleError,
    },
    /// An access still faults after the operating system mapped its page.
    #[error(
        "scheme {scheme}, seed {seed}, instruction {instruction}: {kind:?} of {address:#x} still \
         faults ({fault:?}) after the operating system mapped it"
    )]
    StuckFault {
        /// Name of the scheme.
        scheme: String,
        /// Seed that reproduces the error.
        seed: u64,
        /// Number of instructions executed before the error.
        instruction: u64,
        /// Kind of the access.
        kind: AccessKind,
        /// Virtual address of the access.
        address: VirtualAddress,
        /// Fault of the last attempt.
        fault: PageFault,
    },
    /// The events of a workload request more work than those of any real program.
    #[error(
        "{workload}: event {event}, at instruction {instruction}: events have the operating system \
         look at more than {most} pages that no instruction is there for; expected those of a \
         program, with its instructions between them"
    )]
    TooMuchAsked {
        /// Name of the workload.
        workload: String,
        /// Number of the event, counted from 1.
        event: u64,
        /// Number of instructions before the event.
        instruction: u64,
        /// Largest number of pages that events may make the kernel process.
        most: u64,
    },
    /// The run ended before the first window of sampled timing.
    #[error(
        "none of the {instructions} measured instructions was timed: with --timing \
         sampled=WINDOW/PERIOD there is one window in each period; choose a shorter period, or more \
         instructions"
    )]
    NoTimedWindow {
        /// Number of measured instructions.
        instructions: u64,
    },
    /// Sampled timing was requested for a trace that is a sample already.
    #[error(
        "the trace is a sample already (perforate record --sample): --timing sampled is for traces of a whole \
         program"
    )]
    SampledTwice,
    /// Sampled timing was requested with several hardware threads.
    #[error(
        "sampled timing is for one hardware thread: leave --timing sampled out, or run on one core"
    )]
    SampledTiming,
    /// `window-warmup` was requested with several hardware threads.
    #[error("window-warmup is for one hardware thread: leave it out, or run on one core")]
    WindowWarmup,
    /// A workload has no instructions.
    #[error("{name}: no instructions to run{why}")]
    NoInstructions {
        /// Name of the workload.
        name: String,
        /// Reason with a colon before it; empty if unknown.
        why: String,
    },
    /// This computer has too little memory to simulate a scheme's page tables.
    #[error(
        "scheme {scheme}: simulating all its 4KB pages takes {:.1} GB of this computer's memory, of \
         which {:.1} GB are available; a smaller workload or memory would do",
        *needed_bytes as f64 / f64::from(1 << 30), *available_bytes as f64 / f64::from(1 << 30)
    )]
    HostMemory {
        /// Name of the scheme.
        scheme: String,
        /// Memory of this computer that is needed, in bytes.
        needed_bytes: u64,
        /// Memory of this computer that is available, in bytes.
        available_bytes: u64,
    },
    /// This computer has too little memory for the contents of a workload's data.
    #[error(
        "workload {workload}: its data take {:.1} GB of this computer's memory, of which {:.1} GB are \
         available; a smaller size would do",
        *needed_bytes as f64 / f64::from(1 << 30), *available_bytes as f64 / f64::from(1 << 30)
    )]
    WorkloadMemory {
        /// Name of the workload.
        workload: String,
        /// Memory of this computer that is needed, in bytes.
        needed_bytes: u64,
        /// Memory of this computer that is available, in bytes.
        available_bytes: u64,
    },
    /// The observer cancelled the run.
    #[error("the run was stopped before its end")]
    Stopped,
    /// The timed instructions took no cycle.
    #[error(
        "timing: the {instructions} instructions that were timed end before a cycle has passed; longer \
         windows or more --instructions can be timed"
    )]
    NothingTimed {
        /// Number of timed instructions.
        instructions: u64,
    },
    /// The warm-up is at least as long as the run.
    #[error(
        "warmup of {warmup} instructions: the run has only {instructions}; nothing is left to measure"
    )]
    WarmupTooLong {
        /// Number of instructions of the warm-up.
        warmup: u64,
        /// Number of instructions of the run.
        instructions: u64,
    },
}

impl SimError {
    /// Wraps this error to say that it concerns the host's memory or options, not the guest's.
    pub(crate) fn of_host(self) -> Self {
        match self {
            Self::GuestTooLarge { .. } => self,
            Self::Config(error) => Self::Config(error.under("host")),
            other => Self::Host(Box::new(other)),
        }
    }
}
