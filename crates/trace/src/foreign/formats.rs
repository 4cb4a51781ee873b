//! The names of the formats, and how a user says which one a file has.

use std::path::Path;

/// A format that traces can be read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// Ours: `docs/trace-format.md`.
    Perforate,
    /// ChampSim's records of 64 bytes.
    ChampSim,
    /// ChampSim's records of 96 bytes, of the CloudSuite traces.
    CloudSuite,
    /// Final traces of DynamoRIO's drmemtrace.
    Drmemtrace,
    /// gem5's packet traces.
    Gem5,
    /// Text of valgrind's lackey.
    Lackey,
    /// A list of accesses in text.
    Csv,
}

impl TraceFormat {
    /// All formats.
    pub const ALL: [Self; 7] = [
        Self::Perforate,
        Self::ChampSim,
        Self::CloudSuite,
        Self::Drmemtrace,
        Self::Gem5,
        Self::Lackey,
        Self::Csv,
    ];

    /// The name users write and results show.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Perforate => "perforate",
            Self::ChampSim => "champsim",
            Self::CloudSuite => "cloudsuite",
            Self::Drmemtrace => "drmemtrace",
            Self::Gem5 => "gem5",
            Self::Lackey => "lackey",
            Self::Csv => "csv",
        }
    }
}

/// Splits `FORMAT:FILE`, by which users say what the content leaves open. A file that exists
/// under the whole name is that file.
pub fn split_format(name: &Path) -> (Option<TraceFormat>, &Path) {
    if name.exists() { (None, name) } else { strip_format(name) }
}

/// As [`split_format`], whatever files exist.
pub(super) fn strip_format(name: &Path) -> (Option<TraceFormat>, &Path) {
    let split = name.to_str().and_then(|text| text.split_once(':'));
    let named = split.and_then(|(prefix, rest)| {
        let format = TraceFormat::ALL.into_iter().find(|format| format.name() == prefix)?;
        Some((Some(format), Path::new(rest)))
    });
    named.unwrap_or((None, name))
}
