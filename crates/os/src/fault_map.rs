//! Which frames of the machine are faulty and never used (G §2, D §V).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::OsError;
use crate::fragmentation::parse_share;
use crate::random::Random;

/// Purpose of the random stream.
const FAULTS: u64 = 4;
/// Frames of a cluster of faults: a DRAM row of 8KB on 8 devices, 64KB.
const CLUSTER_FRAMES: u64 = 16;

/// Faulty frames.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultMap {
    /// This share of all frames, each alone, anywhere.
    Uniform(f64),
    /// This share of all frames, in aligned runs of 64KB (a failed DRAM row), anywhere.
    Clustered(f64),
    /// These frames, by number.
    Frames(Vec<u64>),
}

impl FaultMap {
    /// The faulty frames of a memory of `frames` frames, in order.
    ///
    /// # Errors
    /// If one of a given list lies outside the memory.
    pub fn frames(&self, frames: u64, seed: u64) -> Result<Vec<u64>, OsError> {
        let mut faulty = match self {
            Self::Uniform(share) => runs(seed, frames, *share, 1),
            Self::Clustered(share) => runs(seed, frames, *share, CLUSTER_FRAMES),
            Self::Frames(list) => list.clone(),
        };
        faulty.sort_unstable();
        faulty.dedup();
        match faulty.last() {
            Some(&last) if last >= frames => Err(OsError::InvalidFaultMap {
                text: self.to_string(),
                reason: format!("frame {last} lies outside the memory of {frames} frames"),
            }),
            _ => Ok(faulty),
        }
    }

    /// Reads a list of frames, one number a line, decimal or 0x…; `#` starts a comment.
    ///
    /// # Errors
    /// With the line where something else stands.
    pub fn from_lines(text: &str) -> Result<Self, OsError> {
        let mut frames = Vec::new();
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.split('#').next().unwrap_or_default().trim();
            if content.is_empty() {
                continue;
            }
            let number = match content.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => content.parse(),
            };
            frames.push(number.map_err(|_| OsError::InvalidFaultMap {
                text: content.to_string(),
                reason: format!("line {line} is not the number of a frame"),
            })?);
        }
        Ok(Self::Frames(frames))
    }
}

/// Aligned runs of `length` frames, drawn without replacement, `share` of all frames together.
fn runs(seed: u64, frames: u64, share: f64, length: u64) -> Vec<u64> {
    let all = frames / length;
    let count = (share * all as f64).round() as u64;
    let mut random = Random::new(seed, FAULTS, length);
    let mut chosen = std::collections::BTreeSet::new();
    // Floyd's algorithm: every set of `count` runs is equally likely.
    for last in all - count..all {
        let draw = random.below(last + 1);
        if !chosen.insert(draw) {
            chosen.insert(last);
        }
    }
    chosen.into_iter().flat_map(|run| run * length..(run + 1) * length).collect()
}

impl FromStr for FaultMap {
    type Err = OsError;

    /// Reads `uniform=S%` or `clustered=S%`.
    fn from_str(text: &str) -> Result<Self, OsError> {
        let invalid = |reason| OsError::InvalidFaultMap { text: text.to_string(), reason };
        match text.split_once('=') {
            Some(("uniform", share)) => Ok(Self::Uniform(parse_share(share).map_err(invalid)?)),
            Some(("clustered", share)) => Ok(Self::Clustered(parse_share(share).map_err(invalid)?)),
            _ => Err(invalid("write uniform=1% or clustered=1%".to_string())),
        }
    }
}

impl fmt::Display for FaultMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform(share) => write!(f, "uniform={}%", share * 100.0),
            Self::Clustered(share) => write!(f, "clustered={}%", share * 100.0),
            Self::Frames(list) => write!(f, "{} frames", list.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_exact_and_clusters_are_aligned() {
        let uniform = FaultMap::Uniform(0.25).frames(4096, 1).unwrap();
        assert_eq!(uniform.len(), 1024);
        let clustered = FaultMap::Clustered(0.25).frames(4096, 1).unwrap();
        assert_eq!(clustered.len(), 1024);
        for run in clustered.chunks(16) {
            assert!(run[0] % 16 == 0 && run[15] == run[0] + 15);
        }
        assert_eq!(FaultMap::Uniform(1.0).frames(100, 1).unwrap().len(), 100);
        assert_ne!(FaultMap::Uniform(0.25).frames(4096, 2).unwrap(), uniform);
    }

    #[test]
    fn files_list_frames() {
        let map = FaultMap::from_lines("# two bad rows\n17\n0x20 # hexadecimal\n\n17\n").unwrap();
        assert_eq!(map.frames(64, 0).unwrap(), [17, 32]);
        let error = map.frames(32, 0).unwrap_err().to_string();
        assert!(error.contains("frame 32 lies outside the memory of 32 frames"), "{error}");
        let error = FaultMap::from_lines("1\nx\n").unwrap_err().to_string();
        assert!(error.contains("line 2 is not the number of a frame"), "{error}");
        for wrong in ["uniform", "row=1%", "uniform=2"] {
            assert!(wrong.parse::<FaultMap>().is_err(), "{wrong}");
        }
        assert_eq!("clustered=5%".parse::<FaultMap>().unwrap(), FaultMap::Clustered(0.05));
    }
}
