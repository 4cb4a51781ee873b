//! Sources of instructions, by name: trace files and synthetic workloads.

use std::path::Path;

use perforate_config::{ConfigError, Count, nearest};
use perforate_trace::{
    ConcurrentPrograms, InterleavedThreads, Limited, STANDARD_INPUT, SharedOut, Source,
    TraceFormat, bundled,
};
use perforate_workloads::layout::Pooled;
use perforate_workloads::{WORKLOADS, WorkloadSpec};

use serde::Serialize;

use crate::advised::Advised;
use crate::sparse::Sparse;
use crate::{AdvisedRanges, MemoryState, PlacementOptions, SimError, host_memory};

/// Programs to run, and the number of instructions to skip and to run.
#[derive(Clone, Debug, Serialize)]
pub struct Workload {
    /// Name of a synthetic workload with its parameters (`random:size=4G`), or the path of a trace.
    pub name: String,
    /// Number of threads that share the work of a synthetic workload; 1 for a trace, which has its
    /// recorded threads.
    pub threads: u16,
    /// Other workloads or traces that run at the same time, each as a separate process.
    pub beside: Vec<String>,
    /// Length of a section of the recording, in instructions. Turns of threads that were recorded
    /// within a section run in parallel. `None` keeps the recorded order.
    pub side_by_side: Option<u64>,
    /// Ranges of addresses for which the program requests large pages, besides its own requests.
    #[serde(skip_serializing_if = "AdvisedRanges::is_empty")]
    pub advised: AdvisedRanges,
    /// Number of instructions to skip at the beginning. The mappings that they make remain.
    pub skip: u64,
    /// Largest number of instructions to run, including the warm-up; `None` for no limit.
    pub instructions: Option<u64>,
}

impl Workload {
    /// Number of instructions to run of an endless workload if no limit is given.
    pub const DEFAULT_INSTRUCTIONS: u64 = 20_000_000;

    /// Creates a workload from its name, and the other programs, threads and limits in the options.
    pub fn new(name: String, placement: &PlacementOptions) -> Self {
        let processors = placement.processors();
        let is_side_by_side = processors.are_several() && processors.side_by_side > 0;
        Self {
            name,
            threads: u16::try_from(placement.threads.get()).unwrap_or(u16::MAX),
            beside: placement.beside.as_deref().map(Self::list).unwrap_or_default(),
            side_by_side: is_side_by_side.then_some(processors.side_by_side),
            advised: placement.madvise.clone().unwrap_or_default(),
            skip: placement.skip.get(),
            instructions: placement.instructions.map(Count::get),
        }
    }

    /// Creates a workload that runs alone and to its end.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            threads: 1,
            beside: Vec::new(),
            side_by_side: None,
            advised: AdvisedRanges::default(),
            skip: 0,
            instructions: None,
        }
    }

    /// Returns the names of all programs, beginning with this workload's.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.name).chain(&self.beside).map(String::as_str)
    }

    /// Splits a list of names at `+`, unless the whole list is the path of a file. Names of bundled
    /// traces become paths.
    pub fn list(names: &str) -> Vec<String> {
        if Path::new(names).exists() {
            return vec![names.into()];
        }
        names.split('+').map(|name| bundled::resolve(name.trim())).collect()
    }
}

/// Largest number of instructions of a synthetic workload that can be skipped. Generating this many
/// takes some minutes.
const MOST_GENERATED: u64 = 10_000_000_000;

