//! Style and script of the page, which stand inside it.
//!
//! The script is plain functions in one scope; the page is complete without it. It takes all it
//! needs from the markup: values to show from titles, data to save from tables.

/// The style sheet: screens first, then narrow ones and paper.
pub(super) const STYLE: &str = concat!(include_str!("style.css"), include_str!("print.css"));

const SCRIPTS: [&str; 6] = [
    include_str!("start.js"),
    include_str!("tips.js"),
    include_str!("areas.js"),
    include_str!("legends.js"),
    include_str!("downloads.js"),
    include_str!("tables.js"),
];

/// The script.
pub(super) fn script() -> String {
    let parts = SCRIPTS.concat();
    format!(
        "\"use strict\";\n(() => {{\n{parts}\nstartTips();\nstartPictures();\nstartLegends();\nstartTables();\nstartDownloads();\n}})();\n"
    )
}
