//! Faulty frames of the machine, which are never used (G §2, D §V).

use std::fmt;

use perforate_config::{Address, ConfigError, Share};
use perforate_types::Random;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// Number of the random-number stream that fault maps use.
const FAULTS: u64 = 4;
/// Number of frames in one cluster of faults: a DRAM row of 8KB on 8 devices, 64KB.
const CLUSTER_FRAMES: u64 = 16;

/// Faulty frames. An option names them as `uniform=1%`, `clustered=1%`, or by the path of a file that lists
/// them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultMap {
    /// This share of all frames, chosen one by one at random.
    Uniform(Share),
    /// This share of all frames, in aligned runs of 64KB at random places (each like a failed DRAM row).
    Clustered(Share),
    /// Numbers of faulty frames, read from a file ([`Self::from_lines`]).
    Frames(Vec<u64>),
}

/// Text form of a random [`FaultMap`]: `uniform=1%` or `clustered=1%`.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FaultyShare {
    Uniform(Share),
    Clustered(Share),
}

impl<'de> Deserialize<'de> for FaultMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.contains('=') {
            let share = perforate_config::read(&text).map_err(D::Error::custom)?;
            return Ok(match share {
                FaultyShare::Uniform(share) => Self::Uniform(share),
                FaultyShare::Clustered(share) => Self::Clustered(share),
            });
        }
        Self::from_file(&text).map_err(|error| D::Error::custom(format!("{text}: {error}")))
    }
}

impl FaultMap {
    /// True if no frame is faulty.
    pub fn is_none(&self) -> bool {
        match self {
            Self::Uniform(share) | Self::Clustered(share) => *share == Share::NONE,
            Self::Frames(list) => list.is_empty(),
        }
    }

    /// The faulty frames of a memory of `frames` frames, in ascending order and without duplicates.
    ///
    /// # Errors
    /// If a listed frame lies outside the memory.
    pub fn frames(&self, frames: u64, seed: u64) -> Result<Vec<u64>, ConfigError> {
        let mut faulty = match self {
            Self::Uniform(share) => runs(seed, frames, share.value(), 1),
            Self::Clustered(share) => runs(seed, frames, share.value(), CLUSTER_FRAMES),
            Self::Frames(list) => list.clone(),
        };
        faulty.sort_unstable();
        faulty.dedup();
        match faulty.last() {
            Some(&last) if last >= frames => Err(ConfigError::new(format!(
                "frame {last} lies outside the memory of {frames} frames"
            ))),
            _ => Ok(faulty),
        }
    }

    /// Reads the list of faulty frames in the file at `path`.
    fn from_file(path: &str) -> Result<Self, String> {
        let lines = perforate_config::read_text(path).map_err(|error| {
            let forms = "expected uniform=1%, clustered=1% or a file with one frame number a line";
            format!("{error}; {forms}")
        })?;
        Self::from_lines(&lines).map_err(|error| error.to_string())
    }

    /// Reads a list of faulty frames, one number a line, decimal or 0x…; `#` starts a comment.
    ///
    /// # Errors
    /// Names the first line that is not a frame number.
    pub fn from_lines(text: &str) -> Result<Self, ConfigError> {
        let mut frames = Vec::new();
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.split('#').next().unwrap_or_default().trim();
            if content.is_empty() {
                continue;
            }
            // Frame numbers have the syntax of addresses.
            let Address(number) = content.parse().map_err(|_| {
                let expected = "expected the number of a frame, such as 17 or 0x20";
                ConfigError::new(format!("line {line}: {expected}, not {content:?}"))
            })?;
            frames.push(number);
        }
        Ok(Self::Frames(frames))
    }
}

