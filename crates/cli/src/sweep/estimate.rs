//! Estimate of the processor time of an experiment's points: from the user's average time of a point, or from
//! a few points that are measured here.

use std::time::Duration;

use crate::actions::Failure;
use perforate_experiment::{Job, Plan, Shard, Store};
use rustix::time::{ClockId, clock_gettime};

use crate::progress::{Bar, time};

/// Processor time after which no further job is measured for the estimate.
const LIMIT: Duration = Duration::from_secs(10);
/// Jobs that are measured for the estimate, as quantiles of all jobs in the order of their work.
const QUANTILES: [f64; 3] = [0.5, 0.75, 0.25];

/// Estimate of the time that points of an experiment take.
pub struct Estimate {
    /// Processor time in seconds per unit of [`Job::work`].
    pub per_work: f64,
    /// Origin of the estimate, as the script states it.
    pub source: String,
}

impl Estimate {
    /// Makes an estimate from the average time of a point, as the user states it.
    pub fn stated(plan: &Plan, point: Duration) -> Self {
        let seconds = point.as_secs_f64();
        let work: f64 = plan.jobs(Shard::WHOLE).map(Job::work).sum();
        let points = plan.point_count() as f64;
        let source = format!("{} a point, as --point-time says", humantime::format_duration(point));
        Self { per_work: seconds * points / work.max(f64::MIN_POSITIVE), source }
    }

    /// Makes an estimate from the processor time of a few jobs, which are measured here. Unlike elapsed time,
    /// processor time does not depend on other programs.
    pub fn measured(plan: &Plan) -> Result<Self, Failure> {
        let mut jobs = plan.missing_jobs(&Store::in_memory(String::new()), Shard::WHOLE);
        jobs.sort_by(|one, other| one.work().total_cmp(&other.work()));
        let bar = Bar::of("measuring", "measuring how long points take");
        let (mut seconds, mut work, mut points) = (0.0, 0.0, 0);
        let mut done: Vec<usize> = Vec::new();
        for quantile in QUANTILES {
            let place = (jobs.len().saturating_sub(1) as f64 * quantile) as usize;
            if done.contains(&place) || seconds > LIMIT.as_secs_f64() {
                continue;
            }
            let Some(job) = jobs.get(place) else { break };
            let before = processor_time();
            job.measure(&mut |share| bar.show_share(share, done.len(), QUANTILES.len()))?;
            seconds += processor_time() - before;
            work += job.work();
            points += job.point_count();
            done.push(place);
        }
        let source =
            format!("{points} of the points, measured on this computer in {}", time(seconds));
        Ok(Self { per_work: seconds / f64::max(work, f64::MIN_POSITIVE), source })
    }
}

/// Processor time that this process has used so far, in seconds.
fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
