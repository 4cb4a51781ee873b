//! Where the instructions come from: a trace file or a synthetic workload, by name.

use std::path::Path;

use perforate_config::nearest;
use perforate_trace::layout::Pooled;
use perforate_trace::{
    Limited, STANDARD_INPUT, Source, TraceFormat, WORKLOADS, WorkloadSpec, bundled,
};

use crate::sparse::Sparse;
use crate::{MemoryState, SimError, host_memory};

/// What to run and how much of it.
#[derive(Clone, Debug)]
pub struct Workload {
    /// A workload with its parameters (`random:size=4G`) or the path of a trace.
    pub name: String,
    /// Instructions to pass over first; what they map stays mapped.
    pub skip: u64,
    /// Instructions to run at most, warm-up included.
    pub instructions: Option<u64>,
}

impl Workload {
    /// Instructions of an endless workload where no number is given.
    pub const DEFAULT_INSTRUCTIONS: u64 = 20_000_000;
}

/// Opens the workload for one comparison.
///
/// # Errors
/// No such workload or file, or a file that is no trace.
pub fn open_workload(
    workload: &Workload,
    memory: &MemoryState,
    seed: u64,
) -> Result<Box<dyn Source>, SimError> {
    let mut source = in_pools(open(&workload.name, seed)?, memory)?;
    let skipped = if workload.skip > 0 { source.skip(workload.skip)? } else { 0 };
    let left = match source.metadata().instructions {
        None if WorkloadSpec::is_workload(&workload.name) => Some(Workload::DEFAULT_INSTRUCTIONS),
        Some(all) if skipped > 0 => Some(all.saturating_sub(skipped)),
        _ => None, // A whole trace is read to its end, so that damage there is found.
    };
    let source: Box<dyn Source> = match workload.instructions.or(left) {
        Some(limit) => Box::new(Limited::new(source, limit)),
        None => source,
    };
    Ok(match &memory.fragmentation {
        Some(fragmentation) if !fragmentation.allocated => {
            Box::new(Sparse::new(source, *fragmentation, seed))
        }
        _ => source,
    })
}

/// The program with its memory in pools, if there is a layout of them.
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
    let path = perforate_trace::split_format(Path::new(name)).1;
    if !path.exists() && path.as_os_str() != STANDARD_INPUT {
        return Err(SimError::UnknownWorkload { name: name.into(), hint: hint(name) });
    }
    Ok(perforate_trace::open(name)?)
}

/// What was meant by a name that there is not.
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
            format!("workloads are {workloads}; a trace is given by its path")
        }
    }
}
