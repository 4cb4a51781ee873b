//! How long points take: as stated, or as some of them take here.

use std::time::Duration;

use perforate_commands::Failure;
use perforate_experiment::{Job, Plan, Shard, Store};
use rustix::time::{ClockId, clock_gettime};

use crate::progress::{ShareBar, time};

/// Once measuring took so long, enough is known.
const ENOUGH: Duration = Duration::from_secs(10);
/// Which jobs are measured, by their place among all in the order of their work.
const PLACES: [f64; 3] = [0.5, 0.75, 0.25];

/// How long points take.
pub struct Estimate {
    /// Processor time in seconds of a unit of work.
    pub per_work: f64,
    /// Where that is from, for readers.
    pub source: String,
}

impl Estimate {
    /// From the time of a point, on average.
    pub fn stated(plan: &Plan, point: Duration) -> Self {
        let seconds = point.as_secs_f64();
        let work: f64 = plan.jobs(Shard::WHOLE).map(Job::work).sum();
        let points = plan.len() as f64;
        let source = format!("{} a point, as --point-time says", humantime::format_duration(point));
        Self { per_work: seconds * points / work.max(f64::MIN_POSITIVE), source }
    }

    /// From jobs that are measured here, by the processor time that they take: how busy this computer
    /// is otherwise does not matter.
    pub fn measured(plan: &Plan) -> Result<Self, Failure> {
        let mut jobs = plan.missing_jobs(&Store::in_memory(String::new()), Shard::WHOLE);
        jobs.sort_by(|one, other| one.work().total_cmp(&other.work()));
        let bar = ShareBar::new("measuring how long points take");
        let (mut seconds, mut work, mut points) = (0.0, 0.0, 0);
        let mut done: Vec<usize> = Vec::new();
        for place in PLACES {
            let place = (jobs.len().saturating_sub(1) as f64 * place) as usize;
            if done.contains(&place) || seconds > ENOUGH.as_secs_f64() {
                continue;
            }
            let Some(job) = jobs.get(place) else { break };
            let before = processor_time();
            job.measure(&mut |share| bar.show(share, done.len(), PLACES.len()))?;
            seconds += processor_time() - before;
            work += job.work();
            points += job.len();
            done.push(place);
        }
        let source =
            format!("{points} of the points, measured on this computer in {}", time(seconds));
        Ok(Self { per_work: seconds / f64::max(work, f64::MIN_POSITIVE), source })
    }
}

/// Time that processors spent on this program so far, in seconds.
fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
