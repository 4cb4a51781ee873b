//! What can go wrong in a simulation.

use std::path::PathBuf;

use perforate_config::{ConfigError, Size};
use perforate_mmu::PageFault;
use perforate_oracle::{Disagreement, OracleError};
use perforate_os::OsError;
use perforate_timing::TimingError;
use perforate_trace::TraceError;
use perforate_types::{AccessKind, VirtualAddress};

/// Why a simulation could not be set up or ended early.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// A machine file cannot be read.
    #[error("{}: {source}", path.display())]
    MachineFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A machine file is not right.
    #[error("machine {name}: {problem}")]
    Machine {
        /// The machine's name or file.
        name: String,
        /// What is wrong, where, and what would be right.
        problem: String,
    },
    /// There is no machine of that name.
    #[error("no machine {name:?}; {suggestion}; or give the path of a machine file (.toml)")]
    UnknownMachine {
        /// What was asked for.
        name: String,
        /// The nearest name, or all of them.
        suggestion: String,
    },
    /// No scheme, or no pair of schemes.
    #[error(transparent)]
    Scheme(#[from] perforate_schemes::SchemeError),
    /// A guest with more memory than its host.
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
    /// The host's memory.
    #[error("host: {0}")]
    Host(Box<SimError>),
    /// An option that is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A scheme whose entries the machine's TLBs cannot hold.
    #[error(
        "scheme {scheme}: perforated pages are 2MB-grained entries of the second-level TLB, which \
         holds 4KB entries only on {machine} (tlb.l2_2m = \"none\"); choose another scheme or machine"
    )]
    NoLargeEntries {
        /// The scheme.
        scheme: String,
        /// The machine.
        machine: String,
    },
    /// There is no workload or file of that name.
    #[error("no workload or file {name:?}; {hint}")]
    UnknownWorkload {
        /// What was asked for.
        name: String,
        /// The nearest name, or all there are.
        hint: String,
    },
    /// Memory whose addresses the timing model's caches cannot tell apart.
    #[error(
        "{memory_bytes} bytes of memory are more than the caches of {machine} can tell apart, which \
         is {limit_bytes} bytes; a functional run goes without caches"
    )]
    MemoryBeyondCaches {
        /// Memory asked for.
        memory_bytes: u64,
        /// The machine.
        machine: String,
        /// The most its caches can tell apart.
        limit_bytes: u64,
    },
    /// Values of a machine that are too large together.
    #[error(
        "machine {machine}: {key} = {value} is too large for {for_whom}: its TLBs, caches and predictors \
         take {total} of this computer's memory; at most {most} are possible"
    )]
    MachineTooLarge {
        /// Name of the machine.
        machine: String,
        /// Key of the machine that takes most memory.
        key: &'static str,
        /// Value of that key.
        value: u64,
        /// Cores and schemes.
        for_whom: String,
        /// Memory that all of it takes.
        total: Size,
        /// Memory that is possible.
        most: Size,
    },
    /// More was to be skipped than there is.
    #[error(
        "--skip {skip}: {name} has {instructions} instructions{}; expected fewer to be skipped",
        if *instructions == 0 { " that can be skipped" } else { "" }
    )]
    SkipBeyondEnd {
        /// The workload.
        name: String,
        /// Instructions to be skipped.
        skip: u64,
        /// Instructions that there are.
        instructions: u64,
    },
    /// More was to be skipped of a synthetic workload than anybody waits for.
    #[error(
        "--skip {skip}: a synthetic workload is generated as it is skipped, and has no end; expected at \
         most {most} instructions"
    )]
    SkipOfGenerated {
        /// Instructions to be skipped.
        skip: u64,
        /// Most that can be skipped.
        most: u64,
    },
    /// A thread cannot be started.
    #[error(
        "a thread cannot be started ({0}); expected room for one more in the limits of this user \
         (ulimit -u) and in memory"
    )]
    Thread(std::io::Error),
    /// A snapshot that cannot be used.
    #[error("{path}: {problem}")]
    Snapshot {
        /// The file.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A trace or workload.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The simulated operating system.
    #[error("scheme {scheme}, instruction {instruction}: {source}")]
    Os {
        /// Which scheme.
        scheme: String,
        /// Instructions done before.
        instruction: u64,
        /// What it said.
        source: OsError,
    },
    /// The simulated operating system of the host.
    #[error("scheme {scheme}, instruction {instruction}, host: {source}")]
    HostOs {
        /// Which scheme.
        scheme: String,
        /// Instructions done before.
        instruction: u64,
        /// What it said.
        source: OsError,
    },
    /// The timing model's configuration.
    #[error(transparent)]
    Timing(#[from] TimingError),
    /// A translation differs from the oracle's.
    #[error("scheme {scheme}, seed {seed}, instruction {instruction}: {source}")]
    Disagreement {
        /// Which scheme.
        scheme: String,
        /// Seed to replay it with.
        seed: u64,
        /// Instructions done before.
        instruction: u64,
        /// What was expected and what came.
        source: Disagreement,
    },
    /// The operating system model emitted a change that cannot be.
    #[error("scheme {scheme}, seed {seed}, instruction {instruction}: {source}")]
    Oracle {
        /// Which scheme.
        scheme: String,
        /// Seed to replay it with.
        seed: u64,
        /// Instructions done before.
        instruction: u64,
        /// What the oracle said.
        source: OracleError,
    },
    /// A page was mapped and still faults.
    #[error(
        "scheme {scheme}, seed {seed}, instruction {instruction}: {kind:?} of {address:#x} still \
         faults ({fault:?}) after the operating system mapped it"
    )]
    StuckFault {
        /// Which scheme.
        scheme: String,
        /// Seed to replay it with.
        seed: u64,
        /// Instructions done before.
        instruction: u64,
        /// The access.
        kind: AccessKind,
        /// Its address.
        address: VirtualAddress,
        /// What the unit said last.
        fault: PageFault,
    },
    /// Events ask for more than any program does.
    #[error(
        "{workload}: event {event}, at instruction {instruction}: events have the operating system \
         look at more than {most} pages that no instruction is there for; expected those of a \
         program, with its instructions between them"
    )]
    TooMuchAsked {
        /// The workload.
        workload: String,
        /// Events up to this one.
        event: u64,
        /// Instructions before it.
        instruction: u64,
        /// Pages that would be right.
        most: u64,
    },
    /// Windows were to be timed, and the run ended before the first.
    #[error(
        "none of the {instructions} measured instructions was timed: with --timing \
         sampled=WINDOW/PERIOD there is one window in each period; choose a shorter period, or more \
         instructions"
    )]
    NoTimedWindow {
        /// Instructions measured.
        instructions: u64,
    },
    /// Windows were to be timed of a trace that has windows only.
    #[error(
        "the trace is a sample already (perforate record --sample): --timing sampled is for traces of a whole \
         program"
    )]
    SampledTwice,
    /// Windows are timed of one hardware thread only.
    #[error(
        "sampled timing is for one hardware thread: leave --timing sampled out, or run on one core"
    )]
    SampledTiming,
    /// The beginnings of windows are left out of one hardware thread's figures only.
    #[error("window-warmup is for one hardware thread: leave it out, or run on one core")]
    WindowWarmup,
    /// There is nothing to simulate.
    #[error("{name}: no instructions to run{why}")]
    NoInstructions {
        /// The workload.
        name: String,
        /// Why there are none, where that is known, after a colon.
        why: String,
    },
    /// This computer cannot hold the simulated page tables.
    #[error(
        "scheme {scheme}: simulating all its 4KB pages takes {:.1} GB of this computer's memory, of \
         which {:.1} GB are available; a smaller workload or memory would do",
        *needed_bytes as f64 / f64::from(1 << 30), *available_bytes as f64 / f64::from(1 << 30)
    )]
    HostMemory {
        /// The scheme.
        scheme: String,
        /// What it would take.
        needed_bytes: u64,
        /// What there is.
        available_bytes: u64,
    },
    /// This computer cannot hold the contents of a workload's data.
    #[error(
        "workload {workload}: its data take {:.1} GB of this computer's memory, of which {:.1} GB are \
         available; a smaller size would do",
        *needed_bytes as f64 / f64::from(1 << 30), *available_bytes as f64 / f64::from(1 << 30)
    )]
    WorkloadMemory {
        /// The workload.
        workload: String,
        /// What it would take.
        needed_bytes: u64,
        /// What there is.
        available_bytes: u64,
    },
    /// Whoever asked for the run no longer wants it.
    #[error("the run was stopped before its end")]
    Stopped,
    /// The timed instructions took no cycle.
    #[error(
        "timing: the {instructions} instructions that were timed end before a cycle has passed; longer \
         windows or more --instructions can be timed"
    )]
    NothingTimed {
        /// Instructions that were timed.
        instructions: u64,
    },
    /// The warm-up takes the whole run.
    #[error(
        "warmup of {warmup} instructions: the run has only {instructions}; nothing is left to measure"
    )]
    WarmupTooLong {
        /// Instructions of warm-up asked for.
        warmup: u64,
        /// Instructions there were.
        instructions: u64,
    },
}

impl SimError {
    /// The same of an option of the host's memory.
    pub(crate) fn of_host(self) -> Self {
        match self {
            Self::GuestTooLarge { .. } => self,
            Self::Config(error) => Self::Config(error.under("host")),
            other => Self::Host(Box::new(other)),
        }
    }
}
