//! Kinds of evidence on which advice can rest, and rankings of memory from those that are no trace.
//!
//! A [trace](Evidence::Trace) can be simulated; the other two kinds only rank memory. [`Samples`] reads the
//! addresses that a processor sampled, from the text of `perf script`. [`AccessedPlace`] is memory whose accessed
//! bits were read several times. [`rank_samples`] and [`rank_accessed`] order both, the most promising memory
//! first.

mod perf;
mod places;
mod ranking;
mod samples;

use serde::Serialize;

pub use places::Place;
pub use ranking::{
    AccessedPlace, RankedAccesses, RankedSamples, SampleOrder, SampledPlace, rank_accessed,
    rank_samples,
};
pub use samples::{SampleError, Samples};

/// Kind of evidence on which advice rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// A recorded trace: every access of the program, or of sampled windows.
    Trace,
    /// Addresses sampled by the processor: PEBS, IBS, SPE.
    Samples,
    /// Accessed bits of a running process's pages.
    AccessedBits,
}

impl Evidence {
    /// All kinds, the one that says most first.
    pub const ALL: [Self; 3] = [Self::Trace, Self::Samples, Self::AccessedBits];

    /// Letter that every output of advice shows.
    pub const fn letter(self) -> char {
        match self {
            Self::Trace => 'A',
            Self::Samples => 'B',
            Self::AccessedBits => 'C',
        }
    }

    /// Name of the evidence as outputs show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trace => "a recorded trace",
            Self::Samples => "samples of the processor",
            Self::AccessedBits => "accessed bits",
        }
    }

    /// Limits of the conclusions that the evidence allows, in one sentence.
    pub const fn limits(self) -> &'static str {
        match self {
            Self::Trace => {
                "a trace can be simulated with other page sizes, so advice predicts time, with the \
                 error of the prediction beside it"
            }
            Self::Samples => {
                "samples say where accesses missed the TLB with the pages of that run; they do not \
                 say how much time other pages save"
            }
            Self::AccessedBits => {
                "accessed bits say which memory is used, once or a million times alike: no TLB \
                 misses and no time follow from them"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_follow_the_order_of_kinds() {
        let letters: String = Evidence::ALL.iter().map(|kind| kind.letter()).collect();
        assert_eq!(letters, "ABC");
        let json = serde_json::to_string(&Evidence::ALL).unwrap();
        assert_eq!(json, r#"["trace","samples","accessed-bits"]"#);
    }
}
