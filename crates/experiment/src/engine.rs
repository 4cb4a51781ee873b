//! Measurement of all points that experiments need, each once, on several threads. A point is one
//! measurement: a subject (such as a scheme) under some settings, with a seed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::error::ExperimentError;
use crate::file::Experiment;
use crate::identity::Key;
use crate::job::Job;
use crate::kind::{Kind, Settings};
use crate::plan::{self, Point};
use crate::store::Store;

/// One of `count` parts into which the points (single measurements) of experiments are divided, so that
/// several processes can measure them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Number of this part, from 1 to `count`.
    pub index: usize,
    /// Total number of parts into which the points are divided.
    pub count: usize,
}

impl Shard {
    /// The only part, with all points, if the points are not divided.
    pub const WHOLE: Self = Self { index: 1, count: 1 };
}

impl std::str::FromStr for Shard {
    type Err = String;

    /// Parses the number of a part and the total number of parts: `2/8` is part 2 of 8.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/');
        let numbers =
            parts.and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match numbers {
            Some((index, count)) if 1 <= index && index <= count => Ok(Self { index, count }),
            _ => Err(format!("{text:?} is no part; expected 1/8 to 8/8, or the like")),
        }
    }
}

/// All points (single measurements) that a set of experiments needs. Points that differ only in the subject
/// (such as the scheme) form a job, and are measured together.
pub struct Plan {
    jobs: Vec<Job>,
    keys: BTreeMap<Point, Key>,
}

/// Progress of the measurement of a plan's points.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Completed share of the estimated work, 0–1.
    pub done: f64,
    /// Number of points of the plan that are already measured.
    pub points: usize,
    /// Total number of points of the plan.
    pub total: usize,
}

