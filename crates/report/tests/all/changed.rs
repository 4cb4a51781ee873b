//! Pages and tables of records in which one field is changed or missing, compared with `tests/data/changed.txt`:
//! records of other versions and of other programs may have any value that the format allows.

use std::collections::BTreeSet;
use std::fmt::Write;

use perforate_kept::{self as kept, TextHash};
use perforate_records::{read_experiments, read_results};
use perforate_report::{
    Rows, experiments_html, experiments_table, html, summaries, table, varied_table,
};
use serde_json::{Value, json};

use crate::document::{data, markup};
use crate::vocabulary::{options, vocabulary};
use crate::{kept as samples, memory, records, why};

/// Other values that a field may have; `None` leaves it out.
fn others(value: &Value) -> Vec<Option<Value>> {
    let values = match value {
        Value::Null => vec![json!(1), json!("x")],
        Value::Bool(is_true) => vec![json!(!is_true)],
        Value::Number(number) => {
            let number = number.as_f64().expect("a number");
            let exact =
                |value: f64| if value.fract() == 0.0 { json!(value as i64) } else { json!(value) };
            vec![json!(0), json!(1), json!(2), exact(number * 2.0), exact(-number), Value::Null]
        }
        Value::String(_) => vec![json!(""), json!("other"), Value::Null],
        Value::Array(values) => {
            let first = values.iter().take(1).cloned().collect();
            let twice = values.iter().chain(values).cloned().collect();
            vec![json!([]), Value::Array(first), Value::Array(twice)]
        }
        Value::Object(_) => vec![json!({})],
    };
    values.into_iter().map(Some).chain([None]).collect()
}

/// Copies of `whole` in which the part at `path` or one below it is another, with a name of the part. Of an
/// array, only the first element is changed.
fn changes(whole: &Value, path: &str, out: &mut Vec<(String, Value)>) {
    let part = whole.pointer(path).expect("the path is of this value");
    if let Some((parent, key)) = path.rsplit_once('/') {
        for other in others(part) {
            let mut changed = whole.clone();
            match (changed.pointer_mut(parent).expect("it has a parent"), other) {
                (Value::Object(fields), Some(other)) => drop(fields.insert(key.to_owned(), other)),
                (Value::Object(fields), None) => drop(fields.remove(key)),
                (Value::Array(values), Some(other)) => values[0] = other,
                (Value::Array(values), None) => drop(values.remove(0)),
                _ => unreachable!("only these have parts"),
            }
            out.push((path.to_owned(), changed));
        }
    }
    match part {
        Value::Object(fields) => {
            for key in fields.keys() {
                changes(whole, &format!("{path}/{key}"), out);
            }
        }
        Value::Array(values) if !values.is_empty() => changes(whole, &format!("{path}/0"), out),
        _ => {}
    }
}

/// Adds a line for each field of the records in `lines`: a hash of what `shown` makes of all records, with each
/// other value of the field. A field of several records is changed in the first that has it.
fn add(kept: &mut String, name: &str, lines: &str, shown: &dyn Fn(&str) -> String) {
    let records: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("a record")).collect();
    let mut done = BTreeSet::new();
    for (place, record) in records.iter().enumerate() {
        let mut changed = Vec::new();
        changes(record, "", &mut changed);
        let of_record = record["record"].as_str().unwrap_or("run");
        let mut paths: Vec<String> = changed.iter().map(|(path, _)| path.clone()).collect();
        paths.dedup();
        for path in paths {
            if !done.insert(format!("{of_record}{path}")) {
                continue;
            }
            let mut hash = TextHash::default();
            for (_, value) in changed.iter().filter(|(other, _)| *other == path) {
                let mut all: Vec<String> = records.iter().map(Value::to_string).collect();
                all[place] = value.to_string();
                hash.write_str(&shown(&all.join("\n"))).expect("a hash takes all");
            }
            writeln!(kept, "{name} | {of_record}{path} | {hash}").expect("a string takes all");
        }
    }
}

/// Text of a page without its scripts, and the data of its figures.
fn page(page: &str) -> String {
    let data = page.contains("id=\"data\"").then(|| data(page).to_string());
    [markup(page), data.unwrap_or_default()].concat()
}

#[test]
fn changed_records_are_shown_as_they_were() {
    let (vocabulary, options) = (vocabulary(), options("Changed", "perforate"));
    let experiments = |lines: &str| match read_experiments(lines) {
        Ok(results) => {
            [experiments_table(&results, 90), page(&experiments_html(&results, &options))].concat()
        }
        Err(error) => error.to_string(),
    };
    let texts_of_runs = |lines: &str| match read_results(lines) {
        Ok(results) => {
            let summaries = serde_json::to_string(&summaries(&results, &vocabulary)).unwrap();
            let varied = varied_table(&results, &vocabulary, 90).unwrap_or_default();
            [table(&results, &vocabulary, 90, Rows::All), varied, summaries].concat()
        }
        Err(error) => error.to_string(),
    };
    let runs = |lines: &str| match read_results(lines) {
        Ok(results) => [texts_of_runs(lines), page(&html(&results, &options))].concat(),
        Err(error) => error.to_string(),
    };
    let mut kept = String::new();
    for (name, lines) in [
        ("lines", records::lines().text()),
        ("bars", records::bars().text()),
        ("stacks", records::stacks().text()),
        ("closed forms", records::closed_forms().text()),
        ("odd labels", records::odd_labels().text()),
        ("joint", records::joint()),
    ] {
        add(&mut kept, name, &lines, &experiments);
    }
    for (name, lines) in [("varied", samples::varied()), ("sampled", samples::sampled())] {
        add(&mut kept, name, &lines, &runs);
    }
    for (name, lines) in [
        ("why", why::three_runs().join("\n")),
        ("memory", memory::runs().join("\n")),
        ("sample", samples::SAMPLE.to_owned()),
    ] {
        add(&mut kept, name, &lines, &texts_of_runs);
    }
    kept::compare(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/changed.txt"), &kept);
}