/// Chooses aligned runs of `length` frames at random, without replacement, until they contain `share` of all
/// frames. Returns the numbers of all frames in the runs.
fn runs(seed: u64, frames: u64, share: f64, length: u64) -> Vec<u64> {
    let all = frames / length;
    let count = (share * all as f64).round() as u64;
    let mut random = Random::keyed(seed, FAULTS, length);
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

impl fmt::Display for FaultMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform(share) => write!(f, "uniform={share}"),
            Self::Clustered(share) => write!(f, "clustered={share}"),
            Self::Frames(list) => write!(f, "{} frames", list.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_exact_and_clusters_are_aligned() {
        let uniform = FaultMap::Uniform(Share::percent(25)).frames(4096, 1).unwrap();
        assert_eq!(uniform.len(), 1024);
        let clustered = FaultMap::Clustered(Share::percent(25)).frames(4096, 1).unwrap();
        assert_eq!(clustered.len(), 1024);
        for run in clustered.chunks(16) {
            assert!(run[0] % 16 == 0 && run[15] == run[0] + 15);
        }
        assert_eq!(FaultMap::Uniform(Share::WHOLE).frames(100, 1).unwrap().len(), 100);
        assert_ne!(FaultMap::Uniform(Share::percent(25)).frames(4096, 2).unwrap(), uniform);
    }

    #[test]
    fn files_list_frames() {
        let map = FaultMap::from_lines("# two bad rows\n17\n0x20 # hexadecimal\n\n17\n").unwrap();
        assert_eq!(map.frames(64, 0).unwrap(), [17, 32]);
        let error = map.frames(32, 0).unwrap_err().to_string();
        assert!(error.contains("frame 32 lies outside the memory of 32 frames"), "{error}");
        let error = FaultMap::from_lines("1\nx\n").unwrap_err().to_string();
        assert!(error.contains("line 2: expected the number of a frame"), "{error}");
        for wrong in ["uniform", "row=1%", "uniform=2", "frames=1"] {
            assert!(perforate_config::read::<FaultMap>(wrong).is_err(), "{wrong}");
        }
        let clustered = perforate_config::read("clustered=5%");
        assert_eq!(clustered, Ok(FaultMap::Clustered(Share::percent(5))));
    }

    #[test]
    fn shares_are_rounded_to_whole_runs() {
        let percent = |percent| Share::percent(percent);
        for (map, frames, count) in [
            (FaultMap::Uniform(percent(0)), 1000, 0),
            // 2.4, 2.5 and 2.6 frames.
            (FaultMap::Uniform(percent(1)), 240, 2),
            (FaultMap::Uniform(percent(1)), 250, 3),
            (FaultMap::Uniform(percent(1)), 260, 3),
            (FaultMap::Uniform(percent(100)), 7, 7),
            // Of 40 frames, two runs of 16 can be faulty; of 15 frames, none.
            (FaultMap::Clustered(percent(100)), 40, 32),
            (FaultMap::Clustered(percent(100)), 16, 16),
            (FaultMap::Clustered(percent(100)), 15, 0),
            (FaultMap::Clustered(percent(25)), 32, 16),
            (FaultMap::Clustered(percent(24)), 32, 0),
            (FaultMap::Uniform(percent(100)), 0, 0),
        ] {
            let found = map.frames(frames, 5).unwrap();
            assert_eq!(found.len(), count, "{map} of {frames}");
            assert!(found.is_sorted() && found.iter().all(|&frame| frame < frames));
        }
    }

    #[test]
    fn maps_are_written_and_empty_ones_are_known() {
        for (map, text, is_none) in [
            (FaultMap::Uniform(Share::percent(1)), "uniform=1%", false),
            (FaultMap::Clustered(Share::percent(2)), "clustered=2%", false),
            (FaultMap::Frames(vec![4, 7]), "2 frames", false),
            (FaultMap::Frames(Vec::new()), "0 frames", true),
            (FaultMap::Uniform(Share::NONE), "uniform=0%", true),
            (FaultMap::Clustered(Share::NONE), "clustered=0%", true),
        ] {
            assert_eq!((map.to_string().as_str(), map.is_none()), (text, is_none));
        }
        let list = FaultMap::from_lines(" 63 \n#64\n").unwrap();
        assert_eq!(list.frames(64, 0), Ok(vec![63]));
        let error = list.frames(63, 0).unwrap_err().to_string();
        assert_eq!(error, "frame 63 lies outside the memory of 63 frames");
        let error = FaultMap::from_lines("1\n\n-2 # no\n").unwrap_err().to_string();
        let expected = "line 3: expected the number of a frame, such as 17 or 0x20, not \"-2\"";
        assert_eq!(error, expected);
        let error = perforate_config::read::<FaultMap>("nowhere").unwrap_err().to_string();
        let forms = "expected uniform=1%, clustered=1% or a file with one frame number a line";
        assert!(error.starts_with("nowhere: ") && error.ends_with(forms), "{error}");
    }
}
