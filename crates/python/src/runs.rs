//! Simulations and measurements.

use std::ffi::OsString;

use perforate_cli::in_process;
use perforate_commands::{Choice, Failure, MachineSettings, Question, json_lines};
use perforate_config::Given;
use pyo3::prelude::*;
use serde::Serialize;

use crate::errors::wrong_option;
use crate::work::work;

/// Pairs of texts.
pub type Pairs = Vec<(String, String)>;

/// Columns of texts.
const COLUMNS: usize = 100;

/// What options, and other values for keys of the machine, choose.
pub fn choice(options: Pairs, settings: Pairs) -> Choice {
    Choice::new(options.into_iter().collect::<Given>(), MachineSettings(settings))
}

/// What is compared.
#[derive(Clone, FromPyObject, Serialize)]
pub struct Compared {
    workload: Option<String>,
    schemes: Option<String>,
    guest: Option<String>,
    host: Option<String>,
    seeds: u64,
    options: Pairs,
    set: Pairs,
}

impl Compared {
    /// The comparison with the first seed, and pairs that are left out.
    pub fn prepare(&self) -> Result<Prepared, Failure> {
        let choice = choice(self.options.clone(), self.set.clone());
        let names = (self.schemes.as_deref(), self.guest.as_deref(), self.host.as_deref());
        let (schemes, left_out) = perforate_commands::schemes(
            names.0,
            names.1,
            names.2,
            choice.default_schemes(&|_| false),
        )?;
        let schemes = perforate_commands::with_ideal(schemes, choice.measuring()?.functional);
        let comparison = choice.comparison(self.workload.as_deref(), schemes, &|_, _| ())?;
        choice.check_effects(&comparison.schemes, &comparison.memory)?;
        let measuring = choice.measuring()?;
        measuring.check()?;
        Ok(Prepared { comparison, measuring, seeds: self.seeds, left_out })
    }

    /// The options as they were given.
    pub fn options(&self) -> &Pairs {
        &self.options
    }
}

/// A comparison that can be run.
pub struct Prepared {
    /// With the first seed.
    pub comparison: perforate_sim::Comparison,
    /// How it is measured.
    pub measuring: perforate_sim::MeasuringOptions,
    /// Number of seeds.
    pub seeds: u64,
    /// Remarks on pairs of schemes that cannot be.
    left_out: Vec<String>,
}

/// Compares schemes, and returns the lines of a results file, and remarks.
#[pyfunction]
pub fn compare(
    py: Python<'_>,
    compared: Compared,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, Vec<String>)> {
    work(py, progress, move |talk| {
        let Prepared { mut comparison, measuring, seeds, left_out } = compared.prepare()?;
        let first = comparison.seed;
        let mut lines = String::new();
        for repetition in 0..seeds {
            comparison.seed = first.wrapping_add(repetition);
            let mut show = |progress: perforate_sim::Progress| {
                let total = progress.total.map(|total| total.saturating_mul(seeds));
                let before = progress.total.unwrap_or(0).saturating_mul(repetition);
                talk.show(perforate_sim::Progress { done: before + progress.done, total });
            };
            let results =
                perforate_commands::compare(&comparison, &measuring, &talk.stop, &mut show)?;
            lines += &json_lines(&results);
        }
        Ok((lines, left_out))
    })
}

/// Explains translations, as JSON and as text.
#[pyfunction]
pub fn explain(
    py: Python<'_>,
    addresses: Vec<u64>,
    workload: String,
    scheme: String,
    options: Pairs,
    set: Pairs,
) -> PyResult<(String, String)> {
    work(py, None, move |_| {
        let question = Question { addresses: &addresses, workload: &workload, scheme: &scheme };
        let found = perforate_commands::explain(&choice(options, set), &question, &|_, _| ())?;
        let json = serde_json::to_string(&found.record()).expect("explanations are plain data");
        Ok((json, found.text(COLUMNS)))
    })
}

/// Carries out a command that measures or records, with these options and then these words, and
/// returns what it found as JSON and as text.
#[pyfunction]
pub fn carry_out(
    py: Python<'_>,
    command: Vec<String>,
    options: Pairs,
    rest: Vec<OsString>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, String)> {
    let names: Vec<&str> = command.iter().map(String::as_str).collect();
    let flags = in_process::flags(&names, &options).map_err(|error| wrong_option(py, error))?;
    let named = std::iter::once("perforate".into()).chain(command.iter().map(OsString::from));
    let words: Vec<OsString> = named.chain(flags).chain(rest).collect();
    work(py, progress, move |talk| {
        let told = in_process::carry_out(&words, &mut talk.clone(), &talk.stop)?;
        Ok((told.json, told.text))
    })
}
