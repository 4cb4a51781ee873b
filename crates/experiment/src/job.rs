//! Points that are measured together: the unit of work of a thread or another process.

use serde::{Deserialize, Deserializer, Serialize};

use crate::error::ExperimentError;
use crate::identity::Key;
use crate::kind::{Kind, Measurement, Settings};
use crate::plan::Point;
use crate::store::Store;

/// Points that differ in the subject only and are measured together. As JSON a job can be measured by
/// another process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// An experiment that needs it, for messages.
    experiment: String,
    #[serde(deserialize_with = "known_kind")]
    kind: String,
    settings: Settings,
    seed: u64,
    subjects: Vec<(String, Key)>,
    /// Cost of one subject, in the unit of [`Kind::cost`].
    cost: f64,
}

fn known_kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    Kind::find(&name).map(|_| name.clone()).map_err(serde::de::Error::custom)
}

impl Job {
    /// A point's settings and seed, without subjects yet.
    pub(crate) fn new(experiment: &str, point: &Point) -> Self {
        let Point { kind, settings, seed, .. } = point.clone();
        let (experiment, kind, subjects) = (experiment.into(), kind.into(), Vec::new());
        let mut job = Self { experiment, kind, settings, seed, subjects, cost: 0.0 };
        job.cost = (job.kind().cost)(&job.settings);
        job
    }

    fn kind(&self) -> &'static Kind {
        Kind::find(&self.kind).expect("jobs have known kinds")
    }

    /// Adds the point of this subject.
    pub(crate) fn add(&mut self, subject: &str, key: Key) {
        self.subjects.push((subject.into(), key));
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.subjects.len()
    }

    /// True if the job has no points.
    pub fn is_empty(&self) -> bool {
        self.subjects.is_empty()
    }

    /// Cost of the job, in a unit that all jobs share.
    pub fn work(&self) -> f64 {
        self.cost * self.len() as f64
    }

    /// Workload, if the kind has one, and seed.
    pub(crate) fn program(&self) -> (Option<&str>, u64) {
        (self.settings.text("workload"), self.seed)
    }

    /// Name of the job for users.
    pub fn name(&self) -> String {
        let subjects: Vec<&str> =
            self.subjects.iter().map(|(subject, _)| subject.as_str()).collect();
        format!("{}: {}: {}", self.experiment, self.place(), subjects.join(", "))
    }

    fn place(&self) -> String {
        let what = self.settings.text("workload").unwrap_or(&self.kind);
        format!("{what}, seed {}", self.seed)
    }

    /// The subjects that were not measured yet, if there are any.
    pub(crate) fn missing(&self, store: &Store) -> Option<Self> {
        let subjects = self.subjects.iter().filter(|(_, key)| store.get(key).is_none());
        let subjects: Vec<_> = subjects.cloned().collect();
        (!subjects.is_empty()).then(|| Self { subjects, ..self.clone() })
    }

    fn points(&self) -> impl Iterator<Item = (Point, &Key)> {
        self.subjects.iter().map(|(subject, key)| {
            let (settings, subject) = (self.settings.clone(), subject.clone());
            (Point { kind: self.kind().name, settings, seed: self.seed, subject }, key)
        })
    }

    /// Finds whether this process, which did not plan the job, measures just what was planned.
    ///
    /// # Errors
    /// It is of another build, or files that the settings name are others here.
    pub fn check(&self, build: &str) -> Result<(), ExperimentError> {
        let mut is_same = true;
        for (subject, key) in &self.subjects {
            let identity = (self.kind().identity)(&self.settings, subject, self.seed);
            is_same &= Key::of(build, &identity.map_err(|problem| self.failed(problem))?) == *key;
        }
        if is_same {
            return Ok(());
        }
        let problem = "the process that was to measure it has another build of this program, or \
                       other files under the names in the settings";
        Err(self.failed(problem.into()))
    }

    /// Measures it: a measurement for each point. `progress` hears now and then which part, 0–1, is
    /// done.
    ///
    /// # Errors
    /// What went wrong.
    pub fn measure(
        &self,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, ExperimentError> {
        let subjects: Vec<String> =
            self.subjects.iter().map(|(subject, _)| subject.clone()).collect();
        let measured = (self.kind().measure)(&self.settings, &subjects, self.seed, progress)
            .map_err(|problem| self.failed(problem))?;
        assert_eq!(measured.len(), subjects.len(), "a measurement for each subject");
        Ok(measured)
    }

    /// Keeps what was measured.
    ///
    /// # Errors
    /// The file cannot be written; measurements that are not this job's.
    pub fn keep(
        &self,
        measured: Vec<Measurement>,
        store: &mut Store,
    ) -> Result<(), ExperimentError> {
        if measured.len() != self.len() {
            let problem = format!("{} measurements of {} points", measured.len(), self.len());
            return Err(self.failed(problem));
        }
        let mut points = self.points().zip(measured);
        points.try_for_each(|((point, key), figures)| store.insert(key.clone(), &point, figures))
    }

    fn failed(&self, problem: String) -> ExperimentError {
        ExperimentError::Point { name: self.experiment.clone(), point: self.place(), problem }
    }
}
