//! Processor samples and accessed bits as evidence, and rankings of memory by them.
//!
//! A trace can be simulated; other evidence only ranks memory. [`Samples`] reads the
//! addresses that a processor sampled, from the text of `perf script`. [`AccessedPlace`] is memory whose accessed
//! bits were read several times. [`rank_samples`] and [`rank_accessed`] order both, the most promising memory
//! first.

mod perf;
mod ranking;
mod samples;

pub use ranking::{
    AccessedPlace, Place, RankedAccesses, RankedSamples, SampledPlace, rank_accessed, rank_samples,
};
pub use samples::{SampleError, Samples};
