//! Advice as a page and as text.

use perforate_records::{
    AdviceArea, AdviceError, AdviceEvidence, AdvicePiece, AdvicePoint, AdviceRange, AdviceRecord,
    AdviceRisk, AdviceRun, AdviceSize, AdviceStep, AdviceVerdict, AreaPages, Clock, EvidenceKind,
    GainRatio, Judgement, RankedMemory, SpeedRecord, Verification, VerifiedArea, VerifiedRun,
};
use perforate_report::{advice_html, advice_text};

use crate::document::markup;
use crate::vocabulary::options;

const MB: u64 = 1 << 20;

fn speed(speed: f64) -> SpeedRecord {
    SpeedRecord { speed, sampling_half_width: 0.01, low: speed - 0.08, high: speed + 0.09 }
}

fn area(name: &str, kind: &str, size: u64, walk_share: f64) -> AdviceArea {
    AdviceArea {
        name: name.into(),
        kind: kind.into(),
        start: "0x7f0000000000".into(),
        bytes: size,
        touched_bytes: size / 2,
        density: Some(0.5),
        walk_share,
        saved_share: walk_share * 0.9,
        additional_bytes: size / 10,
        advised_bytes: size / 3,
        ..AdviceArea::default()
    }
}

fn size(
    page_bytes: u64,
    saved_share: f64,
    additional_bytes: u64,
    advised_bytes: u64,
) -> AdviceSize {
    AdviceSize { page_bytes, saved_share, additional_bytes, advised_bytes }
}

/// Advice with all its parts; `name` is the name of an area, and of the switch.
pub fn record(name: &str) -> AdviceRecord {
    let piece = |index: u64| AdvicePiece {
        area: usize::from(index >= 500),
        offset: index % 500 * 2 * MB,
        bytes: 2 * MB,
        walk_share: 1.0 / (index + 2) as f64,
        density: (!index.is_multiple_of(7)).then_some(0.1 * (index % 10) as f64),
        page_bytes: if index < 40 { 2 * MB } else { 4096 },
    };
    let point = |index: u64| AdvicePoint {
        choices: index as usize,
        additional_bytes: index * index * MB,
        advised_bytes: index * 10 * MB,
        saved_share: 1.0 - 1.0 / (index + 1) as f64,
        is_recommended: index == 6,
    };
    let run = |name: &str, speed: f64| AdviceRun {
        name: name.into(),
        page_bytes: (name == "4KB pages").then_some(4096),
        schemes: vec!["4k".into()],
        speed: Some(if name == "as it is" { SpeedRecord::SAME } else { self::speed(speed) }),
        scheme_speeds: vec![speed],
        speed_with_kernel: Some(speed + 0.05),
        cycles: 1e9 / speed,
        walks: 1e6,
        large_pages: 100.0,
        mapped_bytes: 6e9,
    };
    AdviceRecord {
        verdict: AdviceVerdict::Worth,
        evidence: AdviceEvidence {
            kind: EvidenceKind::Trace,
            description: "100M instructions".into(),
            ..AdviceEvidence::default()
        },
        workload: "store".into(),
        machine: "ice-lake-sp".into(),
        now: "madvise".into(),
        gain: Some(speed(1.21)),
        gained: Some(speed(1.0)),
        gain_share: Some(0.84),
        additional_bytes: 38 << 20,
        advised_bytes: 210 * MB,
        eligible_bytes: 6144 * MB,
        runs: vec![
            run("as it is", 1.0),
            run("recommended", 1.21),
            run("all large", 1.25),
            run("free", 1.4),
        ],
        areas: vec![
            AdviceArea {
                sizes: vec![size(64 << 10, 0.55, MB - 1, 0), size(2 * MB, 0.6, 40 * MB, 700 * MB)],
                ..area(name, "heap", 1000 * MB, 0.7)
            },
            AdviceArea {
                sizes: vec![size(64 << 10, 0.19, MB, 100 * MB), size(2 * MB, 0.2, 400 * MB, 0)],
                ..area("", "anonymous", 500 * MB, 0.2)
            },
        ],
        pieces: (0..700).map(piece).collect(),
        curve: (0..20).map(point).collect(),
        steps: vec![AdviceStep {
            title: name.into(),
            lines: vec!["echo always > /sys/kernel/mm/transparent_hugepage/enabled".into()],
            effect: "For all programs.".into(),
            source: "Linux, Transparent Hugepage Support".into(),
        }],
        risks: vec![AdviceRisk { title: "More memory".into(), evidence: "38 MB".into() }],
        error: AdviceError {
            pairs: 13,
            least_factor: 0.4,
            largest_factor: 1.3,
            least_difference: -0.01,
            largest_difference: 0.08,
            sources: vec!["published".into()],
        },
        notes: vec!["a note".into()],
        version: "1".into(),
        ..AdviceRecord::default()
    }
}

