//! Machine files that describe no machine.

use crate::place::Place;

const TABLE_II: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/perforated-table2.toml"));

fn fails(place: &Place, text: &[u8], expected: &str) {
    place.write("machine.toml", text);
    let arguments = ["run", "random:size=64M", "--instructions", "9000", "--machine"];
    place.fails(&[&arguments[..], &["machine.toml"]].concat(), 1, expected);
}

fn changed(from: &str, to: &str) -> String {
    assert!(TABLE_II.contains(from), "{from}");
    TABLE_II.replacen(from, to, 1)
}

#[test]
fn geometries() {
    let place = Place::new();
    for (entries, ways) in [
        ("0", "12"),
        ("1536", "0"),
        ("0", "0"),
        ("1537", "12"),
        ("1540", "12"),
        ("18", "6"),
        ("-1", "1"),
        ("99999999999", "1"),
        ("9223372036854775807", "9223372036854775807"),
        ("9223372036854775808", "1"),
        ("1e3", "1"),
        ("\"1536\"", "12"),
    ] {
        let geometry = format!("l2 = {{ entries = {entries}, ways = {ways} }}");
        let text = changed("l2 = { entries = 1536, ways = 12 }", &geometry);
        fails(&place, text.as_bytes(), "machine.toml: ");
    }
    let text = changed("l2 = { entries = 1536, ways = 12 }", "l2 = { entries = 24, ways = 8 }");
    fails(&place, text.as_bytes(), "tlb.l2: 24 entries in 8 ways");
}

#[test]
fn windows_of_coalesced_pages() {
    let place = Place::new();
    for (value, expected) in [
        (
            "{ pages = 12, form = \"runs\" }",
            "tlb.l2_coalescing: windows of 12 pages; a power of two",
        ),
        ("{ pages = 64, form = \"groups\" }", "from 2 to 32 is possible"),
        ("{ pages = 8, form = \"heaps\" }", "not \"heaps\""),
        ("{ pages = 8 }", "missing field `form`"),
        ("8", "machine.toml: "),
    ] {
        let text = changed("[walk_cache]", &format!("l2_coalescing = {value}\n\n[walk_cache]"));
        fails(&place, text.as_bytes(), expected);
    }
}

#[test]
fn keys_and_sections() {
    let place = Place::new();
    let text = changed("[walker]", "[walker]\nspeed = 1");
    let line = text.lines().position(|line| line == "speed = 1").unwrap() + 1;
    fails(&place, text.as_bytes(), &format!("line {line}: unknown field `speed`"));
    for section in ["tlb", "walk_cache", "core", "branch_predictor", "dram", "walker"] {
        let text = changed(&format!("[{section}]"), &format!("[x_{section}]"));
        fails(&place, text.as_bytes(), &format!("x_{section}"));
        let start = TABLE_II.find(&format!("[{section}]")).unwrap();
        let length = TABLE_II[start + 1..].find("\n[").unwrap_or(TABLE_II.len() - start - 2);
        let text = [&TABLE_II[..start], &TABLE_II[start + 1 + length..]].concat();
        fails(&place, text.as_bytes(), &format!("missing field `{section}`"));
    }
    let text = changed("attach = \"l1d\"", "attach = \"llc\"");
    fails(&place, text.as_bytes(), "walker.attach");
    let text = changed("name = \"perforated-table2\"", "name = \"two\\nlines\"");
    fails(&place, text.as_bytes(), "one line");
}

#[test]
fn no_machine_files_at_all() {
    let place = Place::new();
    fails(&place, b"", "missing field");
    fails(&place, b"just text\n\n", "line 1");
    fails(&place, b"\x00\x01\x02", "line 1");
    fails(&place, b"\xff\xfe", "UTF-8");
    std::fs::create_dir(place.path("folder.toml")).unwrap();
    for (name, code, expected) in [
        ("folder.toml", 1, "this is a directory"),
        (".", 1, "this is a directory"),
        ("missing.toml", 1, "No such file"),
        ("nope", 2, "there are perforated-table2, ice-lake-sp"),
        ("", 2, "there are perforated-table2"),
    ] {
        place.fails(&["compare", "random", "--machine", name], code, expected);
        place.fails(&["explain", "--machine", name], code, expected);
    }
}

#[test]
fn schemes_whose_entries_the_tlbs_cannot_hold() {
    let place = Place::new();
    let expected = "scheme perforated: perforated pages are 2MB-grained entries";
    for command in ["run", "compare", "explain"] {
        let machine = ["--machine", "sandy-bridge-table6", "--scheme", "perforated"];
        place.fails(&[&[command][..], &machine].concat(), 2, expected);
    }
    place.write("machine.toml", changed("l2_1g = {", "l2_2m = false\nl2_1g = {"));
    let arguments = ["run", "random:size=64M", "--instructions", "9000", "--machine"];
    place.fails(
        &[&arguments[..], &["machine.toml"]].concat(),
        2,
        "on perforated-table2 (tlb.l2_2m",
    );
    let large = ["--scheme", "thp", "--functional", "--check"];
    place.succeeds(&[&arguments[..], &["machine.toml"], &large].concat());
}

/// A name is only text: it is escaped in the report.
#[test]
fn a_hostile_name_stays_text() {
    let place = Place::new();
    let name = "name = \"<script>alert(1)</script>\"";
    place.write("machine.toml", changed("name = \"perforated-table2\"", name));
    let arguments = ["compare", "random:size=64M", "--instructions", "9000", "--machine"];
    place.succeeds(&[&arguments[..], &["machine.toml"]].concat());
    let page = place.read("results/latest/report.html");
    assert!(page.contains("&lt;script&gt;alert(1)") && !page.contains("<script>alert(1)"));
}
