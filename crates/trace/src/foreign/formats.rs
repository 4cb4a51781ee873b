//! Names of trace formats, and selection of a format by the user.

use std::path::Path;

/// A format of traces that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// Perforate's format: `docs/trace-format.md`.
    Perforate,
    /// Records of 64 bytes (ChampSim).
    ChampSim,
    /// Records of 96 bytes (ChampSim's CloudSuite traces).
    CloudSuite,
    /// Final traces of DynamoRIO's drmemtrace, as opposed to its tracer's raw traces.
    Drmemtrace,
    /// Packet traces of gem5.
    Gem5,
    /// Text output of valgrind's lackey.
    Lackey,
    /// Lists of memory accesses as text, one line for each access.
    Csv,
}

impl TraceFormat {
    /// All formats, Perforate's first.
    pub const ALL: [Self; 7] = [
        Self::Perforate,
        Self::ChampSim,
        Self::CloudSuite,
        Self::Drmemtrace,
        Self::Gem5,
        Self::Lackey,
        Self::Csv,
    ];

    /// Name of the format, as users write it and results show it.
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

/// Splits `FORMAT:FILE`, with which users specify a trace's format. If a file with the whole name exists, the
/// name is that file's.
pub fn split_format(name: &Path) -> (Option<TraceFormat>, &Path) {
    if name.exists() { (None, name) } else { strip_format(name) }
}

/// Splits `FORMAT:FILE` like [`split_format`], without looking for files.
pub(super) fn strip_format(name: &Path) -> (Option<TraceFormat>, &Path) {
    let split = name.to_str().and_then(|text| text.split_once(':'));
    let named = split.and_then(|(prefix, rest)| {
        let format = TraceFormat::ALL.into_iter().find(|format| format.name() == prefix)?;
        Some((Some(format), Path::new(rest)))
    });
    named.unwrap_or((None, name))
}
