//! Valid scripts, invalid scripts, and hostile scripts.

use std::path::Path;
use std::time::{Duration, Instant};

use super::*;
use crate::sandbox::MOST_TIME;

const AREA: AreaFacts = AreaFacts {
    address: 0x7000_0020_0000,
    start: 0x7000_0000_0000,
    length: 64 << 20,
    kind: "anonymous",
    advice: "none",
    shared: false,
    writable: true,
    executable: false,
    memory_bytes: 1 << 30,
    free_bytes: 512 << 20,
    free_blocks: 200,
};

fn order_for(text: &str) -> Result<Vec<u32>, String> {
    let script = Script::compile("policy.rhai", text).map_err(|error| error.to_string())?;
    let answered = script.order_for(AREA, Purpose::Fault, &[0, 9]);
    Ok(answered.map_err(|error| error.to_string())?.expect("it is defined").answer)
}

/// Returns the answer of a script whose function `order_for` has this body.
fn body(body: &str) -> Result<Vec<u32>, String> {
    order_for(&format!("fn order_for(area, kind, orders) {{ {body} }}"))
}

#[test]
fn an_order_or_a_list_of_orders() {
    assert_eq!(body("9"), Ok(vec![9]));
    assert_eq!(body("orders"), Ok(vec![0, 9]));
    assert_eq!(body("if area.length >= 65 << 20 { 9 } else { 0 }"), Ok(vec![0]));
    assert_eq!(
        body("if kind == \"fault\" && area.kind == \"anonymous\" { 9 } else { 0 }"),
        Ok(vec![9])
    );
    assert_eq!(body("if area.advice == \"hugepage\" { return 9; } 0"), Ok(vec![0]));
    assert_eq!(body("orders.filter(|order| order < 9)"), Ok(vec![0]));
    assert_eq!(
        body("if (area.address - area.start) % (2 << 20) == 0 { 9 } else { 0 }"),
        Ok(vec![9])
    );
}

#[test]
fn constants_and_functions_of_its_own() {
    let text = "const LEAST = 16 * 1024 * 1024;\nconst KIND = \"anonymous\";\n\
                fn is_wanted(kind) { [\"heap\", KIND].contains(kind) }\n\
                fn order_for(area, kind, orders) {\n\
                  if is_wanted(area.kind) && area.length >= LEAST { 9 } else { 0 }\n}";
    assert_eq!(order_for(text), Ok(vec![9]));
}

#[test]
fn a_script_keeps_no_state() {
    let script = "fn order_for(area, kind, orders) { let n = 0; n += 9; n }";
    let script = Script::compile("policy.rhai", script).unwrap();
    let ask = || script.order_for(AREA, Purpose::Khugepaged, &[0, 9]).unwrap().unwrap();
    let first = ask();
    assert_eq!(first.answer, [9]);
    assert!((3..30).contains(&first.operations), "{}", first.operations);
    assert_eq!(ask(), first);
}

#[test]
fn questions_that_a_script_leaves_out() {
    let script = Script::compile("policy.rhai", "fn patch(copies) { copies < 2 }").unwrap();
    assert!(script.defines(Question::Patch) && !script.defines(Question::OrderFor));
    assert!(script.order_for(AREA, Purpose::Fault, &[0, 9]).unwrap().is_none());
    let patches = |copies| script.patch(copies).unwrap().unwrap().answer;
    assert!(patches(1) && !patches(2));
}

#[test]
fn holes_ways_and_victims() {
    let text = r#"
        fn with_holes(block) { if block.holes < 100 { "lazy" } else { block.regions_with_holes < 4 } }
        fn promote(region, ways) {
            for way in ways {
                if way.frames_copied <= region.pages_present / 2 { return way.name; }
            }
        }
        fn demote(block) { block.holes > 256 || block.aged }
        fn reclaim(victim) { !victim.large }
    "#;
    let script = Script::compile("policy.rhai", text).unwrap();
    let block = |holes| BlockFacts { holes, regions_with_holes: holes / 64 + 1, aged: false };
    let with_holes = |holes| script.with_holes(block(holes)).unwrap().unwrap().answer;
    assert_eq!(with_holes(99), HoleUse::Lazy);
    assert_eq!(with_holes(128), HoleUse::Eager);
    assert_eq!(with_holes(200), HoleUse::No);
    let demotes = |holes| script.demote(block(holes)).unwrap().unwrap().answer;
    assert!(demotes(257) && !demotes(256));

    let region = RegionFacts { pages_present: 400, pages_absent: 112, pages_shared: 0 };
    let way = |name, frames_copied| WayFacts {
        name,
        frames_copied,
        frames_migrated: 0,
        frames_zeroed: 112,
        holes: 0,
    };
    let promote = |ways: &[WayFacts]| script.promote(region, ways).unwrap().unwrap().answer;
    assert_eq!(promote(&[way("collapse", 400), way("punch_in_place", 0)]), Some(1));
    assert_eq!(promote(&[way("collapse", 400)]), None);

    let victim =
        VictimFacts { address: 0, pages_present: 512, large: true, holes: 0, advice: "none" };
    assert!(!script.reclaim(victim).unwrap().unwrap().answer);
}

