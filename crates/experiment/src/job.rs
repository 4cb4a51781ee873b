//! Jobs: groups of points that are measured together, by a thread or by another process.

use serde::{Deserialize, Deserializer, Serialize};

use crate::error::ExperimentError;
use crate::identity::Key;
use crate::kind::{Kind, Measurement, Settings};
use crate::plan::Point;
use crate::store::Store;

/// Points that differ only in their subject (such as the scheme) and are measured together. A job can be sent
/// to another process as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Name of an experiment that needs the job's points, for error messages.
    experiment: String,
    #[serde(deserialize_with = "known_kind")]
    kind: String,
    settings: Settings,
    seed: u64,
    subjects: Vec<(String, Key)>,
    /// Estimated cost of measuring one subject (such as a scheme), in the unit of [`Kind::cost`].
    cost: f64,
}

fn known_kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    Kind::find(&name).map(|_| name.clone()).map_err(serde::de::Error::custom)
}

impl Job {
    /// Creates a job with the settings and seed of `point`, without subjects.
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

    /// Adds the point with this subject and key to the job.
    pub(crate) fn add(&mut self, subject: &str, key: Key) {
        self.subjects.push((subject.into(), key));
    }

    /// Returns the number of points that the job measures.
    pub fn point_count(&self) -> usize {
        self.subjects.len()
    }

    /// Returns the estimated cost of the whole job, in a unit that all jobs share.
    pub fn work(&self) -> f64 {
        self.cost * self.point_count() as f64
    }

    /// Returns the job's workload (`None` if its kind of measurement has none) and seed.
    pub(crate) fn program(&self) -> (Option<&str>, u64) {
        (self.settings.text("workload"), self.seed)
    }

    /// Returns a description of the job for progress and error messages.
    pub fn name(&self) -> String {
        let subjects: Vec<&str> =
            self.subjects.iter().map(|(subject, _)| subject.as_str()).collect();
        format!("{}: {}: {}", self.experiment, self.place(), subjects.join(", "))
    }

    fn place(&self) -> String {
        let what = self.settings.text("workload").unwrap_or(&self.kind);
        format!("{what}, seed {}", self.seed)
    }

    /// Returns a job for those subjects (such as schemes) that have no result in the store; `None`
    /// if all have one.
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

    /// Checks that this process would measure the same as the process that planned the job.
    ///
    /// # Errors
    /// Another build of the program, or other contents of files that the settings name.
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

    /// Measures all points of the job, in order. `progress` is called with the completed share,
    /// 0–1.
    ///
    /// # Errors
    /// A measurement that failed.
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

    /// Adds the measurements of all the job's points to the store.
    ///
    /// # Errors
    /// A file that cannot be written, or a wrong number of measurements.
    pub fn keep(
        &self,
        measured: Vec<Measurement>,
        store: &mut Store,
    ) -> Result<(), ExperimentError> {
        if measured.len() != self.point_count() {
            let problem =
                format!("{} measurements of {} points", measured.len(), self.point_count());
            return Err(self.failed(problem));
        }
        let mut points = self.points().zip(measured);
        points.try_for_each(|((point, key), figures)| store.insert(key.clone(), &point, figures))
    }

    fn failed(&self, problem: String) -> ExperimentError {
        ExperimentError::Point { name: self.experiment.clone(), point: self.place(), problem }
    }
}