impl Plan {
    /// Plans the points that the experiments need, and validates their settings. Points that must give equal
    /// results are measured once. `build` is the hash of Perforate's executable file.
    ///
    /// # Errors
    /// Invalid settings of a point, or unreadable inputs.
    pub fn of<'e>(
        experiments: impl IntoIterator<Item = &'e Experiment>,
        build: &str,
    ) -> Result<Self, ExperimentError> {
        let mut plan = Self { jobs: Vec::new(), keys: BTreeMap::new() };
        let mut jobs: BTreeMap<(&str, Settings, u64), Job> = BTreeMap::new();
        let mut planned = BTreeSet::new();
        for experiment in experiments {
            let name = &experiment.name;
            let wrong = |problem| ExperimentError::Wrong { name: name.clone(), problem };
            for point in plan::points(experiment).map_err(wrong)? {
                if plan.keys.contains_key(&point) {
                    continue;
                }
                let Point { kind, settings, seed, subject } = &point;
                let kind = Kind::find(kind).map_err(wrong)?;
                let identity = (kind.identity)(settings, subject, *seed).map_err(|problem| {
                    wrong(format!("{subject}: {problem}{}", hint_of_inputs(experiment)))
                })?;
                let key = Key::of(build, &identity);
                if planned.insert(key.clone()) {
                    let job = jobs.entry((kind.name, settings.clone(), *seed));
                    job.or_insert_with(|| Job::new(name, &point)).add(subject, key.clone());
                }
                plan.keys.insert(point, key);
            }
        }
        plan.jobs = jobs.into_values().collect();
        Ok(plan)
    }

    /// Returns the key of a point in the store; `None` if the plan does not contain the point.
    pub fn key(&self, point: &Point) -> Option<&Key> {
        self.keys.get(point)
    }

    /// Returns the number of points in the plan.
    pub fn point_count(&self) -> usize {
        self.keys.len()
    }

    /// Returns the number of points of the plan that have no result in the store.
    pub fn missing(&self, store: &Store) -> usize {
        self.keys.values().filter(|key| store.get(key).is_none()).count()
    }

    /// Returns the jobs of one part of the plan: every `count`-th job, so that all parts take about equally
    /// long. The division is the same in every process.
    pub fn jobs(&self, shard: Shard) -> impl Iterator<Item = &Job> {
        self.jobs.iter().skip(shard.index - 1).step_by(shard.count)
    }

    /// Returns the jobs of one part of the plan that lack results, grouped by workload, the longest workload
    /// first.
    pub fn missing_jobs(&self, store: &Store, shard: Shard) -> Vec<Job> {
        let mut jobs: Vec<Job> = self.jobs(shard).filter_map(|job| job.missing(store)).collect();
        in_order(&mut jobs);
        jobs
    }

    /// Measures the points of one part of the plan that have no result in `store`, on `workers` threads, and
    /// adds the results to it.
    ///
    /// # Errors
    /// A point that could not be measured. Results of completed points stay in the store.
    pub fn measure(
        &self,
        store: &mut Store,
        shard: Shard,
        workers: usize,
        progress: &(dyn Fn(Step) + Sync),
    ) -> Result<(), ExperimentError> {
        let jobs = self.missing_jobs(store, shard);
        let queue = Queue {
            jobs: &jobs,
            next: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            store: Mutex::new(store),
            shares: Mutex::new(vec![0.0; jobs.len()]),
            progress,
        };
        thread::scope(|scope| {
            let work = || queue.work();
            let start = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
            let workers: Vec<_> =
                (0..workers.clamp(1, jobs.len().max(1))).filter_map(start).collect();
            // If no thread can be started, this thread does the work.
            if workers.is_empty() {
                return work();
            }
            let joined = workers.into_iter().map(|worker| match worker.join() {
                Ok(outcome) => outcome,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            joined.collect::<Vec<_>>().into_iter().collect()
        })
    }
}

/// Sorts jobs by descending cost, so that no core is left with a long job at the end. Jobs on the same
/// workload are adjacent, so that its data are prepared once.
fn in_order(jobs: &mut [Job]) {
    let mut longest: HashMap<(Option<String>, u64), f64> = HashMap::new();
    let program = |job: &Job| (job.program().0.map(str::to_owned), job.program().1);
    for job in jobs.iter() {
        let longest = longest.entry(program(job)).or_default();
        *longest = longest.max(job.work());
    }
    jobs.sort_by(|one, other| {
        let of_program = [one, other].map(|job| longest[&program(job)]);
        let by_program = of_program[1].total_cmp(&of_program[0]);
        let by_name = by_program.then_with(|| one.program().cmp(&other.program()));
        by_name.then(other.work().total_cmp(&one.work()))
    });
}

/// Returns a hint that `--with` sets the inputs of an experiment file (such as a folder of traces), for
/// errors that they may cause; empty for an experiment without inputs.
fn hint_of_inputs(experiment: &Experiment) -> String {
    let inputs: Vec<&str> = experiment.inputs.keys().map(String::as_str).collect();
    if inputs.is_empty() {
        return String::new();
    }
    format!("; --with NAME=VALUE sets the inputs {}", inputs.join(", "))
}

/// Queue of jobs that the worker threads share.
struct Queue<'a> {
    jobs: &'a [Job],
    next: AtomicUsize,
    stopped: AtomicBool,
    store: Mutex<&'a mut Store>,
    /// Completed share of each job in the queue, 0–1.
    shares: Mutex<Vec<f64>>,
    progress: &'a (dyn Fn(Step) + Sync),
}

impl Queue<'_> {
    fn work(&self) -> Result<(), ExperimentError> {
        while !self.stopped.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = self.jobs.get(number) else { return Ok(()) };
            let outcome = self.run(number, job);
            if outcome.is_err() {
                self.stopped.store(true, Ordering::Relaxed);
            }
            outcome?;
        }
        Ok(())
    }

    fn run(&self, number: usize, job: &Job) -> Result<(), ExperimentError> {
        let measured = job.measure(&mut |share| self.report(number, share))?;
        {
            let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
            job.keep(measured, &mut store)?;
        }
        self.report(number, 1.0);
        Ok(())
    }

    fn report(&self, number: usize, share: f64) {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        shares[number] = share.clamp(0.0, 1.0);
        let total: f64 = self.jobs.iter().map(Job::work).sum();
        let done: f64 =
            self.jobs.iter().zip(shares.iter()).map(|(job, share)| job.work() * share).sum();
        let finished = self.jobs.iter().zip(shares.iter()).filter(|(_, share)| **share == 1.0);
        (self.progress)(Step {
            done: if total > 0.0 { done / total } else { 1.0 },
            points: finished.map(|(job, _)| job.point_count()).sum(),
            total: self.jobs.iter().map(Job::point_count).sum(),
        });
    }
}
