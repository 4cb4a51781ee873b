//! The list of schemes and of their counters.

use std::fmt::Write;

use perforate_kept as kept;
use perforate_schemes::{
    PolicyOptions, Scheme, all, complete, counters, default_pairs, default_schemes, hosts_only,
    segment,
};
use perforate_types::Counters;

fn file(name: &str) -> String {
    format!("{}/tests/all/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn line(scheme: &Scheme) -> String {
    let facts = scheme.facts();
    let aged = PolicyOptions { has_aged_blocks: true, ..PolicyOptions::default() };
    let policies = [PolicyOptions::default(), aged].map(|options| scheme.describe_policy(&options));
    let mut text = format!("{}: {}", scheme.name, scheme.summary);
    for (key, value) in [
        ("source", scheme.source.to_owned()),
        ("other names", facts.other_names.join(", ")),
        ("colour", facts.colour.into()),
        ("role", format!("{:?}", facts.role)),
        ("Linux setting", facts.setting.unwrap_or_default().into()),
        ("ideal memory", scheme.ideal_memory.to_string()),
        ("free", scheme.free_translation.to_string()),
        ("shadow paging", scheme.shadow_paging.to_string()),
        ("flat table", scheme.flat_table.to_string()),
        ("native only", scheme.native_only.unwrap_or_default().into()),
        ("shadow directories", scheme.shadow_directories.to_string()),
        ("gap tolerance", format!("{:?}", scheme.gap_tolerance)),
        ("bitmaps", format!("{:?}", scheme.bitmap_loading)),
        ("coalescing", format!("{:?}", scheme.coalescing)),
        ("segment", segment::is_used_by(scheme).to_string()),
        ("policy", policies.join(" or ")),
        ("counters", (scheme.counters)().iter().map(|it| &*it.id).collect::<Vec<_>>().join(", ")),
    ] {
        if !["", "false", "None"].contains(&&*value) {
            write!(text, "; {key}: {value}").unwrap();
        }
    }
    text + "\n"
}

/// Every scheme with all that lists, reports and runs take from it, in the order of reports, as in a file.
#[test]
fn schemes_are_those_of_the_file() {
    let lines: String = all().chain(hosts_only()).map(line).collect();
    kept::compare(file("kept-schemes.txt"), &lines);
    let hosts: Vec<_> = hosts_only().map(|scheme| scheme.name).collect();
    assert_eq!(hosts, ["shadow-4k", "shadow-thp", "flat-4k", "flat-thp"]);
}

/// Every counter of a mechanism, as in a file. Each is listed once.
#[test]
fn counters_of_mechanisms_are_those_of_the_file() {
    let mut lines = String::new();
    for counter in counters() {
        let (id, label, unit) = (&counter.id, &counter.label, counter.unit.name());
        let (group, meaning) = (counter.group, &counter.meaning);
        let prominence = counter.prominence;
        assert_eq!(counter.part, None);
        writeln!(lines, "{id}: {label}, {unit}, {group}, {prominence:?}; {meaning}").unwrap();
    }
    kept::compare(file("kept-counters.txt"), &lines);
    let mut ids: Vec<_> = counters().into_iter().map(|counter| counter.id).collect();
    ids.sort_unstable();
    let mut out = Counters::default();
    out.set("ranges", 7);
    out.set("another", 8);
    complete(&mut out);
    assert_eq!((out.get("ranges"), out.get("another")), (Some(7.0), Some(8.0)));
    let zeros = out.iter().filter(|(_, value)| value.as_f64() == 0.0).map(|(id, _)| id);
    assert!(zeros.eq(ids.iter().map(|id| &**id).filter(|&id| id != "ranges")));
}

#[test]
fn what_is_compared_by_default_has_what_the_user_gave() {
    for (has_layout, has_script, schemes, pairs) in [
        (false, false, "4k,thp,perforated,ideal", "4k+4k,thp+4k,4k+thp,thp+thp"),
        (true, false, "4k,layout,thp,ideal", "4k+4k,layout+4k,thp+4k,4k+thp,layout+thp,thp+thp"),
        (
            false,
            true,
            "4k,thp,scripted,ideal",
            "4k+4k,thp+4k,scripted+4k,4k+thp,thp+thp,scripted+thp",
        ),
        (
            true,
            true,
            "4k,layout,thp,scripted,ideal",
            "4k+4k,layout+4k,thp+4k,scripted+4k,4k+thp,layout+thp,thp+thp,scripted+thp",
        ),
    ] {
        assert_eq!(default_schemes(has_layout, has_script), schemes);
        assert_eq!(default_pairs(has_layout, has_script), pairs);
    }
}