fn ranked(process: u32, name: &str, is_candidate: bool) -> RankedMemory {
    RankedMemory {
        name: name.into(),
        kind: "anonymous".into(),
        process,
        start: "0x7f0000000000".into(),
        bytes: 64 * MB,
        is_candidate,
        samples: Some(1000 + u64::from(process)),
        misses: is_candidate.then_some(300),
        latency_cycles: Some(41.5),
        resident_bytes: Some(48 * MB),
        large_bytes: Some(2 * MB),
        accessed_bytes: vec![16 * MB, 40 * MB],
    }
}

fn verification() -> Verification {
    let run = |is_advised: bool, seconds: f64| {
        let pages = |large: u64| AreaPages { resident_bytes: 100 * MB, large_bytes: large * MB };
        VerifiedRun {
            is_advised,
            wall_seconds: seconds,
            areas: vec![pages(if is_advised { 80 } else { 10 }), AreaPages::default()],
            ..VerifiedRun::default()
        }
    };
    let area = |name: &str, is_advised| VerifiedArea { name: name.into(), is_advised };
    Verification {
        program: "store".into(),
        setting: "madvise".into(),
        runs: vec![run(false, 1.3), run(true, 1.1), run(true, 1.2), run(false, 1.35)],
        areas: vec![area("[heap]", true), area("stack", false)],
        clock: Clock::Wall,
        measured: GainRatio { ratio: 1.152, low: 1.12, high: 1.19 },
        predicted: Some(GainRatio { ratio: 1.21, low: 1.13, high: 1.29 }),
        unmeasured: None,
        judgement: Some(Judgement::Right),
        effect_error: Some(0.38),
        notes: vec!["a note of the measurement".into()],
    }
}

/// Advice of each kind, with a name.
pub fn kinds() -> Vec<(&'static str, AdviceRecord)> {
    let full = record("[heap]");
    let gain = |speed: f64, low: f64, high: f64| {
        Some(SpeedRecord { speed, sampling_half_width: 0.01, low, high })
    };
    let ranking = AdviceRecord {
        verdict: AdviceVerdict::Ranking,
        gain: None,
        gained: None,
        runs: Vec::new(),
        areas: Vec::new(),
        pieces: Vec::new(),
        curve: Vec::new(),
        ..full.clone()
    };
    let of = |kind, ranking: Vec<RankedMemory>, record: &AdviceRecord| AdviceRecord {
        evidence: AdviceEvidence {
            kind,
            description: "what was seen".into(),
            ..AdviceEvidence::default()
        },
        ranking,
        ..record.clone()
    };
    let many = (0..14).map(|number| ranked(7, &format!("area {number}"), number > 0)).collect();
    let two = vec![ranked(7, "[heap]", true), ranked(8, "[heap]", false)];
    vec![
        ("advice measured", AdviceRecord { verification: Some(verification()), ..full.clone() }),
        (
            "advice, unclear",
            AdviceRecord {
                verdict: AdviceVerdict::Unclear,
                gain: gain(1.03, 0.99, 1.06),
                curve: (0..1000)
                    .map(|index| AdvicePoint {
                        choices: index,
                        additional_bytes: index as u64 * MB / 4,
                        saved_share: (index as f64 / 1000.0).sqrt(),
                        is_recommended: index == 501,
                        ..AdvicePoint::default()
                    })
                    .collect(),
                ..full.clone()
            },
        ),
        (
            "advice, not worth it",
            AdviceRecord {
                verdict: AdviceVerdict::NotWorth,
                gain: gain(1.004, 0.99, 1.02),
                curve: Vec::new(),
                pieces: Vec::new(),
                ..full.clone()
            },
        ),
        (
            "advice, already on",
            AdviceRecord {
                verdict: AdviceVerdict::AlreadyOn,
                gained: gain(1.2, 1.1, 1.3),
                first_touch_share: Some(0.625),
                curve: (0..5)
                    .map(|index| AdvicePoint {
                        choices: index,
                        additional_bytes: index as u64 * 1000,
                        advised_bytes: index as u64 * 3 * MB,
                        saved_share: index as f64 / 4.0,
                        is_recommended: index == 3,
                    })
                    .collect(),
                verification_failure: Some("the program ended too soon".into()),
                ..full.clone()
            },
        ),
        (
            "advice, not timed",
            AdviceRecord {
                gain: None,
                gained: None,
                machine: "host".into(),
                is_measurable: true,
                ranges: [64 << 10, 2 * MB, 1 << 30]
                    .map(|page_bytes| AdviceRange {
                        page_bytes,
                        bytes: 4 * MB,
                        ..AdviceRange::default()
                    })
                    .into(),
                ..full
            },
        ),
        (
            "advice, too little",
            AdviceRecord {
                verdict: AdviceVerdict::TooLittle,
                evidence: AdviceEvidence { accesses: Some(2), ..AdviceEvidence::default() },
                failure: Some("the program was killed by signal 11".into()),
                ..AdviceRecord::default()
            },
        ),
        ("ranking by samples", of(EvidenceKind::Samples, two.clone(), &ranking)),
        ("ranking by samples, many", of(EvidenceKind::Samples, many, &ranking)),
        ("ranking by accessed bits", of(EvidenceKind::AccessedBits, two, &ranking)),
    ]
}

