//! The built program as its users meet it.

mod bad_input;
mod bad_machines;
mod bad_traces;
mod bench;
mod calibrate;
mod compare;
mod cores;
mod documents;
mod experiment;
mod explain;
mod idle_options;
mod layouts;
mod lists;
mod machines;
mod model;
mod pipes;
mod place;
mod recording;
mod run;
mod snapshot;
mod statistics;
mod suggestions;
mod traces;
mod validate;
mod vary;
mod virtualized;
