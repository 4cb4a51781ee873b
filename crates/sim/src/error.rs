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
        "a guest with {} of memory does not fit into a host with {}: choose a larger host-memory, a smaller \
         memory, or overcommit with host-swap",
        Size(*guest_bytes), Size(*host_bytes)
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

#[cfg(test)]
mod tests {
    use std::io;

    use perforate_types::{PhysicalAddress, SpaceId};

    use super::*;

    /// Every error in full, with a different value for each part.
    #[test]
    fn errors_name_each_part_in_its_place() {
        use SimError as E;
        let (scheme, machine) = (|| "thp".to_owned(), || "zen".to_owned());
        let missing = || io::Error::new(io::ErrorKind::NotFound, "gone");
        let source = || Disagreement {
            space: SpaceId(3),
            address: VirtualAddress::new(0x5000),
            kind: AccessKind::Write,
            expected: Some(PhysicalAddress::new(0x6000)),
            got: None,
        };
        let differs = source().to_string();
        let memory = || OsError::from(ConfigError::new("no room"));
        let (instruction, seed) = (17, 4);
        for (error, expected) in [
            (
                E::MachineFile { path: "a/m.toml".into(), source: missing() },
                "a/m.toml: gone".to_owned(),
            ),
            (
                E::Machine { name: machine(), problem: "line 3: no".into() },
                "machine zen: line 3: no".into(),
            ),
            (
                E::UnknownMachine { name: "zn".into(), suggestion: "did you mean zen?".into() },
                "no machine \"zn\"; did you mean zen?; or give the path of a machine file (.toml)"
                    .into(),
            ),
            (
                E::GuestTooLarge { guest_bytes: 9, host_bytes: 8 },
                "a guest with 9B of memory does not fit into a host with 8B: choose a larger host-memory, \
                 a smaller memory, or overcommit with host-swap"
                    .into(),
            ),
            (E::Stopped.of_host(), "host: the run was stopped before its end".into()),
            (
                E::Config(ConfigError::new("is odd").under("age")).of_host(),
                "host: age: is odd".into(),
            ),
            (
                E::GuestTooLarge { guest_bytes: 2, host_bytes: 1 }.of_host(),
                "a guest with 2B of memory does not fit into a host with 1B: choose a larger host-memory, \
                 a smaller memory, or overcommit with host-swap"
                    .into(),
            ),
            (
                E::NoLargeEntries { scheme: scheme(), machine: machine() },
                "scheme thp: perforated pages are 2MB-grained entries of the second-level TLB, \
                 which holds 4KB entries only on zen (tlb.l2_2m = \"none\"); choose another scheme \
                 or machine"
                    .into(),
            ),
            (
                E::UnknownWorkload { name: "gup".into(), hint: "did you mean gups?".into() },
                "no workload or file \"gup\"; did you mean gups?".into(),
            ),
            (
                E::MemoryBeyondCaches { memory_bytes: 5, machine: machine(), limit_bytes: 4 },
                "5 bytes of memory are more than the caches of zen can tell apart, which is 4 bytes; \
                 a functional run goes without caches"
                    .into(),
            ),
            (
                E::MachineTooLarge {
                    machine: machine(),
                    key: "tlb.l2.entries",
                    value: 77,
                    for_whom: "2 cores and 1 scheme".into(),
                    total: Size(4 << 30),
                    most: Size(3 << 30),
                },
                "machine zen: tlb.l2.entries = 77 is too large for 2 cores and 1 scheme: its TLBs, \
                 caches and predictors take 4G of this computer's memory; at most 3G are possible"
                    .into(),
            ),
            (
                E::SkipBeyondEnd { name: "t".into(), skip: 9, instructions: 8 },
                "--skip 9: t has 8 instructions; expected fewer to be skipped".into(),
            ),
            (
                E::SkipBeyondEnd { name: "t".into(), skip: 9, instructions: 0 },
                "--skip 9: t has 0 instructions that can be skipped; expected fewer to be skipped"
                    .into(),
            ),
            (
                E::SkipOfGenerated { skip: 9, most: 8 },
                "--skip 9: a synthetic workload is generated as it is skipped, and has no end; \
                 expected at most 8 instructions"
                    .into(),
            ),
            (
                E::Thread(missing()),
                "a thread cannot be started (gone); expected room for one more in the limits of \
                 this user (ulimit -u) and in memory"
                    .into(),
            ),
            (E::Snapshot { path: "s".into(), problem: "is empty".into() }, "s: is empty".into()),
            (
                E::Os { scheme: scheme(), instruction, source: memory() },
                "scheme thp, instruction 17: no room".into(),
            ),
            (
                E::HostOs { scheme: scheme(), instruction, source: memory() },
                "scheme thp, instruction 17, host: no room".into(),
            ),
            (
                E::Disagreement { scheme: scheme(), seed, instruction, source: source() },
                format!("scheme thp, seed 4, instruction 17: {differs}"),
            ),
            (
                E::StuckFault {
                    scheme: scheme(),
                    seed,
                    instruction,
                    kind: AccessKind::Write,
                    address: VirtualAddress::new(0x5000),
                    fault: PageFault::Protection,
                },
                "scheme thp, seed 4, instruction 17: Write of 0x5000 still faults (Protection) after \
                 the operating system mapped it"
                    .into(),
            ),
            (
                E::TooMuchAsked { workload: "t".into(), event: 3, instruction, most: 9 },
                "t: event 3, at instruction 17: events have the operating system look at more than 9 \
                 pages that no instruction is there for; expected those of a program, with its \
                 instructions between them"
                    .into(),
            ),
            (
                E::NoTimedWindow { instructions: 6 },
                "none of the 6 measured instructions was timed: with --timing \
                 sampled=WINDOW/PERIOD there is one window in each period; choose a shorter period, \
                 or more instructions"
                    .into(),
            ),
            (
                E::SampledTwice,
                "the trace is a sample already (perforate record --sample): --timing sampled is for \
                 traces of a whole program"
                    .into(),
            ),
            (
                E::SampledTiming,
                "sampled timing is for one hardware thread: leave --timing sampled out, or run on \
                 one core"
                    .into(),
            ),
            (
                E::WindowWarmup,
                "window-warmup is for one hardware thread: leave it out, or run on one core".into(),
            ),
            (
                E::NoInstructions { name: "t".into(), why: ": cut".into() },
                "t: no instructions to run: cut".into(),
            ),
            (
                E::HostMemory {
                    scheme: scheme(),
                    needed_bytes: 5 << 29,
                    available_bytes: 1 << 30,
                },
                "scheme thp: simulating all its 4KB pages takes 2.5 GB of this computer's memory, of \
                 which 1.0 GB are available; a smaller workload or memory would do"
                    .into(),
            ),
            (
                E::WorkloadMemory {
                    workload: "bfs".into(),
                    needed_bytes: 5 << 29,
                    available_bytes: 1 << 30,
                },
                "workload bfs: its data take 2.5 GB of this computer's memory, of which 1.0 GB are \
                 available; a smaller size would do"
                    .into(),
            ),
            (
                E::NothingTimed { instructions: 6 },
                "timing: the 6 instructions that were timed end before a cycle has passed; longer \
                 windows or more --instructions can be timed"
                    .into(),
            ),
            (
                E::WarmupTooLong { warmup: 9, instructions: 6 },
                "warmup of 9 instructions: the run has only 6; nothing is left to measure".into(),
            ),
        ] {
            assert_eq!(error.to_string(), expected);
        }
    }
}