/// Opens the workload as a source of instructions for one comparison.
///
/// # Errors
/// There is no such workload or file, the trace is invalid, `skip` is too large, or this computer
/// has too little memory.
pub fn open_workload(
    workload: &Workload,
    memory: &MemoryState,
    seed: u64,
) -> Result<Box<dyn Source>, SimError> {
    let mut source = open_together(workload, memory, seed)?;
    let is_generated = workload.names().any(WorkloadSpec::is_workload);
    if is_generated && workload.skip > MOST_GENERATED {
        return Err(SimError::SkipOfGenerated { skip: workload.skip, most: MOST_GENERATED });
    }
    let skipped = if workload.skip > 0 { source.skip(workload.skip)? } else { 0 };
    if skipped < workload.skip {
        let name = source.metadata().name.clone();
        return Err(SimError::SkipBeyondEnd { name, skip: workload.skip, instructions: skipped });
    }
    let left = match source.metadata().instructions {
        None if workload.names().all(WorkloadSpec::is_workload) => {
            Some(Workload::DEFAULT_INSTRUCTIONS)
        }
        Some(all) if skipped > 0 => Some(all.saturating_sub(skipped)),
        _ => None, // A whole trace is read to its end, so that damage there is found.
    };
    let mut source: Box<dyn Source> = match workload.instructions.or(left) {
        Some(limit) => Box::new(Limited::new(source, limit)),
        None => source,
    };
    if let Some(window) = workload.side_by_side {
        source = Box::new(InterleavedThreads::new(source, window));
    }
    Ok(match &memory.kernel.fragmentation {
        Some(fragmentation) if !fragmentation.allocated => {
            Box::new(Sparse::new(source, *fragmentation, seed))
        }
        _ => source,
    })
}

/// Opens the workload and the other programs, and combines them to one source.
fn open_together(
    workload: &Workload,
    memory: &MemoryState,
    seed: u64,
) -> Result<Box<dyn Source>, SimError> {
    let mut sources = workload.names().map(|name| open(name, seed));
    let first = sources.next().expect("there is a workload")?;
    let mut first = as_advised(first, &workload.advised, memory)?;
    if workload.threads > 1 {
        if !WorkloadSpec::is_workload(&workload.name) {
            let problem = format!("{} has the threads that were recorded", workload.name);
            return Err(ConfigError::new(problem).under("threads").into());
        }
        first = Box::new(SharedOut::new(first, workload.threads));
    }
    if workload.beside.is_empty() {
        return Ok(first);
    }
    let others = sources.collect::<Result<Vec<_>, _>>()?;
    Ok(Box::new(ConcurrentPrograms::new(std::iter::once(first).chain(others).collect())))
}

/// Wraps a source so that the program follows the advice of a run and its memory lies in the pools of the
/// memory's layout; without both, returns the source unchanged.
fn as_advised(
    source: Box<dyn Source>,
    advised: &AdvisedRanges,
    memory: &MemoryState,
) -> Result<Box<dyn Source>, SimError> {
    match (advised.is_empty(), &memory.layout) {
        (true, _) => in_pools(source, memory),
        (false, None) => Ok(Box::new(Advised::new(source, advised.clone())?)),
        (false, Some(_)) => {
            let problem = "has no effect with a layout, which says the page size of all memory";
            Err(ConfigError::new(problem).under("madvise").into())
        }
    }
}

/// Wraps a source so that the program's memory is in the pools (address ranges) of the memory's
/// layout; without a layout, returns the source unchanged.
pub(crate) fn in_pools(
    source: Box<dyn Source>,
    memory: &MemoryState,
) -> Result<Box<dyn Source>, SimError> {
    Ok(match &memory.layout {
        Some(layout) => Box::new(Pooled::new(source, layout.clone())?),
        None => source,
    })
}

fn open(name: &str, seed: u64) -> Result<Box<dyn Source>, SimError> {
    if WorkloadSpec::is_workload(name) {
        let spec = WorkloadSpec::parse(name)?;
        host_memory::check_workload(&spec)?;
        return Ok(spec.source(seed, None));
    }
    Ok(open_trace(name)?.1)
}

/// Opens a trace by path or by the name of a bundled trace. Returns the path and the trace.
///
/// # Errors
/// There is no such file (the error suggests names), or the trace is invalid.
pub fn open_trace(name: &str) -> Result<(String, Box<dyn Source>), SimError> {
    let name = bundled::resolve(name);
    let path = perforate_trace::split_format(Path::new(&name)).1;
    if !path.exists() && path.as_os_str() != STANDARD_INPUT {
        let hint = hint(&name);
        return Err(SimError::UnknownWorkload { name, hint });
    }
    let source = perforate_trace::open(&name)?;
    Ok((name, source))
}

