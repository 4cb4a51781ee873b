//! `--figures`: the figures of a report as files.

use std::fs;

use perforate_commands::{Failure, ResultFolder, write_text};
use perforate_report::SavedFigure;

/// Folder of the figures beside the report.
const FOLDER: &str = "figures";

/// Writes each figure as a picture and as data into a folder beside the report, and says where.
pub fn write(folder: &ResultFolder, figures: &[SavedFigure]) -> Result<String, Failure> {
    let path = folder.file(FOLDER);
    fs::create_dir_all(&path).map_err(|source| Failure::Write { path: path.clone(), source })?;
    for SavedFigure { id, svg, csv, .. } in figures {
        write_text(&path.join(format!("{id}.svg")), svg)?;
        write_text(&path.join(format!("{id}.csv")), csv)?;
    }
    Ok(format!("figures: {} ({} of them, SVG and CSV)\n", path.display(), figures.len()))
}
