//! Advice for the terminal.

use perforate_records::{AdviceArea, AdvicePoint, AdviceRecord, AdviceRun};

use super::{
    SizedArea, area_name, planned_pages, ranking, run_name, sentence, sized_areas, thousandths,
};
use crate::format::{MISSING, bytes, compact, page_size, percent};
use crate::text::{Column, columns, cut, rows, wrapped};

/// Largest number of areas in the table.
const MOST_AREAS: usize = 8;
/// Least share of the page walks of an area in the table, 0–1, unless it has advice: what is shown as 0.1 %.
const LEAST_SHOWN: f64 = 0.0005;
/// Largest number of points of the curve.
const MOST_POINTS: usize = 8;
/// Largest number of areas in the table of page sizes.
const MOST_SIZED: usize = 4;
/// Width in characters of an area's name.
const NAME: usize = 22;

/// Returns the advice as text, at most `width` characters wide: verdict first.
pub fn advice_text(record: &AdviceRecord, width: usize) -> String {
    let verdict = [sentence::verdict(record), sentence::cautions(record)].join(" ");
    let mut text = wrapped("", verdict.trim_end(), width);
    text += &wrapped("", &sentence::setting(record), width);
    text += &wrapped("", &sentence::evidence(record), width);
    text += &runs(record, width);
    text += &areas(record, width);
    text += &sizes(record, width);
    text += &ranking::text(record, width);
    text += &curve(record, width);
    text += &steps(record, width);
    for (number, risk) in record.risks.iter().enumerate() {
        if number == 0 {
            text += "\nRisks\n";
        }
        text += &wrapped("  ", &format!("{}: {}", risk.title, risk.evidence), width);
    }
    if !record.notes.is_empty() {
        text.push('\n');
    }
    for note in &record.notes {
        text += &wrapped("note: ", note, width);
    }
    text
}

fn runs(record: &AdviceRecord, width: usize) -> String {
    let shown: Vec<&AdviceRun> = record.runs.iter().filter(|run| run.speed.is_some()).collect();
    if shown.is_empty() {
        return String::new();
    }
    let speed = |value: Option<f64>| value.map_or(MISSING.into(), thousandths);
    let range = |run: &AdviceRun| match run.speed {
        Some(speed) if !speed.is_exact() => sentence::range(speed, 3),
        _ => String::new(),
    };
    let now = shown[0].mapped_bytes;
    let memory = |run: &AdviceRun| match run.mapped_bytes - now {
        _ if run.name == shown[0].name => bytes(now),
        less if less < 0.0 => format!("−{}", bytes(-less)),
        more => format!("+{}", bytes(more)),
    };
    let table = rows(
        &shown,
        &[
            ("pages", &|run| run_name(run, record)),
            ("speed", &|run| speed(run.speed.map(|speed| speed.speed))),
            ("its range", &|run| range(run)),
            ("with kernel", &|run| speed(run.speed_with_kernel)),
            ("memory", &|run| memory(run)),
            ("walks", &|run| compact(run.walks)),
        ],
        width,
    );
    let lead = "Simulated with these pages; speed over the program as it is:";
    let meaning = wrapped("", &sentence::meaning_of_speeds(record), width);
    format!("\n{}{table}{meaning}", wrapped("", lead, width))
}

fn areas(record: &AdviceRecord, width: usize) -> String {
    let says_something =
        |area: &&AdviceArea| area.walk_share >= LEAST_SHOWN || area.advised_bytes > 0;
    let shown: Vec<&AdviceArea> =
        record.areas.iter().filter(says_something).take(MOST_AREAS).collect();
    if shown.is_empty() {
        return String::new();
    }
    let table = rows(
        &shown,
        &[
            ("area", &|area| cut(&area_name(area, record), NAME)),
            ("size", &|area| bytes(area.bytes as f64)),
            ("walks", &|area| percent(area.walk_share)),
            ("in use", &|area| area.density.map_or(MISSING.into(), percent)),
            ("advised", &|area| bytes(area.advised_bytes as f64)),
            ("more", &|area| bytes(area.additional_bytes as f64)),
            ("saved", &|area| percent(area.saved_share)),
        ],
        width,
    );
    let rest = record.areas.len() - shown.len();
    let rest =
        if rest > 0 { format!("and {rest} more, with fewer walks\n") } else { String::new() };
    let lead = wrapped(
        "",
        &format!(
            "Page walks with 4KB pages by area, without first touches; how much of its 2MB blocks is in use; what {} cost and save, if all \
             of them can be had:",
            planned_pages(record)
        ),
        width,
    );
    format!("\n{lead}{table}{rest}")
}

