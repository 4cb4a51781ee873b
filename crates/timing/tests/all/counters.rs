//! Labels of counters and their places in reports and charts.

use std::fmt::Write;

use perforate_kept as kept;

/// Every counter with its label, unit, tables and chart, in the order of reports, as in a file.
#[test]
fn labels_tables_and_charts_of_counters_are_those_of_the_file() {
    let mut lines = String::new();
    for counter in perforate_timing::counters() {
        let unit = counter.unit.name();
        let (id, label, group) = (counter.id, counter.label, counter.group);
        write!(lines, "{id}: {label}, {unit}, {group}, {:?}", counter.prominence).unwrap();
        if let Some(part) = counter.part {
            let (whole, key, label, colour) = (part.whole, part.key, part.label, part.colour);
            write!(lines, "; in {whole}: {key}, {label}, {colour}").unwrap();
        }
        writeln!(lines, "; {}", counter.meaning).unwrap();
    }
    kept::compare(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/kept-counters.txt"), &lines);
}
