//! Miss-ratio curves as a page and as text.

use perforate_records::{MissPoint, MissRatioRecord, PageSizeCurve};
use perforate_report::{curves_html, curves_table};

use crate::document::data;
use crate::vocabulary::options;

/// Curves of two page sizes in 10M accesses. That of 2MB pages is an estimate.
pub fn record() -> MissRatioRecord {
    let point = |(entries, misses, half_width_95)| MissPoint { entries, misses, half_width_95 };
    let whole = [
        (1, 6_000_000, None),
        (4, 999_400, None),
        (64, 50_000, None),
        (1536, 10, None),
        (2048, 0, None),
    ];
    let sampled = [
        (1, 2_000_000, Some(150_000)),
        (4, 60_000, Some(3_000)),
        (64, 7_000, Some(900)),
        (1536, 0, Some(200)),
        (2048, 0, Some(0)),
    ];
    MissRatioRecord {
        workload: "store".into(),
        machine: "m".into(),
        seed: 1,
        instructions: 25_000_000,
        accesses: 10_000_000,
        reference_entries: 64,
        reference_misses: 50_000,
        reference_half_width_95: None,
        share: 0.9,
        page_sizes: vec![
            PageSizeCurve {
                page_bytes: 4096,
                sampled_one_in: 1,
                first_touches: 3_000,
                entries_for_share: Some(1200),
                machine_l1_entries: 64,
                machine_l2_entries: 1536,
                points: whole.map(point).to_vec(),
            },
            PageSizeCurve {
                page_bytes: 2 << 20,
                sampled_one_in: 8,
                first_touches: 6,
                entries_for_share: Some(0),
                machine_l1_entries: 0,
                machine_l2_entries: 1536,
                points: sampled.map(point).to_vec(),
            },
        ],
        notes: vec!["a note".into()],
        version: "1".into(),
    }
}

#[test]
fn shares_have_three_digits_and_intervals() {
    let text = curves_table(&record(), 100);
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let rows: Vec<String> = text.lines().map(words).collect();
    for row in [
        "entries 4KB 2MB machine",
        "1 60.0 20.0 ±1.5",
        // 9.994 % is below the number from which one decimal is enough.
        "4 9.99 0.600 ±0.030",
        "64 0.500 0.070 ±0.009 L1 4KB",
        // 0.0001 % is not 0; no misses in the sample may be some in all.
        "1,536 <0.001 0–0.002 L2 4KB, 2MB",
        "2,048 0 0",
        "first touches 0.030 <0.001",
    ] {
        assert!(rows.iter().any(|found| found == row), "{row}\n{text}");
    }
    assert!(
        words(&text).contains(
            "4KB pages need 1,200 entries to avoid 90 % of the misses that 64 leave; 2MB pages 1. Those \
             misses are 0.500 % of the data accesses."
        ),
        "{text}"
    );
    let kept = MissRatioRecord { reference_misses: 0, ..record() };
    assert!(curves_table(&kept, 200).contains("More entries save nothing: 64 entries hold all"));
    let mut first = record();
    first.page_sizes[0].first_touches = 50_001;
    let text = curves_table(&first, 1000);
    assert!(
        text.contains(
            "Most misses are first touches, which no number of entries avoids: 0.500 % with 4KB pages, <0.001 % with \
             2MB pages."
        ),
        "{text}"
    );
    let none = MissRatioRecord { accesses: 0, ..record() };
    assert!(
        curves_table(&none, 200)
            .contains("Too little to tell: no data accesses in 25,000,000 instructions.")
    );
}

/// An interval wider than its number says so by its ends, which are no more than all accesses; an answer from such a
/// number is refused.
#[test]
fn wide_intervals_are_no_numbers() {
    let mut wide = record();
    wide.reference_half_width_95 = Some(20_000);
    wide.page_sizes[1].points[0] =
        MissPoint { entries: 1, misses: 9_050_000, half_width_95: Some(5_740_000) };
    let text = curves_table(&wide, 1000);
    assert!(text.contains("Those misses are 0.500 ±0.200 % of the data accesses."), "{text}");
    assert!(text.contains(" 33.1–100.0"), "{text}");
    assert!(text.contains("numbers of entries are estimates"), "{text}");
    wide.reference_half_width_95 = Some(25_001);
    wide.page_sizes[0].entries_for_share = None;
    let text = curves_table(&wide, 1000);
    let expected =
        "No answer from this sample of pages: with 64 entries for 4KB pages, 0.250–0.750 % of";
    assert!(text.contains(expected) && !text.contains("pages need"), "{text}");
    let page = curves_html(&wide, &options("Curves", ""));
    let chart = data(&page)["figures"]["curves"]["chart"].to_string();
    assert!(chart.contains("0.250–0.750") || !chart.contains("147"), "{chart}");
    // A larger page size of which too few pages were followed is left out of the answer.
    wide.reference_half_width_95 = None;
    (wide.page_sizes[0].entries_for_share, wide.page_sizes[1].entries_for_share) = (Some(9), None);
    let text = curves_table(&wide, 1000);
    assert!(
        text.contains("4KB pages need 9 entries") && text.contains("64 leave. Those"),
        "{text}"
    );
}

#[test]
fn each_page_size_has_its_own_colour() {
    let mut five = record();
    let sizes = [12, 14, 16, 21, 30]
        .map(|bits| PageSizeCurve { page_bytes: 1 << bits, ..five.page_sizes[0].clone() });
    five.page_sizes = sizes.to_vec();
    let page = curves_html(&five, &options("Curves", ""));
    let chart = data(&page)["figures"]["curves"]["chart"].to_string();
    for number in 0..5 {
        assert!(chart.contains(&format!("--c-series{number})")), "{number}: {chart}");
    }
}

#[test]
fn the_chart_has_percentages_from_four_entries_on() {
    let chart_of = |record: &MissRatioRecord| {
        let page = curves_html(record, &options("Curves", ""));
        data(&page)["figures"]["curves"]["chart"].to_string()
    };
    let chart = chart_of(&record());
    let has = |value: &&str| [",", "}"].iter().any(|end| chart.contains(&format!(":{value}{end}")));
    for value in ["9.994", "0.5", "0.0001", "0.6", "0.57", "0.63", "0.07"] {
        assert!(has(&value), "{value}: {chart}");
    }
    assert!(!chart.contains(":60.0"), "one entry is left out: {chart}");
    // A program without data accesses has no misses, and no share of them.
    let mut nothing = MissRatioRecord { accesses: 0, reference_misses: 0, ..record() };
    nothing.page_sizes.truncate(1);
    nothing.page_sizes[0].points.iter_mut().for_each(|point| point.misses = 0);
    assert!(chart_of(&nothing).contains("\"value\":0.0"));
}
