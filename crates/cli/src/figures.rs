//! `--figures`: figures of a report as files.

use crate::actions::{Files, Written};
use perforate_report::{CAN_DRAW_FIGURES, HOW_TO_GET_FIGURES, SavedFigure};

/// Name of the folder for figures, next to the report.
const FOLDER: &str = "figures";

/// Parses the flag `--figures`, which clap passes as `true` or `false`. A program built without figures
/// refuses it before any simulation.
pub fn flag(text: &str) -> Result<bool, String> {
    match text == "true" {
        true if !CAN_DRAW_FIGURES => Err(HOW_TO_GET_FIGURES.into()),
        is_set => Ok(is_set),
    }
}

/// Files of the figures: SVG and CSV of each, in a folder next to the report.
pub fn files(figures: &[SavedFigure]) -> Files {
    let of = |SavedFigure { id, svg, csv, .. }: &SavedFigure| {
        let name = |ending| format!("{FOLDER}/{id}.{ending}");
        [(name("svg"), svg.clone()), (name("csv"), csv.clone())]
    };
    figures.iter().flat_map(of).collect()
}

/// Line that names the folder of the written figures; empty without figures.
pub fn summary(written: &Written, figures: Option<&[SavedFigure]>) -> String {
    figures.map_or(String::new(), |figures| {
        let (path, count) = (written.file(FOLDER), figures.len());
        format!("figures: {} ({count} of them, SVG and CSV)\n", path.display())
    })
}
