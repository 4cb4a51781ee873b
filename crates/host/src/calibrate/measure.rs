//! Runs the rounds of measurements, in a thread pinned to one processor.

use std::sync::atomic::{AtomicBool, Ordering};

use perforate_sim::Progress;

use super::derive::Round;
use super::points::{Point, Values, points};
use super::region::{Region, read_lines};
use crate::benchmark::Paging;
use crate::machine::clock_ghz;
use crate::process_settings::{allowed_processors, on_processor, pin};
use crate::{HostError, Reporter};

/// Memory in bytes that another processor reads repeatedly during the measurement under load.
const NEIGHBOUR_BYTES: u64 = 256 << 20;

/// Parameters of a calibration's measurements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub processor: usize,
    pub bytes: u64,
    pub rounds: u32,
    pub run_nanoseconds: u64,
}

/// Measurements of all rounds, and the share (0–1) of the region with MADV_HUGEPAGE that is in 2MB
/// pages.
pub(super) struct Measured {
    pub rounds: Vec<Round>,
    pub large_share: f64,
}

/// Measures the pointer chases of all rounds.
///
/// # Errors
/// If this process may not use the processor, or there is no memory.
pub(super) fn measure(plan: Plan, reporter: &mut dyn Reporter) -> Result<Measured, HostError> {
    reporter.stage("measuring", "chases");
    let total = points(plan.bytes).len() as u64 * u64::from(plan.rounds);
    let other = allowed_processors().into_iter().find(|other| *other != plan.processor);
    let work = |done: &dyn Fn(u64)| measure_rounds(plan, other, done);
    on_processor(plan.processor, work, &mut |done| {
        reporter.progress(Progress { done, total: Some(total) });
    })
}

fn measure_rounds(
    plan: Plan,
    other: Option<usize>,
    done: &dyn Fn(u64),
) -> Result<Measured, HostError> {
    let region = |paging| {
        Region::new(plan.bytes, paging).map_err(HostError::system("allocating memory to measure"))
    };
    let mut small = region(Paging::Small)?;
    let mut large = region(Paging::Large)?;
    let large_share = large.large_share().map_err(HostError::system("reading /proc/self/smaps"))?;
    let mut points = points(plan.bytes);
    let mut rounds = Vec::new();
    let mut count = 0;
    for _ in 0..plan.rounds {
        let mut values = Values::new();
        let mut linked = None;
        for point in &points {
            let region = if point.is_large { &mut large } else { &mut small };
            let chase = Point { chains: 1, ..*point };
            if linked != Some(chase) {
                region.link(point.nodes, point.count);
                linked = Some(chase);
            }
            values.insert(*point, region.nanoseconds(point.chains, plan.run_nanoseconds));
            count += 1;
            done(count);
        }
        let stream_ns = large.stream();
        let loaded_ns = match other {
            Some(other) => Some(loaded(&mut large, plan, other)?),
            None => None,
        };
        let clock_ghz = clock_ghz().unwrap_or(1.0);
        rounds.push(Round { clock_ghz, values, stream_ns, loaded_ns });
        // The next round runs in reverse order, so that drift within rounds cancels out.
        points.reverse();
    }
    Ok(Measured { rounds, large_share })
}

/// Duration of a load from memory in nanoseconds, while processor `other` reads memory.
fn loaded(large: &mut Region, plan: Plan, other: usize) -> Result<f64, HostError> {
    let failed = HostError::system("allocating memory to measure");
    let mut busy = crate::benchmark::AnonymousMemory::new(NEIGHBOUR_BYTES, true).map_err(failed)?;
    busy.touch(0..NEIGHBOUR_BYTES);
    let all = Point::lines(plan.bytes / Point::lines(1).nodes.bytes());
    large.link(all.nodes, all.count);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = std::thread::Builder::new().spawn_scoped(scope, || {
            let _ = pin(other); // if pinning is refused, it reads from this processor
            while !is_over.load(Ordering::Relaxed) {
                std::hint::black_box(read_lines(busy.as_mut_slice()));
            }
        });
        reader.map_err(HostError::system("starting a thread"))?;
        let nanoseconds = large.nanoseconds(1, plan.run_nanoseconds);
        is_over.store(true, Ordering::Relaxed);
        Ok(nanoseconds)
    })
}