/// Returns a suggestion for the name of a workload or trace that does not exist.
fn hint(name: &str) -> String {
    let traces = bundled::all();
    let workloads = || WORKLOADS.iter().map(|workload| workload.name);
    let known: Vec<&str> = workloads().chain(traces.iter().map(|(name, _)| &**name)).collect();
    let (name, rest) = name.split_once(':').map_or((name, None), |(name, rest)| (name, Some(rest)));
    let formats = TraceFormat::ALL.map(TraceFormat::name);
    match (nearest(name, &known), nearest(name, &formats), rest) {
        (Some(near), ..) => format!("did you mean {near}?"),
        (None, Some(format), Some(file)) => format!("did you mean {format}:{file}?"),
        _ => {
            let workloads = workloads().collect::<Vec<_>>().join(", ");
            let names: Vec<&str> = traces.iter().map(|(name, _)| &**name).collect();
            let bundled = match names.is_empty() {
                true => String::new(),
                false => format!("traces that come with the program are {}; ", names.join(", ")),
            };
            format!("{bundled}workloads are {workloads}; another trace is given by its path")
        }
    }
}

#[cfg(test)]
mod tests {
    use perforate_types::Chunk;
    use perforate_workloads::layout::LayoutFile;

    use super::*;

    fn error(workload: &Workload) -> String {
        let memory = MemoryState::of(64 << 20);
        open_workload(workload, &memory, 1).err().expect("it cannot be opened").to_string()
    }

    /// Returns the number of instructions of a workload, at most a few thousand.
    fn count(workload: &Workload) -> u64 {
        let mut source = open_workload(workload, &MemoryState::of(64 << 20), 1).unwrap();
        let (mut chunk, mut count) = (Chunk::default(), 0);
        while source.next_chunk(&mut chunk).unwrap() {
            count += chunk.instructions.len() as u64;
        }
        count
    }

    #[test]
    fn names_that_there_are_not_have_a_hint() {
        let hint = |name: &str| error(&Workload::named(name));
        for (name, expected) in [
            ("randon", "no workload or file \"randon\"; did you mean random?"),
            ("randon:size=1M", "no workload or file \"randon:size=1M\"; did you mean random?"),
            ("champsin:x.xz", "no workload or file \"champsin:x.xz\"; did you mean champsim:x.xz?"),
        ] {
            assert_eq!(hint(name), expected);
        }
        let all = hint("zzzzzzzzzzzz");
        assert!(all.contains("; workloads are ") && all.contains("random, "), "{all}");
        assert!(all.ends_with("; another trace is given by its path"), "{all}");
    }

    /// A layout says the size of every page, so that a range of other pages would have no effect.
    #[test]
    fn ranges_are_not_advised_with_a_layout() {
        let layout = LayoutFile { name: "pools.csv".into(), pools: Default::default() };
        let memory = MemoryState { layout: Some(layout), ..MemoryState::of(64 << 20) };
        let advised: AdvisedRanges = "0x1000-0x3000".parse().unwrap();
        let workload = Workload { advised, ..Workload::named("fork:heap=2M") };
        assert!(open_workload(&workload, &MemoryState::of(64 << 20), 1).is_ok());
        assert!(open_workload(&Workload::named("fork:heap=2M"), &memory, 1).is_ok());
        let error = open_workload(&workload, &memory, 1).err().expect("one must go").to_string();
        assert_eq!(
            error,
            "madvise: has no effect with a layout, which says the page size of all memory"
        );
    }