#[test]
fn wrong_answers_name_what_was_offered() {
    for (answer, found) in [
        ("5", "5"),
        ("[9, 18]", "[9, 18]"),
        ("[]", "[]"),
        ("-1", "-1"),
        ("\"9\"", "\"9\""),
        ("true", "true"),
        ("()", "nothing"),
        ("9.0", "9.0"),
        ("area", "perforate_script"),
    ] {
        let error = body(answer).unwrap_err();
        let start = format!("policy.rhai: line 1, column 1: order_for answered {found}");
        assert!(error.starts_with(&start), "{error}");
        assert!(
            error.ends_with("; expected one or several of the orders offered: 0, 9"),
            "{error}"
        );
    }
}

#[test]
fn invalid_scripts_do_not_compile() {
    for (text, problem) in [
        (
            "fn order_for(area, kind) { 9 }",
            "line 1, column 1: expected the function order_for(area, kind, orders)",
        ),
        (
            "fn orderfor(area, kind, orders) { 9 }",
            "it defines no function that is asked; expected one of order_for, with_holes",
        ),
        ("", "it defines no function that is asked"),
        ("fn order_for(area, kind, orders) {\n  9 +\n}", "line 3, column 1: "),
        ("fn order_for(area, kind, orders) {\n  let x = lenght;\n 9 }", "line 2, column 11: "),
        ("fn order_for(area, kind, orders) { eval(\"9\") }", "line 1, column 36: "),
        ("fn order_for(area, kind, orders) { print(9); 9 }", "line 1, column 36: "),
        ("fn order_for(area, kind, orders) { let f = |x| x; f.curry(1); 9 }", "line 1, column "),
        ("fn order_for(area, kind, orders) { curry(|x| x, 1); 9 }", "line 1, column "),
        ("fn order_for(area, kind, orders) { let m = #{a: 1}; 9 }", "line 1, column 44: "),
        ("fn order_for(area, kind, orders) { Fn(\"order_for\"); 9 }", "line 1, column "),
        ("let f = |x| x; for k in 0..60 { f = f.curry([f, f]) } fn patch(n) { true }", "line 1, "),
        (
            "let f = |x| x; let g = || f; g.call(); fn patch(n) { true }",
            "line 1, column 27: Variable not found: f; a function",
        ),
        (
            "fn promote(region, ways) { ways.filter(|way| way.holes < region.pages_absent) }",
            "line 1, column 58: Syntax error: Undefined variable: region; a function, |x| … too, \
             sees its parameters, its own variables and constants",
        ),
        ("import \"file\" as f; fn patch(n) { true }", "line 1, column "),
        ("loop {} fn patch(n) { true }", "line 1, column "),
        ("const A = [0]; loop { A += A; }", "line 1, column "),
        (
            "const A = [0]; fn patch(n) { true }",
            "A is no number, text or truth; expected such a constant",
        ),
    ] {
        let error = Script::compile("policy.rhai", text).unwrap_err().to_string();
        assert!(error.starts_with(&format!("policy.rhai: {problem}")), "{text}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

/// A running script that fails is reported with line and column, and does no more work than the
/// limits allow.
#[test]
fn hostile_scripts_are_stopped() {
    for (text, problem) in [
        ("loop {}", "more than 20000 operations; expected an answer by then"),
        ("while true { let x = 1; }", "more than 20000 operations"),
        ("let s = \"ab\"; loop { s += s; }", "a text of more than 512 bytes"),
        ("let a = [1]; loop { a += a; }", "a list of more than 64 elements"),
        ("let a = []; a.pad(1000000000, 0); 9", "a list of more than 64 elements"),
        ("let a = [0]; for i in 0..40 { a = [a, a]; } 9", "a list of more than 64 elements"),
        ("order_for(area, kind, orders)", "more than 16 calls within calls"),
        ("area.lenght", "Area has no field lenght; it has address, start, length, kind, advice,"),
        ("area[\"lenght\"]", "Area has no field lenght; it has address, start, length, kind,"),
        ("area.lenght = 5; 9", "Area has no field lenght; it has address, start, length, kind,"),
        ("area.length = 5; 9", "Area.length can only be read"),
        ("sleep(1); 9", "Function not found: sleep"),
        ("timestamp(); 9", "Function not found: timestamp"),
        ("exit(9); 9", "Function not found: exit"),
        ("open_file(\"/etc/passwd\"); 9", "Function not found: open_file"),
        ("rand(); 9", "Function not found: rand"),
        ("1 / (area.length - area.length)", "Division by zero"),
        ("area.length * area.start * area.start", "Multiplication overflow"),
        ("throw \"not today\"", "it threw \"not today\""),
        ("[1][5]", "Array index 5 out of bounds"),
        ("let x = 1; x.foo = 2; 9", "No writable property 'foo'"),
        ("[orders].map(|orders| order_for((), (), orders))", "more than 16 calls within calls"),
        ("[2, 1].sort(|x, y| x.foo); 9", "Unknown property 'foo'"),
        ("[2, 1].sort(|x, y| \"less\"); 9", "Data type incorrect: string (expecting a number"),
    ] {
        let error = body(text).unwrap_err();
        assert!(error.starts_with("policy.rhai: line 1, column "), "{text}: {error}");
        assert!(error.contains(&format!(": order_for: {problem}")), "{text}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

/// Operations are short, so that the operation limit bounds the time: no script here comes near the
/// time limit.
#[test]
fn operations_are_short() {
    const LIST: &str = "let a = []; for i in 0..64 { a.push(i * 7919 % 1009) }";
    for dear in [
        "for i in 0..2000 { a.to_debug(); }",
        "for i in 0..2000 { `${a}${a}`; }",
        "for i in 0..2000 { let b = a; b.sort(); }",
        "for i in 0..2000 { let b = a; b.dedup(); b == a; }",
        "for i in 0..2000 { let b = a; b.reverse(); b += []; b.contains(-1); }",
        "for i in 0..2000 { let b = a.map(|x| [x]); b.to_string(); }",
    ] {
        let start = Instant::now();
        let outcome = body(&format!("{LIST} {dear} 9"));
        assert!(start.elapsed() < MOST_TIME / 2, "{dear}: {:?}", start.elapsed());
        if let Err(error) = outcome {
            assert!(error.contains("operations") || error.contains("more than"), "{dear}: {error}");
        }
    }
}

/// Strings and arrays that would grow without bound are refused while they are small.
#[test]
fn sizes_are_limited() {
    for (text, problem) in [
        ("let a = []; loop { a.push(1) }", "a list of more than 64 elements"),
        ("let a = [1]; loop { a.append(a) }", "a list of more than 64 elements"),
        ("let a = [1]; loop { a.insert(0, a) }", "a list of more than 64 elements"),
        ("let a = [1]; loop { a = a.zip(a, |x, y| [x, y]) }", "a list of more than 64 elements"),
        ("let a = [1, 2]; loop { a = a.map(|x| [x, x]) }", "a list of more than 64 elements"),
        ("let a = [1]; loop { a.splice(0, 0, a) }", "a list of more than 64 elements"),
        ("let a = [\"\"]; loop { a[0] += \"abcdefgh\" }", "a text of more than 512 bytes"),
        ("let s = \"a\"; loop { s = `${s}${s}` }", "a text of more than 512 bytes"),
        ("let s = \"a\"; loop { s = [s, s].to_string() }", "a text of more than 512 bytes"),
        ("let a = [1]; loop { a[0] = a }", "a list of more than 64 elements"),
        ("let a = [1, 2]; loop { a[0] = a; a[1] = a }", "a list of more than 64 elements"),
        ("let a = [[1]]; loop { a[0][0] = a }", "a list of more than 64 elements"),
        (
            "let a = [[1]]; loop { for x in a { x[0] = a; a[0] = x } }",
            "a list of more than 64 elements",
        ),
        ("let a = [[1]]; loop { a[0] += a }", "a list of more than 64 elements"),
        ("let a = [1, 2]; loop { a[0] = a; let b = 0; b = a; a[1] = b }", "a list of more"),
        ("let a = [1, 2]; loop { a.set(0, a) }", "a list of more than 64 elements"),
        ("let s = \"a\"; loop { s[0] = '€'; s += s }", "a text of more than 512 bytes"),
    ] {
        let error = body(text).unwrap_err();
        assert!(error.contains(problem), "{text}: {error}");
    }
}

/// The time limit ends the run with an error; it does not change an answer.
#[test]
fn time_is_limited() {
    let engine = sandbox::engine();
    let count = || engine.eval::<i64>("let n = 0; while n < 1000 { n += 1 } n");
    let (outcome, _) = sandbox::bounded_by(MOST_TIME, count);
    assert_eq!(outcome.unwrap(), 1000);
    let (outcome, operations) = sandbox::bounded_by(Duration::ZERO, count);
    assert!(matches!(*outcome.unwrap_err(), rhai::EvalAltResult::ErrorTerminated(..)));
    assert!(operations < 1000, "{operations}");
}

#[test]
fn an_inconsistent_comparison_does_not_fail() {
    const LIST: &str = "let a = []; for i in 0..60 { a.push(i * 31 % 97) }";
    assert_eq!(body(&format!("{LIST} a.sort(|x, y| (x * 7919 + y) % 3 - 1); 9")), Ok(vec![9]));
    assert_eq!(body("let a = [0, 9]; a.sort(|x, y| y - x); a"), Ok(vec![9, 0]));
    assert_eq!(body("[0, 9].order_by(|x, y| x > y)"), Ok(vec![9, 0]));
}

#[test]
fn nesting_is_limited() {
    let deep = format!("fn patch(n) {{ {}true{} }}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(Script::compile("deep", &deep).is_err());
    let deep =
        format!("fn patch(n) {{ {}true{} }}", "if true {".repeat(10_000), "}".repeat(10_000));
    assert!(Script::compile("deep", &deep).is_err());
    let deep = format!("fn patch(n) {{ {}true }}", "!".repeat(30_000));
    assert!(Script::compile("deep", &deep).is_err());
    let many: String = (0..100).map(|n| format!("fn f{n}() {{ 1 }}")).collect();
    let error = Script::compile("many", &format!("{many} fn patch(n) {{ true }}")).unwrap_err();
    assert!(error.to_string().contains("exceeds maximum limit"), "{error}");
}

#[test]
fn files_that_are_not_scripts_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let read = |path: &Path| Script::read(path).unwrap_err().to_string();
    assert!(read(folder.path()).ends_with("this is a directory; expected a regular file"));
    assert!(read(Path::new("/dev/zero")).ends_with("this is a device; expected a regular file"));
    assert!(read(&folder.path().join("none.rhai")).contains("none.rhai: No such file"));
    let write = |bytes: &[u8]| {
        let path = folder.path().join("some.rhai");
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let error = read(&write(b"// good\n// \xff\n"));
    assert!(
        error.ends_with("some.rhai: line 2: a byte that is not UTF-8; expected text"),
        "{error}"
    );
    let error = read(&write(&vec![b' '; 70_000]));
    assert!(
        error.ends_with("longer than 65536 bytes; expected the few lines of a policy"),
        "{error}"
    );
    let script = Script::read(&write(b"fn patch(n) { true }")).unwrap();
    assert_eq!(script.name(), "some.rhai");
}

/// Results contain the whole text of a script, and a hash that differs between scripts.
#[test]
fn results_keep_the_text() {
    let script = Script::compile("p.rhai", "// One.\nfn patch(n) { true }\n").unwrap();
    let stored = serde_json::to_value(&script).unwrap();
    assert_eq!(stored["name"], "p.rhai");
    assert_eq!(stored["text"], serde_json::json!(["// One.", "fn patch(n) { true }"]));
    let other = Script::compile("p.rhai", "// Two.\nfn patch(n) { true }\n").unwrap();
    assert_ne!(serde_json::to_value(&other).unwrap()["xxh3"], stored["xxh3"]);
    assert_ne!(script, other);
}
