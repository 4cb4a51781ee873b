//! Tables of behaviours that other projects test. Every row is checked here, and `docs/linux.md` lists all
//! rows of a table as they are.

use std::panic::{AssertUnwindSafe, catch_unwind};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/linux.md");

/// Relation between the behaviour that another project tests and the behaviour here.
#[derive(Clone, Copy)]
pub enum State {
    /// Both agreed before the table was written.
    Held,
    /// Both agree since the table was written.
    Mended,
    /// They differ, for this reason.
    Differs(&'static str),
}

/// One behaviour that another project tests.
pub struct Row {
    behaviour: &'static str,
    /// File and test in which the other project tests it.
    source: &'static str,
    state: State,
    /// Checks the behaviour here; if it differs, the present behaviour here.
    check: fn(),
}

pub fn held(behaviour: &'static str, source: &'static str, check: fn()) -> Row {
    Row { behaviour, source, state: State::Held, check }
}

pub fn mended(behaviour: &'static str, source: &'static str, check: fn()) -> Row {
    Row { behaviour, source, state: State::Mended, check }
}

pub fn differs(
    behaviour: &'static str,
    source: &'static str,
    reason: &'static str,
    check: fn(),
) -> Row {
    Row { behaviour, source, state: State::Differs(reason), check }
}

/// Checks all rows, and that the section with this heading of the page lists them and no others.
///
/// # Panics
/// With the names of all rows that fail, or with the section as it should be.
pub fn check(heading: &str, rows: &[Row]) {
    let fails = |row: &&Row| catch_unwind(AssertUnwindSafe(row.check)).is_err();
    let failed: Vec<&str> = rows.iter().filter(fails).map(|row| row.behaviour).collect();
    assert!(failed.is_empty(), "{heading}: {failed:#?}");
    let expected = section(rows);
    let page = page();
    let listed =
        page.split("\n## ").find_map(|part| part.strip_prefix(heading)?.split_once("\n\n"));
    let listed = listed.map_or("", |(_, body)| body.trim_end());
    assert!(listed == expected, "docs/linux.md should have under \"{heading}\":\n\n{expected}\n");
}

/// Text of the page that lists all tables.
pub fn page() -> String {
    std::fs::read_to_string(PAGE).expect("the page exists")
}

/// Body of a table's section: the counts and one line for each row.
fn section(rows: &[Row]) -> String {
    let count = |is: fn(State) -> bool| rows.iter().filter(|row| is(row.state)).count();
    let held = count(|state| matches!(state, State::Held));
    let now = count(|state| !matches!(state, State::Differs(_)));
    let mut lines = vec![
        format!("{} behaviours: {held} held before, {now} hold now.\n", rows.len()),
        "| behaviour | source | before | now |".into(),
        "|---|---|---|---|".into(),
    ];
    lines.extend(rows.iter().map(|row| {
        let (before, now) = match row.state {
            State::Held => ("holds", "holds".into()),
            State::Mended => ("no", "holds".into()),
            State::Differs(reason) => ("no", format!("no: {reason}")),
        };
        format!("| {} | {} | {before} | {now} |", row.behaviour, row.source)
    }));
    lines.join("\n")
}