    /// Only several hardware threads run side by side; 0 keeps the order of the recording.
    #[test]
    fn threads_run_side_by_side_within_a_window_of_instructions() {
        for (cores, side_by_side, expected) in
            [(2, 5_000, Some(5_000)), (2, 1, Some(1)), (2, 0, None), (1, 5_000, None)]
        {
            let placement = PlacementOptions {
                cores: Count::new(cores),
                side_by_side: Count::new(side_by_side),
                instructions: Some(Count::new(1_000)),
                ..PlacementOptions::default()
            };
            let workload = Workload::new("random:size=1M".into(), &placement);
            assert_eq!(workload.side_by_side, expected, "{cores} cores");
            assert_eq!(count(&workload), 1_000);
        }
    }

    #[test]
    fn parts_of_workloads_are_opened() {
        let random = || Workload::named("random:size=1M");
        let part = |skip, instructions| Workload { skip, instructions, ..random() };
        assert_eq!(count(&part(0, Some(1_000))), 1_000);
        assert_eq!(count(&part(500, Some(1_000))), 1_000);
        let shared = Workload { threads: 2, ..part(0, Some(1_001)) };
        assert_eq!(count(&shared), 1_001);
        let beside = Workload { beside: vec!["random:size=2M".into()], ..part(0, Some(999)) };
        assert_eq!(count(&beside), 999);
        let memory = MemoryState::of(64 << 20);
        let endless = open_workload(&random(), &memory, 1).unwrap();
        assert_eq!(endless.metadata().instructions, Some(20_000_000));
        assert_eq!(
            error(&part(10_000_000_001, None)),
            "--skip 10000000001: a synthetic workload is generated as it is skipped, and has no end; \
             expected at most 10000000000 instructions"
        );
        let names: Vec<&str> = beside.names().collect();
        assert_eq!(names, ["random:size=1M", "random:size=2M"]);
    }

    #[test]
    fn options_say_which_part_runs_beside_what() {
        let options = |texts: &[(&str, &str)]| -> PlacementOptions {
            texts.iter().copied().collect::<perforate_config::OptionTexts>().read().unwrap()
        };
        let workload = |texts| Workload::new("w".into(), &options(texts));
        let plain = workload(&[]);
        let named = Workload::named("w");
        assert_eq!(serde_json::json!(plain), serde_json::json!(named));
        let part = workload(&[
            ("threads", "70k"),
            ("beside", "random:size=1M+ gups"),
            ("cores", "2"),
            ("side-by-side", "9"),
            ("skip", "3"),
            ("instructions", "5"),
            ("madvise", "0-4096"),
        ]);
        assert_eq!((part.threads, part.side_by_side), (u16::MAX, Some(9)));
        assert_eq!(part.beside, ["random:size=1M", "gups"]);
        assert_eq!((part.skip, part.instructions, part.advised.bytes()), (3, Some(5), 4096));
        let smt = workload(&[("threads-per-core", "2")]);
        assert_eq!((smt.side_by_side, smt.threads), (Some(2_000_000), 1));
    }

    #[test]
    fn threads_and_advice_suit_only_some_workloads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.trace").to_string_lossy().into_owned();
        let metadata = perforate_trace::TraceMetadata { has_events: true, ..Default::default() };
        let mut trace = perforate_trace::TraceWriter::create(Path::new(&path), &metadata).unwrap();
        for _ in 0..30 {
            trace.push(&Default::default(), &[]).unwrap();
        }
        trace.finish().unwrap();
        let whole = Workload::named(&*path);
        assert_eq!(count(&whole), 30);
        assert_eq!(count(&Workload { skip: 10, ..whole.clone() }), 20);
        assert_eq!(count(&Workload { skip: 29, ..whole.clone() }), 1);
        assert_eq!(count(&Workload { skip: 30, ..whole.clone() }), 0);
        let beyond = error(&Workload { skip: 31, ..whole.clone() });
        assert!(beyond.starts_with("--skip 31: ") && beyond.contains(" has 30 instructions; "));
        let shared = error(&Workload { threads: 2, ..whole });
        assert_eq!(shared, format!("threads: {path} has the threads that were recorded"));
        assert_eq!(Workload::list(&path), [path]);
    }
}
