//! The papers' tables and figures as data: what is measured, what the papers claim, and whether our
//! measurements bear it out.
//!
//! An [`Experiment`] is a file. It names a [`Kind`](kind::Kind) of measurement and its settings, an
//! axis, curves that are formulas over measurements, charts and claims. From the formulas follows which
//! points must be measured ([`Plan`]); each is measured once, whatever asks for it, and kept in a
//! [`Store`]. An [`Outcome`] has the curves, and a verdict for each claim.

pub mod capacity;
mod engine;
mod error;
mod file;
mod formula;
mod job;
pub mod kind;
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
pub use job::Job;
pub use kind::{Measurement, hash_of_file};
pub use outcome::{AtPlace, Drawn, Judged, Outcome, Values};
pub use statistics::Summary;
pub use store::{Key, Store, build};
pub use unstated::Unstated;
