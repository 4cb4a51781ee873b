//! Measures all points that experiments need, each once, on all cores.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::error::ExperimentError;
use crate::file::Experiment;
use crate::kind::{self, Settings};
use crate::plan::{self, Point};
use crate::store::{Key, Store};

/// A part of all points: number `index` of `count`, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which part, from 1.
    pub index: usize,
    /// How many there are.
    pub count: usize,
}

impl Shard {
    /// Everything.
    pub const WHOLE: Self = Self { index: 1, count: 1 };
}

impl std::str::FromStr for Shard {
    type Err = String;

    /// `2/8`.
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

/// Points that are measured together, as they differ in the subject only.
struct Job {
    kind: &'static str,
    settings: Settings,
    seed: u64,
    subjects: Vec<(String, Key)>,
    cost: f64,
}

/// All points of some experiments.
pub struct Plan {
    jobs: Vec<Job>,
    keys: BTreeMap<Point, Key>,
    /// An experiment that needs the settings, for messages.
    names: BTreeMap<(&'static str, Settings), String>,
}

/// How far measuring is.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Share of the work that is done, 0–1.
    pub done: f64,
    /// Points that are measured.
    pub points: usize,
    /// Points to be measured.
    pub total: usize,
}

impl Plan {
    /// What experiments need.
    ///
    /// # Errors
    /// What cannot be measured as it stands.
    pub fn of(experiments: &[Experiment], build: &str) -> Result<Self, ExperimentError> {
        let mut names = BTreeMap::new();
        let mut points = BTreeSet::new();
        for experiment in experiments {
            let wrong = |problem| ExperimentError::Wrong { name: experiment.name.clone(), problem };
            let needed = plan::points(experiment).map_err(wrong)?;
            check(&needed).map_err(wrong)?;
            for point in &needed {
                let settings = (point.kind, point.settings.clone());
                names.entry(settings).or_insert_with(|| experiment.name.clone());
            }
            points.extend(needed);
        }
        let mut jobs: BTreeMap<(&str, &Settings, u64), Job> = BTreeMap::new();
        let mut keys = BTreeMap::new();
        let mut inputs: BTreeMap<(&str, &Settings), Vec<String>> = BTreeMap::new();
        for point in &points {
            let kind = kind::find(point.kind).expect("planned kinds are known");
            let name = &names[&(point.kind, point.settings.clone())];
            let inputs = match inputs.entry((point.kind, &point.settings)) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => {
                    let read = kind.inputs(&point.settings);
                    place.insert(read.map_err(|why| failed(name, point.subject.clone(), why))?)
                }
            };
            let key = Key::of(build, point, inputs);
            let job =
                jobs.entry((point.kind, &point.settings, point.seed)).or_insert_with(|| Job {
                    kind: point.kind,
                    settings: point.settings.clone(),
                    seed: point.seed,
                    subjects: Vec::new(),
                    cost: kind.cost(&point.settings),
                });
            job.subjects.push((point.subject.clone(), key.clone()));
            keys.insert(point.clone(), key);
        }
        Ok(Self { jobs: jobs.into_values().collect(), keys, names })
    }

    /// The key of a point of these experiments.
    pub fn key(&self, point: &Point) -> Option<&Key> {
        self.keys.get(point)
    }

    /// All points.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no point.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Points that were not measured yet.
    pub fn missing(&self, store: &Store) -> usize {
        self.keys.values().filter(|key| store.get(key).is_none()).count()
    }