fn sizes(record: &AdviceRecord, width: usize) -> String {
    let shown = sized_areas(record, MOST_SIZED);
    if shown.is_empty() {
        return String::new();
    }
    let cells = |cell: &dyn Fn(&SizedArea<'_>) -> String| shown.iter().map(cell).collect();
    let advised = |bytes_advised: u64| match bytes_advised {
        0 => String::new(),
        some => bytes(some as f64),
    };
    let table = columns(
        &[
            Column::texts("area", cells(&|it| cut(&it.name(record), NAME))),
            Column::texts("pages", cells(&|it| page_size(it.size.page_bytes))),
            Column::numbers("saved", cells(&|it| percent(it.size.saved_share))),
            Column::numbers("more", cells(&|it| bytes(it.size.additional_bytes as f64))),
            Column::numbers(
                "per MB",
                cells(&|it| it.saved_per_mb().map_or(MISSING.into(), percent)),
            ),
            Column::numbers("advised", cells(&|it| advised(it.size.advised_bytes))),
        ],
        width,
    );
    let lead = "Page sizes for the areas with most page walks, each simulated for all of one area and 2MB elsewhere, if \
                all of them can be had: page walks saved, without first touches (of other memory, too, which gets room in the TLB), memory \
                more, walks saved for each megabyte of that:";
    format!("\n{}{table}", wrapped("", lead, width))
}

fn curve(record: &AdviceRecord, width: usize) -> String {
    let points = chosen(&record.curve);
    if points.len() < 2 {
        return String::new();
    }
    let column = |heading: &str, cell: &dyn Fn(&AdvicePoint) -> String| {
        Column::numbers(heading, points.iter().map(|point| cell(point)).collect())
    };
    let is_part = |point: &AdvicePoint| record.advised_bytes > point.advised_bytes;
    let mark = |point: &AdvicePoint| match point.is_recommended && record.verdict.recommends() {
        true if is_part(point) => "← recommended, and its areas",
        true => "← recommended",
        false => "",
    };
    let marks = points.iter().map(|point| mark(point).to_owned()).collect();
    let table = columns(
        &[
            column("large pages for", &|point| bytes(point.advised_bytes as f64)),
            column("memory more", &|point| bytes(point.additional_bytes as f64)),
            column("walks saved", &|point| percent(point.saved_share)),
            Column::texts("", marks),
        ],
        width,
    );
    let lead = "Memory with large pages, that with most page walks for its size first, and the share that it saves of \
                what large pages can save, if all of them can be had:";
    format!("\n{}{table}", wrapped("", lead, width))
}

/// Returns a few points of the curve: the first, the last, the recommended, and others between them.
fn chosen(curve: &[AdvicePoint]) -> Vec<&AdvicePoint> {
    let step = curve.len().div_ceil(MOST_POINTS - 2).max(1);
    let is_one = |(place, point): &(usize, &AdvicePoint)| {
        point.is_recommended || place % step == 0 || place + 1 == curve.len()
    };
    curve.iter().enumerate().filter(is_one).map(|(_, point)| point).collect()
}

fn steps(record: &AdviceRecord, width: usize) -> String {
    let mut text = String::new();
    for (number, step) in record.steps.iter().enumerate() {
        if number == 0 {
            text += "\nWhat to do (nothing has been done)\n";
        }
        text += &wrapped("  ", &format!("{}: {}", step.title, step.effect), width);
        for line in &step.lines {
            text += &format!("      {line}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use perforate_records::{AdviceStep, AdviceVerdict, SpeedRecord};

    use super::*;

    #[test]
    fn advice_fits_a_terminal_and_begins_with_the_verdict() {
        let area = AdviceArea {
            name: "/usr/lib/x86_64-linux-gnu/a-library-with-a-long-name.so.2".into(),
            kind: "file".into(),
            bytes: 6 << 30,
            density: Some(0.971),
            walk_share: 0.991,
            advised_bytes: 210 << 20,
            additional_bytes: 38 << 20,
            saved_share: 0.84,
            ..AdviceArea::default()
        };
        let point = |choices, is_recommended| AdvicePoint {
            choices,
            is_recommended,
            ..AdvicePoint::default()
        };
        let run = |mean| AdviceRun {
            speed: Some(SpeedRecord {
                speed: mean,
                sampling_half_width: 0.0,
                low: 0.9,
                high: 1.25,
            }),
            speed_with_kernel: Some(mean - 0.05),
            mapped_bytes: 5e6,
            walks: 1234.0,
            ..AdviceRun::default()
        };
        let record = AdviceRecord {
            verdict: AdviceVerdict::Worth,
            gain: Some(SpeedRecord { speed: 1.2, sampling_half_width: 0.0, low: 1.1, high: 1.3 }),
            areas: vec![area; 10],
            curve: (0..100).map(|choice| point(choice, choice == 37)).collect(),
            steps: vec![AdviceStep {
                title: "A switch".into(),
                lines: vec!["echo".into()],
                effect: "It works. ".repeat(20),
                source: String::new(),
            }],
            runs: vec![
                AdviceRun { name: "as it is".into(), speed: Some(SpeedRecord::SAME), ..run(1.0) },
                AdviceRun { name: "64KB pages".into(), ..run(1.15) },
                AdviceRun { name: "not timed".into(), ..AdviceRun::default() },
            ],
            notes: vec!["one".into()],
            ..AdviceRecord::default()
        };
        let text = advice_text(&record, 80);
        assert!(text.starts_with("Worth it: 1.20× (1.10 to 1.30)"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for expected in
            ["a-library-with-a-…", "and 2 more", "← recommended", "      echo\n", "note: one"]
        {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        let row = |name: &str| text.lines().find(|line| line.starts_with(name)).map(str::to_owned);
        let of_64k = row("64KB pages").unwrap();
        let words: Vec<&str> = of_64k.split_whitespace().skip(2).collect();
        assert_eq!(words[..5], ["1.150×", "0.900", "to", "1.250", "1.100×"], "{of_64k}");
        assert!(!row("as it is").unwrap().contains(" to "), "{text}");
        assert_eq!(row("not timed"), None);
        assert!(chosen(&record.curve).len() <= MOST_POINTS + 1);
        assert_eq!(chosen(&record.curve).iter().filter(|point| point.is_recommended).count(), 1);
        let marked = |verdict, name: &str| {
            let last = AdviceRun { name: name.into(), ..run(1.2) };
            let runs = [&record.runs[..], &[last]].concat();
            advice_text(&AdviceRecord { verdict, runs, ..record.clone() }, 80)
        };
        let all = marked(AdviceVerdict::Unclear, "all large");
        assert!(
            all.contains("\nall large (recommended) ") && all.contains("← recommended"),
            "{all}"
        );
        assert!(all.lines().all(|line| line.chars().count() <= 80), "{all}");
        let parts = marked(AdviceVerdict::Worth, "recommended");
        assert!(!parts.contains("(recommended)"), "{parts}");
        let not = marked(AdviceVerdict::NotWorth, "all large");
        assert!(!not.contains("recommended"), "nothing is: {not}");
        let empty = advice_text(&AdviceRecord::default(), 80);
        assert!(!empty.contains("What to do") && !empty.contains("Risks"), "{empty}");
    }

    /// Every point of a curve of six; of a longer one each so-manyth, the last and the recommended.
    #[test]
    fn a_few_points_of_a_curve_are_listed() {
        let places = |count: usize, recommended: usize| {
            let point = |choices| AdvicePoint {
                choices,
                is_recommended: choices == recommended,
                ..AdvicePoint::default()
            };
            let curve: Vec<AdvicePoint> = (0..count).map(point).collect();
            chosen(&curve).into_iter().map(|point| point.choices).collect::<Vec<_>>()
        };
        assert_eq!(places(6, 99), [0, 1, 2, 3, 4, 5]);
        assert_eq!(places(7, 99), [0, 2, 4, 6]);
        assert_eq!(places(8, 3), [0, 2, 3, 4, 6, 7]);
        assert_eq!(places(0, 0), [0; 0]);
        let record = |advised_bytes, count: usize| AdviceRecord {
            verdict: AdviceVerdict::Worth,
            advised_bytes,
            curve: vec![
                AdvicePoint {
                    is_recommended: true,
                    advised_bytes: 5,
                    ..AdvicePoint::default()
                };
                count
            ],
            ..AdviceRecord::default()
        };
        assert!(curve(&record(6, 2), 80).contains("← recommended, and its areas"));
        let whole = curve(&record(5, 2), 80);
        assert!(whole.contains("← recommended") && !whole.contains("its areas"));
        assert_eq!(curve(&record(5, 1), 80), "", "one point is no curve");
    }
}
