//! Benchmarks with layouts: one worker per layout; the workers run in turn.

use perforate_sim::Progress;

use super::order::{Rounds, order};
use super::{Measured, Pages};
use crate::benchmark::{Job, Paging, Worker, WorkerCommand};
use crate::layout::Layout;
use crate::validate::Options;
use crate::validate::measure::{FIRST_OPERATIONS, operations_for};
use crate::validate::plan::Row;
use crate::{HostError, Reporter};

/// Worker's job for a benchmark with a layout: the benchmark's memory gets 2MB pages where the layout's pool
/// of anonymous mappings has them.
pub(super) fn job(row: &Row, layout: &Layout) -> Job {
    let Row { benchmark, bytes } = *row;
    let layout = Some(layout.mapped.clone());
    let (processor, recorded_operations) = (None, None);
    Job { benchmark, bytes, paging: Paging::Large, layout, processor, recorded_operations }
}

/// Measures the times of one benchmark with all layouts of its memory.
pub(super) fn measure(
    worker: &WorkerCommand,
    row: &Row,
    layouts: Vec<Layout>,
    options: &Options,
    reporter: &mut dyn Reporter,
) -> Result<Measured, HostError> {
    let effort = options.effort;
    reporter.stage(&format!("measuring {}", row.name()), "runs");
    let wanted = |layout: &Layout| {
        layout.mapped.within(0..row.bytes).map(|part| part.end - part.start).sum()
    };
    let pages =
        layouts.iter().map(|layout| Pages { wanted_bytes: wanted(layout), large_bytes: u64::MAX });
    let mut measured =
        Measured { pages: pages.collect(), rounds: Rounds::default(), notes: Vec::new(), layouts };
    let layouts = &measured.layouts;
    let total = u64::from(effort.rounds * effort.blocks) * 2 * layouts.len() as u64;
    let mut done = 0;
    for restart in 0..effort.rounds {
        let start = |layout| {
            Worker::start(worker, &Job { processor: Some(options.processor), ..job(row, layout) })
        };
        let mut workers = layouts.iter().map(start).collect::<Result<Vec<_>, _>>()?;
        let mut slowest = 0;
        for (worker, pages) in workers.iter_mut().zip(&mut measured.pages) {
            let large_bytes = (worker.state.large_share * row.bytes as f64).round() as u64;
            pages.large_bytes = pages.large_bytes.min(large_bytes);
            slowest = slowest.max(worker.run(FIRST_OPERATIONS)?.processor_nanoseconds);
        }
        let operations = operations_for(effort.run_nanoseconds, slowest);
        for block in 0..effort.blocks {
            measured.rounds.begin(layouts.len());
            for layout in order(restart * effort.blocks + block, layouts.len()) {
                let run = workers[layout].run(operations)?;
                measured.rounds.add(layout, run.processor_nanoseconds as f64 * 1e-9);
                done += 1;
                reporter.progress(Progress { done, total: Some(total) });
            }
        }
    }
    Ok(measured)
}