    /// Measures what is missing of a part of the points. Parts are whole jobs, taken in turn, so
    /// that all parts take about as long; every job belongs to the same part everywhere.
    ///
    /// # Errors
    /// The first point that could not be measured; what was measured before it is kept.
    pub fn measure(
        &self,
        store: &mut Store,
        shard: Shard,
        workers: usize,
        progress: &(dyn Fn(Step) + Sync),
    ) -> Result<(), ExperimentError> {
        let of_shard = self.jobs.iter().enumerate();
        let of_shard = of_shard.filter(|(number, _)| number % shard.count == shard.index - 1);
        let mut jobs: Vec<Job> = of_shard.filter_map(|(_, job)| job.missing(store)).collect();
        in_order(&mut jobs);
        let queue = Queue {
            jobs: &jobs,
            names: &self.names,
            next: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            store: Mutex::new(store),
            shares: Mutex::new(vec![0.0; jobs.len()]),
            progress,
        };
        thread::scope(|scope| {
            let work = || queue.work();
            let workers: Vec<_> =
                (0..workers.clamp(1, jobs.len().max(1))).map(|_| scope.spawn(work)).collect();
            let joined = workers.into_iter().map(|worker| match worker.join() {
                Ok(outcome) => outcome,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            joined.collect::<Vec<_>>().into_iter().collect()
        })
    }
}

/// The longest first, so that no core is left with one at the end; and those on one program one
/// after the other, so that its data are made once.
fn in_order(jobs: &mut [Job]) {
    let mut longest: HashMap<(Option<String>, u64), f64> = HashMap::new();
    for job in jobs.iter() {
        let longest = longest.entry(job.program()).or_default();
        *longest = longest.max(job.work());
    }
    jobs.sort_by(|one, other| {
        let (programs, works) = ([one, other].map(Job::program), [one, other].map(Job::work));
        let by_program = longest[&programs[1]].total_cmp(&longest[&programs[0]]);
        by_program.then_with(|| programs[0].cmp(&programs[1])).then(works[1].total_cmp(&works[0]))
    });
}

/// Whether all points can be measured, before the first of them is.
fn check(points: &BTreeSet<Point>) -> Result<(), String> {
    let mut checked = BTreeSet::new();
    for point in points {
        if checked.insert((point.kind, &point.settings, &point.subject)) {
            let kind = kind::find(point.kind)?;
            kind.check(&point.settings, &point.subject)
                .map_err(|problem| format!("{}: {problem}", point.subject))?;
        }
    }
    Ok(())
}

fn failed(name: &str, point: String, problem: String) -> ExperimentError {
    ExperimentError::Point { name: name.into(), point, problem }
}

impl Job {
    /// The subjects that were not measured yet, if there are any.
    fn missing(&self, store: &Store) -> Option<Self> {
        let subjects = self.subjects.iter().filter(|(_, key)| store.get(key).is_none());
        let subjects: Vec<_> = subjects.cloned().collect();
        (!subjects.is_empty()).then(|| Self { settings: self.settings.clone(), subjects, ..*self })
    }

    /// What runs: the workload, if the kind has one, and its seed.
    fn program(&self) -> (Option<String>, u64) {
        (self.settings.text("workload").map(str::to_owned), self.seed)
    }

    fn work(&self) -> f64 {
        self.cost * self.subjects.len() as f64
    }

    fn points(&self) -> impl Iterator<Item = (Point, &Key)> {
        self.subjects.iter().map(|(subject, key)| {
            let (settings, subject) = (self.settings.clone(), subject.clone());
            (Point { kind: self.kind, settings, seed: self.seed, subject }, key)
        })
    }
}

/// Jobs that several workers take in turn.
struct Queue<'a> {
    jobs: &'a [Job],
    names: &'a BTreeMap<(&'static str, Settings), String>,
    next: AtomicUsize,
    stopped: AtomicBool,
    store: Mutex<&'a mut Store>,
    /// Share of each job that is done.
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
        let kind = kind::find(job.kind).expect("planned kinds are known");
        let subjects: Vec<String> =
            job.subjects.iter().map(|(subject, _)| subject.clone()).collect();
        let name = &self.names[&(job.kind, job.settings.clone())];
        let measured = kind
            .measure(&job.settings, &subjects, job.seed, &mut |share| self.tell(number, share))
            .map_err(|problem| {
                let place = job.settings.text("workload").unwrap_or(job.kind);
                failed(name, format!("{place}, seed {}", job.seed), problem)
            })?;
        assert_eq!(measured.len(), subjects.len(), "a measurement for each subject");
        {
            let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
            for ((point, key), figures) in job.points().zip(measured) {
                store.insert(key.clone(), &point, figures)?;
            }
        }
        self.tell(number, 1.0);
        Ok(())
    }

    fn tell(&self, number: usize, share: f64) {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        shares[number] = share.clamp(0.0, 1.0);
        let total: f64 = self.jobs.iter().map(Job::work).sum();
        let done: f64 =
            self.jobs.iter().zip(shares.iter()).map(|(job, share)| job.work() * share).sum();
        let count = |job: &Job| job.subjects.len();
        let finished = self.jobs.iter().zip(shares.iter()).filter(|(_, share)| **share == 1.0);
        (self.progress)(Step {
            done: if total > 0.0 { done / total } else { 1.0 },
            points: finished.map(|(job, _)| count(job)).sum(),
            total: self.jobs.iter().map(count).sum(),
        });
    }
}