#[test]
fn areas_of_several_processes_have_their_numbers() {
    let kinds = kinds();
    let text = |name: &str| {
        let (_, record) = kinds.iter().find(|(known, _)| *known == name).unwrap();
        advice_text(record, 80)
    };
    let two = text("ranking by samples");
    assert!(two.contains("\n7 [heap] ") && two.contains("\n8 [heap] "), "{two}");
    let one = text("ranking by samples, many");
    assert!(one.contains("\narea 0 ") && one.contains("and 2 more\n"), "{one}");
    let candidate = "Look at area 1 first: 7.7 % of the sampled TLB misses.";
    assert!(one.contains(candidate), "{one}");
}

/// The areas with most page walks are in the main table, the rest in a folded one with their number.
#[test]
fn areas_beyond_the_main_table_are_counted() {
    let mut record = record("store");
    let named = |number: u64| area(&format!("area {number}"), "heap", MB, 0.01);
    record.areas = (0..15).map(named).collect();
    let text = markup(&advice_html(&record, &options("Advice", "")));
    assert!(text.contains("3 more areas, with fewer page walks"));
    record.areas.truncate(12);
    assert!(!markup(&advice_html(&record, &options("Advice", ""))).contains("more areas"));
}

#[test]
fn a_page_has_all_parts_and_the_verdict_first() {
    let page = advice_html(&record("[heap]"), &options("Advice", "perforate advise store"));
    let text = markup(&page);
    let places: Vec<usize> = [
        "Worth it: 1.21×",
        "Evidence A",
        "Memory by area",
        "Gain over memory",
        "Before and after",
        "What to do",
        "Nothing has been done",
        "Risks",
        "a note",
    ]
    .iter()
    .map(|part| text.rfind(part).unwrap_or_else(|| panic!("{part} is missing")))
    .collect();
    assert!(places.is_sorted(), "{places:?}");
    for id in ["address-map", "gain-curve", "speeds"] {
        assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
    }
}

#[test]
fn sizes_by_area_have_the_gain_for_each_megabyte() {
    let record = record("[heap]");
    let text = advice_text(&record, 80);
    let row = |start: &str| -> Vec<String> {
        let after = text.split("Page sizes for the areas").nth(1).unwrap();
        let row = after.lines().find(|line| line.starts_with(start)).unwrap();
        row.split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(row("[heap]"), ["[heap]", "64KB", "55.0", "%", "1.00", "MB", "–"], "{text}");
    let anonymous = ["64KB", "19.0", "%", "1.00", "MB", "19.0", "%", "100", "MB"];
    assert_eq!(row("anon 7f0000000000")[2..], anonymous, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let page = markup(&advice_html(&record, &options("Advice", "")));
    assert!(page.contains("Page sizes by area"));
    // A single size is no choice.
    let mut single = record;
    single.areas.iter_mut().for_each(|area| area.sizes.truncate(1));
    assert!(!advice_text(&single, 80).contains("Page sizes"));
    assert!(!markup(&advice_html(&single, &options("Advice", ""))).contains("Page sizes by area"));
}

#[test]
fn a_ranking_has_no_times_and_no_empty_sections() {
    let full = record("[heap]");
    let ranking = AdviceRecord {
        verdict: AdviceVerdict::Ranking,
        evidence: AdviceEvidence { kind: EvidenceKind::AccessedBits, ..full.evidence },
        gain: None,
        gained: None,
        runs: Vec::new(),
        curve: Vec::new(),
        steps: Vec::new(),
        risks: Vec::new(),
        ..full
    };
    let text = markup(&advice_html(&ranking, &options("Advice", "")));
    assert!(text.contains("A ranking of memory, no speed-up") && text.contains("Evidence C"));
    for missing in ["Before and after", "What to do", "Risks", "×"] {
        assert!(!text.contains(missing), "{missing}");
    }
    assert!(advice_text(&ranking, 80).starts_with("Nothing to look at: no memory was in use."));
    let empty = markup(&advice_html(&AdviceRecord::default(), &options("Advice", "")));
    assert!(!empty.contains("Memory by area"));
}

/// The page says with the headline what a reader has to know with it, and marks the row of the recommended pages.
#[test]
fn cautions_and_recommended_rows_are_on_the_page() {
    let full = record("[heap]");
    let runs = full.runs.iter().filter(|run| run.name != "recommended").cloned().collect();
    let all = AdviceRecord {
        runs,
        first_touch_share: Some(0.84),
        failure: Some("the program was killed by signal 11".into()),
        ..full
    };
    let text = markup(&advice_html(&all, &options("Advice", "")));
    for expected in [
        "The program was killed by signal 11: the advice is for what it did until then.",
        "84 % of the page walks with 4KB pages are the first access to a page",
        "all large (recommended)",
    ] {
        assert!(text.contains(expected), "{expected}");
    }
}

#[test]
fn foreign_names_are_escaped() {
    let page = advice_html(&record("</script><b>"), &options("Advice", ""));
    assert!(!page.contains("</script><b>"));
}
