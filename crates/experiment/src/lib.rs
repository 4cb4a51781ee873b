//! The papers' tables and figures as data: measurements, the papers' claims, and verdicts that
//! compare both.
//!
//! An [`Experiment`] is a file. It names a [`Kind`] of measurement with its settings, an axis,
//! curves (formulas over measurements), charts and claims. The formulas determine which points must
//! be measured ([`Plan`]). Each point is measured once for all formulas, and its result is saved in a
//! [`Store`]. An [`Outcome`] has the values of the curves, and a verdict on each claim.

mod engine;
mod error;
mod file;
mod formula;
mod identity;
mod job;
mod kind;
pub mod linear_model;
mod outcome;
mod plan;
mod record;
mod statistics;
mod store;
mod template;
mod unstated;

pub use engine::{Plan, Shard, Step};
pub use error::ExperimentError;
pub use file::{
    Axis, Chart, Claim, Curve, Expectation, Experiment, ExperimentOptions, Measure, Place, State,
};
pub use identity::{Key, build, identity};
pub use job::Job;
pub use kind::{Design, Kind, Measurement, Settings};
pub use outcome::{AtPlace, Judged, Outcome, Values};
pub use statistics::Summary;
pub use store::Store;
pub use unstated::{Study, Unstated};
