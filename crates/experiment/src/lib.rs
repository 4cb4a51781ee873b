//! The papers' tables and figures as data: what is measured, what the papers claim, and whether our
//! measurements bear it out.
//!
//! An [`Experiment`] is a file. It names a [`Kind`] of measurement and its settings, an
//! axis, curves that are formulas over measurements, charts and claims. From the formulas follows which
//! points must be measured ([`Plan`]); each is measured once, whatever asks for it, and kept in a
//! [`Store`]. An [`Outcome`] has the curves, and a verdict for each claim.

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
pub use unstated::Unstated;
