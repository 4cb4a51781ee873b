//! `perforate advise` on workloads whose answer is known.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use crate::place::{Outcome, Place, assert_complaint, json};
use crate::recording::lacks_emulator;
use serde_json::Value;

/// Pointers through 64MB in whole memory: far beyond the reach of 4KB pages.
const GAINS: [&str; 10] = [
    "advise",
    "chase:size=64M",
    "--machine",
    "ice-lake-sp",
    "--instructions",
    "600k",
    "--memory",
    "1G",
    "--fragmentation",
    "none",
];

fn advice(place: &Place, more: &[&str]) -> Value {
    let arguments = [&GAINS[..], more, &["--json"]].concat();
    json(&place.succeeds(&arguments)).remove(0)
}

fn run<'a>(advice: &'a Value, name: &str) -> &'a Value {
    let runs = advice["runs"].as_array().unwrap();
    runs.iter().find(|run| run["name"] == name).unwrap_or_else(|| panic!("{name}: {runs:?}"))
}

/// The only area is advised as a whole: 32 pages of 2MB, as with `thp`, and no memory more. The headline is the
/// quotient of the cycles of two runs.
#[test]
fn what_gains_is_worth_it() {
    let place = Place::new();
    let advice = advice(&place, &["--now", "never", "--out", "out"]);
    assert_eq!(
        (&advice["verdict"], &advice["evidence"]["kind"]),
        (&"worth".into(), &"trace".into()),
        "{advice}"
    );
    let cycles = |name: &str| run(&advice, name)["cycles"].as_f64().unwrap();
    let speed = cycles("as it is") / cycles("recommended");
    assert!((advice["gain"]["speed"].as_f64().unwrap() - speed).abs() < 1e-9, "{advice}");
    assert!(advice["gain"]["low"].as_f64().unwrap() > 1.0 && speed > 1.02, "{advice}");
    assert_eq!(run(&advice, "as it is")["large_pages"], 0.0);
    assert_eq!(
        run(&advice, "recommended")["large_pages"],
        run(&advice, "all large")["large_pages"]
    );
    assert_eq!(advice["advised_bytes"], 64 << 20);
    assert_eq!(advice["ranges"][0]["start"], "0x7effc0000000");
    assert_eq!(json(&place.read("out/advice.json")), [advice]);
    assert!(place.read("out/report.html").contains("Worth it"));
}

/// If memory lacks large pages, one run more has all of them, and it equals the recommended run in whole memory. If
/// memory lacks none, there is no such run.
#[test]
fn what_fragmented_memory_lacks_is_timed_in_whole_memory() {
    let place = Place::new();
    let in_memory = |fragmentation: &'static str| {
        let mut arguments = GAINS;
        *arguments.last_mut().unwrap() = fragmentation;
        let more = ["--now", "never", "--json"];
        json(&place.succeeds(&[&arguments[..], &more].concat())).remove(0)
    };
    let [whole, broken] = ["none", "portion=50%,holes=25%,clustered"].map(in_memory);
    let names = |advice: &Value| advice["runs"].to_string();
    assert!(!names(&whole).contains("if all can be had"), "{whole}");
    let of = |advice: &Value, name: &str, key: &str| run(advice, name)[key].as_f64().unwrap();
    let all_had = |key: &str| of(&broken, "if all can be had", key);
    for key in ["large_pages", "cycles", "walks"] {
        assert_eq!(all_had(key), of(&whole, "recommended", key), "{key}");
    }
    assert!(all_had("large_pages") > of(&broken, "recommended", "large_pages"));
    let risks = broken["risks"].to_string();
    assert!(risks.contains("In memory that nothing has fragmented, 64.0 MB get them"), "{risks}");
}

#[test]
fn the_text_fits_80_columns_and_begins_with_the_verdict() {
    let text = Place::new().succeeds(&[&GAINS[..], &["--now", "never"]].concat());
    assert!(text.starts_with("Worth it: "), "{text}");
    assert!(text.contains("For the machine ice-lake-sp; --machine chooses another"), "{text}");
    assert!(text.contains("Evidence A, recorded accesses"), "{text}");
    assert!(text.contains("What to do (nothing has been done)"), "{text}");
    // Lines to be copied are not broken.
    let prose = text.lines().filter(|line| !line.starts_with("      "));
    assert!(prose.clone().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn what_is_on_needs_nothing() {
    let advice = advice(&Place::new(), &["--now", "always"]);
    assert_eq!(advice["verdict"], "already-on", "{advice}");
    assert_eq!(
        (&advice["steps"], &advice["ranges"]),
        (&Value::Array(vec![]), &Value::Array(vec![]))
    );
    assert!(advice["gained"]["low"].as_f64().unwrap() > 1.0);
}

#[test]
fn what_fits_the_tlbs_is_not_worth_it() {
    let place = Place::new();
    let arguments =
        ["advise", "random:size=64K", "--instructions", "600k", "--memory", "1G", "--now", "never"];
    let advice = json(&place.succeeds(&[&arguments[..], &["--json"]].concat())).remove(0);
    assert_eq!(advice["verdict"], "not-worth", "{advice}");
    let text = place.succeeds(&arguments);
    assert!(text.starts_with("Not worth it: "), "{text}");
    assert!(!text.contains("What to do"), "{text}");
}

#[test]
fn exit_code_3_is_for_what_is_worth_more_than_a_limit() {
    let place = Place::new();
    let with = |limit: &str| {
        place.run(&[&GAINS[..], &["--now", "never", "--fail-if-worth", limit]].concat())
    };
    let outcome = with("1%");
    assert_eq!(outcome.code, Some(3), "{}", outcome.err);
    assert!(outcome.err.contains("--fail-if-worth 1%") && outcome.out.starts_with("Worth it"));
    assert_eq!(with("90%").code, Some(0));
}

/// An option that matters to large pages only is accepted although some of the runs have none.
#[test]
fn compaction_is_for_the_runs_with_large_pages() {
    let place = Place::new();
    let large = |defrag: &str| {
        let aged = ["--memory", "512M", "--age", "weeks", "--now", "never", "--defrag", defrag];
        let arguments = [&GAINS[..6], &aged, &["--json"]].concat();
        let advice = json(&place.succeeds(&arguments)).remove(0);
        run(&advice, "all large")["large_pages"].as_f64().unwrap()
    };
    assert_eq!((large("never"), large("madvise")), (0.0, 28.0));
}

/// A foreign trace has no mappings: areas are touched addresses, and large pages are timed for all memory.
#[test]
fn a_trace_without_mappings_gets_what_can_be_said() {
    let place = Place::new();
    let line = |number: u64| {
        let address = 0x1000_0000 + number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (64 << 20);
        format!("I  00401000,3\n L {address:08x},8\n")
    };
    place.write("program.lackey", (0..150_000).map(line).collect::<String>());
    let arguments = ["advise", "program.lackey", "--memory", "1G", "--fragmentation", "none"];
    let arguments = [&arguments[..], &["--now", "never", "--json"]].concat();
    let advice = json(&place.succeeds(&arguments)).remove(0);
    let cycles = |name: &str| run(&advice, name)["cycles"].as_f64().unwrap();
    let ratio = cycles("as it is") / cycles("all large");
    // The speed is that of batches, which leave out the last instructions of a short run.
    let speed = advice["gain"]["speed"].as_f64().unwrap();
    assert!((speed - ratio).abs() < 0.01, "{speed} {ratio}");
    let notes = advice["notes"].to_string();
    assert!(notes.contains("does not say what memory the program mapped"), "{notes}");
    let names: Vec<&Value> =
        advice["runs"].as_array().unwrap().iter().map(|run| &run["name"]).collect();
    assert_eq!(
        names,
        ["as it is", "4KB pages", "64KB pages", "all large", "free"],
        "nothing can be advised part by part"
    );
}

/// 1280 entries of 64KB, which Arm's contiguous bit makes of folios, hold all of 48MB.
#[test]
fn sizes_between_gain_where_the_tlb_has_entries_for_them() {
    let arguments = ["advise", "random:size=48M", "--instructions", "600k", "--machine"];
    let options = ["--memory", "1G", "--fragmentation", "none", "--now", "never", "--json"];
    let advice = |machine| {
        let arguments = [&arguments[..], &[machine], &options].concat();
        json(&Place::new().succeeds(&arguments)).remove(0)
    };
    let (arm, intel) = (advice("neoverse-n1"), advice("ice-lake-sp"));
    let walks = |advice, name: &str| run(advice, name)["walks"].as_f64().unwrap();
    let speed = |name: &str| run(&arm, name)["speed"]["speed"].as_f64().unwrap();
    assert_eq!(run(&arm, "64KB pages")["page_bytes"], 65536);
    assert!(walks(&arm, "64KB pages") < walks(&arm, "4KB pages") / 10.0, "{arm}");
    assert!(speed("64KB pages") > 1.02 && speed("64KB pages") <= speed("free"), "{arm}");
    assert!(walks(&intel, "64KB pages") > walks(&intel, "4KB pages") * 0.9, "{intel}");
}

#[test]
fn few_accesses_are_too_little_to_tell() {
    let place = Place::new();
    let words =
        ["advise", "bfs", "--instructions", "10", "--now", "never", "--fail-if-worth", "1%"];
    let text = place.succeeds(&words);
    assert!(text.starts_with("Too little to tell: 2 data accesses, and a verdict needs"), "{text}");
    assert!(!text.contains('×') && !text.contains("What to do"), "{text}");
    let out = [&words[..], &["--json", "--out", "out"]].concat();
    let advice = json(&place.succeeds(&out)).remove(0);
    assert_eq!((&advice["verdict"], &advice["gain"]), (&"too-little".into(), &Value::Null));
    assert!(place.read("out/report.html").contains("Too little to tell"));
}

/// The first lines of a text as one line.
fn start(text: &str, lines: usize) -> String {
    text.lines().take(lines).flat_map(|line| [line, " "]).collect()
}

/// All page walks of the first instructions of this trace are first accesses.
#[test]
fn a_gain_at_first_accesses_is_told_with_the_verdict() {
    let words = ["advise", "stockfish", "--instructions", "500k", "--now", "never"];
    let text = Place::new().succeeds(&words);
    let expected =
        "100 % of the page walks with 4KB pages are the first access to a page in this trace";
    assert!(start(&text, 5).contains(expected), "{text}");
}

#[test]
fn a_program_that_failed_is_told_with_the_verdict() {
    let place = Place::new();
    for (script, expected) in [
        ("exit 7", "The program ended with exit code 7: the advice is for what it did until then."),
        ("kill -SEGV $$", "The program was killed by signal 11: the advice is for"),
    ] {
        let options = ["--now", "never", "--", "sh", "-c", script];
        let found = place.run(&[&SMALL_MEMORY[..], &options].concat());
        if lacks_emulator(&found) {
            return;
        }
        assert_eq!(found.code, Some(0), "{}", found.err);
        assert!(found.out.starts_with("Too little to tell: "), "{}", found.out);
        assert!(start(&found.out, 4).contains(expected), "{}", found.out);
    }
}

#[test]
fn wrong_use_is_one_line() {
    let place = Place::new();
    for (arguments, expected) in [
        (&["advise", "random", "--now", "maybe"][..], "--now: expected always, madvise or never"),
        (&["advise", "random", "--", "ls"], "advise takes random or a program after --, not both"),
        (&["advise", "random", "--functional"], "--functional: advice needs times"),
        (&["advise", "random", "--seconds", "3"], "--seconds is how long the process of --pid is"),
        (
            &["advise", "random", "--madvise", "1-2"],
            "--madvise: \"1-2\": expected multiples of 4096",
        ),
        (&["advise", "nosuch"], "nosuch"),
    ] {
        place.fails(arguments, 2, expected);
    }
}

/// A file of six samples, one of which missed the TLB.
const SAMPLES: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../advice/tests/samples/perf-script.txt");

#[test]
fn samples_rank_memory_and_predict_no_time() {
    let place = Place::new();
    let text = place.succeeds(&["advise", "--samples", SAMPLES, "--out", "out"]);
    assert!(
        text.starts_with("Nothing to look at: 1 sample missed the TLB, and a ranking needs 100.")
    );
    assert!(text.contains("Evidence B, samples of the processor: 6 samples of"), "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 80 || line.contains(SAMPLES)),
        "{text}"
    );
    let record = &json(&place.read("out/advice.json"))[0];
    assert_eq!(record["verdict"], "ranking");
    assert_eq!(record["gain"], Value::Null);
    assert_eq!(record["ranking"][0]["misses"], 1);
    assert!(place.read("out/report.html").contains("Memory by rank"));
}

#[test]
fn samples_of_the_kernel_are_counted() {
    let place = Place::new();
    let user = (0..100).map(|n| format!(" a 7 1.{n}: mem: 7f0000001008 10250100142 |OP LOAD\n"));
    let kernel = " a 7 2.0: mem: ffffffff81000000 10250100142 |OP LOAD\n";
    place.write("samples.txt", user.chain([kernel.into()]).collect::<String>());
    let words = ["advise", "--samples", "samples.txt"];
    let text = place.succeeds(&words);
    assert!(text.starts_with("Look at unknown 7f0000000000 first: 100.0 %"), "{text}");
    assert!(text.contains("1 sample of the kernel's memory not ranked"), "{text}");
    let evidence = &json(&place.succeeds(&[&words[..], &["--json"]].concat()))[0]["evidence"];
    assert_eq!((&evidence["samples"], &evidence["kernel_samples"]), (&100.into(), &1.into()));
}

#[test]
fn a_running_process_has_its_memory_ranked() {
    let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
    let pid = child.id().to_string();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let text = Place::new().succeeds(&["advise", "--pid", &pid, "--seconds", "1", "--json"]);
    child.kill().unwrap();
    child.wait().unwrap();
    let record = &json(&text)[0];
    assert_eq!(
        (&record["workload"], &record["evidence"]["kind"]),
        (&"sleep".into(), &"accessed-bits".into())
    );
    assert_eq!(record["gain"], Value::Null);
    // The program sleeps, and uses no memory as soon as it has begun to.
    let described = record["evidence"]["description"].as_str().unwrap();
    assert!(
        described.contains(" MB in use in a round") && !described.contains(" -0"),
        "{described}"
    );
}

#[test]
fn rankings_take_no_options_of_runs() {
    let place = Place::new();
    let expected = "expected no options of runs";
    place.fails(&["advise", "--samples", SAMPLES, "--machine", "host"], 2, expected);
    for given in [
        &["--samples", SAMPLES, "redis"][..],
        &["--pid", "1", "--samples", SAMPLES],
        &["--pid", "1", "--verify"],
        &["--verify", "redis"],
        &["--seconds", "3"],
        &["--pid", "1", "--now", "never"],
        &["--samples", SAMPLES, "--now", "never"],
        &["--pid", "1", "--fail-if-worth", "1%"],
    ] {
        let outcome = place.run(&[&["advise"], given].concat());
        assert_eq!(
            (outcome.code, outcome.out.as_str()),
            (Some(2), ""),
            "{given:?}: {}",
            outcome.err
        );
    }
}

/// True, and says so, if this system measures no advice or cannot record programs.
fn lacks(found: &Outcome) -> bool {
    let reasons = ["transparent_hugepage/enabled is never", "apt-get install qemu-user"];
    let lacks = reasons.iter().any(|reason| found.err.contains(reason));
    if lacks {
        println!("SKIPPED: {}", found.err);
    }
    lacks
}

const SMALL_MEMORY: [&str; 7] =
    ["advise", "--machine", "ice-lake-sp", "--memory", "1G", "--fragmentation", "none"];

/// The file is the header of a program without an interpreter. It could not be recorded either.
#[test]
fn programs_that_cannot_be_measured_are_refused_before_they_are_recorded() {
    let place = Place::new();
    let mut header = [0; 64];
    header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    (header[16], header[18], header[20]) = (2, 62, 1);
    place.write("program", header);
    std::fs::set_permissions(place.path("program"), Permissions::from_mode(0o755)).unwrap();
    for (program, problem) in [("./program", "statically linked"), ("./none", "not found")] {
        let found = place.run(&["advise", "--verify", "--", program]);
        if !lacks(&found) {
            assert_complaint(&found, 1, problem, program);
            assert!(!found.err.contains("recording"), "{}", found.err);
        }
    }
}

#[test]
fn the_output_of_the_program_is_not_mixed_with_the_advice() {
    let place = Place::new();
    let found = place.run(&[&SMALL_MEMORY[..], &["--json", "--", "/bin/echo", "hello"]].concat());
    if !lacks(&found) {
        assert_eq!(found.code, Some(0), "{}", found.err);
        assert!(found.err.contains("hello\n"), "{}", found.err);
        assert_eq!(json(&found.out).len(), 1);
    }
}

/// The recording tells the exit code. What fails natively as well is not simulated first.
#[test]
fn a_program_that_fails_is_not_measured() {
    let place = Place::new();
    let found = place.run(&[&SMALL_MEMORY[..], &["--verify", "--", "sh", "-c", "exit 3"]].concat());
    if lacks(&found) {
        return;
    }
    let problem = "--verify: the program ended with exit code 3; expected a program that succeeds";
    assert_eq!((found.code, found.out.as_str()), (Some(1), ""), "{}", found.err);
    assert!(found.err.ends_with(&format!("perforate: {problem}\n")), "{}", found.err);
}

/// The program fails when it runs for the third time: first it is recorded, and then it runs once before the runs
/// that count.
#[test]
fn advice_is_given_although_a_measured_run_fails() {
    let place = Place::new();
    place.write("runs", "0\n");
    let program = "read n < runs; n=$((n + 1)); echo $n > runs
        case $n in 1) while [ $n -lt 1000 ]; do n=$((n + 1)); done; exit 0;; 3) exit 5;; esac
        i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done";
    let options = ["--verify", "--rounds", "1", "--out", "out", "--", "sh", "-c", program];
    let found = place.run(&[&SMALL_MEMORY[..], &options].concat());
    if lacks(&found) {
        return;
    }
    let problem = "sh, run 1 of 4 (as it is): exited with code 5; expected a program that succeeds";
    assert_eq!(found.code, Some(1), "{}", found.err);
    assert!(found.err.ends_with(&format!("perforate: {problem}\n")), "{}", found.err);
    let text = found.out.replace('\n', " ");
    assert!(text.starts_with("Not worth it: "), "{text}");
    assert!(text.contains(&format!("Not measured: {problem}.")), "{text}");
    let record = &json(&place.read("out/advice.json"))[0];
    assert_eq!(record["verification_failure"], problem);
    assert!(place.read("out/report.html").contains(problem));
}
