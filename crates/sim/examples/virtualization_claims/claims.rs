//! D's claims C2 to C5 beside our figures.

use crate::overheads::{Seed, Study};
use crate::table::{geometric_mean, mean, median, middle, spread};
use crate::workloads::Like;

/// D §VIII, §IX.A: overheads of graph500 in percent, as far as the text gives them.
const GRAPH500: &[(&str, &str, f64)] = &[
    ("4K", "4k", 28.0),
    ("2M", "thp", 6.0),
    ("1G", "1g", 3.0),
    ("4K+4K", "4k+4k", 113.0),
    ("4K+2M", "4k+thp", 53.0),
    ("2M+2M", "thp+thp", 13.0),
    ("2M+1G", "thp+1g", 14.0),
    ("1G+1G", "1g+1g", 11.0),
    ("4K+VD", "4k+segment", 30.0),
];

/// D §IX.A: cycles per miss over those of native 4K.
const CYCLES_PER_MISS: &[(&str, &str, f64)] = &[
    ("4K+4K", "4k+4k", 2.4),
    ("4K+2M", "4k+thp", 1.5),
    ("4K+1G", "4k+1g", 1.6),
    ("4K+VD", "4k+segment", 1.13),
    ("4K+GD", "segment+4k", 1.03),
];

/// D §IX.A: misses of 4K+4K over those of native 4K.
const MORE_MISSES: &[(Like, &str)] =
    &[(Like::Gups, "1.41"), (Like::Graph500, "1.38"), (Like::Memcached, "1.62")];

/// Prints all of them.
pub fn print(studies: &[Study]) {
    graph500(studies);
    let counted: Vec<&Study> = studies.iter().filter(|study| study.place.counts).collect();
    println!("\nTaken together below, one median each:");
    for study in &counted {
        println!("  {}", study.place.title);
    }
    virtualization(&counted);
    per_miss(&counted);
    more_misses(studies);
}

fn graph500(studies: &[Study]) {
    let graphs: Vec<&Study> =
        studies.iter().filter(|study| study.place.like == Like::Graph500).collect();
    println!("D-C2: overhead in %; graph500 in the paper, trace bfs here");
    for (index, study) in graphs.iter().enumerate() {
        println!("  ({}) {}", index + 1, study.place.title);
    }
    let heading = |index| format!("{:>21}{:>21}", format!("({index})"), "over no-miss");
    let headings: String = (1..=graphs.len()).map(heading).collect();
    println!("\n{:<8}{:>7}{headings}", "", "paper");
    for &(label, scheme, paper) in GRAPH500 {
        let mut row = format!("{label:<8}{paper:>7.0}");
        for study in &graphs {
            let percent = |share: f64| share * 100.0;
            let overheads = study.figures(|seed| seed.overhead(scheme).map(percent));
            let no_miss = study.figures(|seed| Some(percent(seed.overhead_over_no_misses(scheme))));
            row += &format!("{:>21}{:>21}", spread(&overheads, 1), spread(&no_miss, 1));
        }
        println!("{row}");
    }
}

/// The median of every study that has one.
fn medians(studies: &[&Study], of: impl Fn(&Seed<'_>) -> Option<f64>) -> Vec<f64> {
    studies.iter().filter_map(|study| median(&study.figures(&of))).collect()
}

fn range(values: &[f64], digits: usize) -> String {
    let values: Vec<Option<f64>> = values.iter().copied().map(Some).collect();
    spread(&values, digits)
}

fn row(what: &str, paper: &str, ours: Option<f64>, digits: usize, values: &[f64]) {
    let ours = ours.map_or("–".into(), |value| format!("{value:.digits$}"));
    let range = range(values, digits);
    println!("{what:<58}{paper:>9}{ours:>9}{range:>22}");
}

fn headings(what: &str) {
    println!("\n{what:<58}{:>9}{:>9}{:>22}", "paper", "ours", "of workloads");
}

fn virtualization(studies: &[&Study]) {
    headings("D-C3: what virtualization costs");
    let times = medians(studies, |seed| {
        let native = seed.overhead("4k").filter(|&share| share > 0.0)?;
        Some(seed.overhead("4k+4k")? / native)
    });
    row("overhead of 4K+4K ÷ 4K, geometric mean", "3.6", geometric_mean(&times), 2, &times);
    let times = medians(studies, |seed| {
        let native = seed.overhead_over_no_misses("4k");
        (native > 0.0).then(|| seed.overhead_over_no_misses("4k+4k") / native)
    });
    let what = "the same over the run without misses";
    row(what, "", geometric_mean(&times), 2, &times);
    let slower = |scheme: &'static str| {
        medians(studies, |seed| Some(seed.run(scheme).cycles / seed.run("4k").cycles))
    };
    let percent =
        |values: &[f64]| -> Vec<f64> { values.iter().map(|value| (value - 1.0) * 100.0).collect() };
    let vmm = slower("4k+segment");
    let average = geometric_mean(&vmm).map(|mean| (mean - 1.0) * 100.0);
    row("VMM Direct slower than native 4K, geometric mean, %", "2", average, 2, &percent(&vmm));
    let worst = percent(&vmm).into_iter().max_by(f64::total_cmp);
    row("the same, worst, %", "7.3", worst, 2, &percent(&vmm));
    let dual = medians(studies, |seed| Some(seed.overhead("segment+segment")? * 100.0));
    let worst = dual.iter().copied().max_by(f64::total_cmp);
    row("overhead of Dual Direct, worst, %", "≤ 0.17", worst, 2, &dual);
    let dual =
        medians(studies, |seed| Some(seed.overhead_over_no_misses("segment+segment") * 100.0));
    let worst = dual.iter().copied().max_by(f64::total_cmp);
    row("the same over the run without misses", "", worst, 2, &dual);
}

fn per_miss(studies: &[&Study]) {
    headings("D-C4: walk cycles per L2 TLB miss, times native 4K, mean");
    for &(label, scheme, paper) in CYCLES_PER_MISS {
        let times = medians(studies, |seed| {
            let native = seed.run("4k").measured().cycles_per_miss();
            (native > 0.0).then(|| seed.run(scheme).measured().cycles_per_miss() / native)
        });
        row(label, &format!("{paper}"), mean(&times), 2, &times);
    }
    let fewer = medians(studies, |seed| {
        let misses = |scheme| seed.run(scheme).measured().misses;
        Some((misses("segment+segment") / misses("4k") - 1.0) * 100.0)
    });
    row(
        "L2 TLB misses of Dual Direct against native 4K, %, mean",
        "−99.9",
        mean(&fewer),
        1,
        &fewer,
    );
}

fn more_misses(studies: &[Study]) {
    println!(
        "\nD-C5: L2 TLB misses of 4K+4K ÷ native 4K (paper: 1.29 to 1.62), with nested entries in \
         the\nsecond-level TLB, in a nested TLB of 64 entries 4-way, nowhere\n"
    );
    println!("{:<62}{:>8}{:>9}{:>9}{:>9}", "", "paper", "shared", "apart", "nowhere");
    for study in studies {
        let paper = MORE_MISSES.iter().find(|(like, _)| *like == study.place.like);
        let paper = paper.map_or("", |(_, paper)| paper);
        let times = |of: fn(&Seed<'_>) -> f64| {
            let ratio = |seed: &Seed<'_>| {
                let native = seed.run("4k").measured().misses;
                (native > 0.0).then(|| of(seed) / native)
            };
            middle(&study.figures(ratio), 3)
        };
        println!(
            "{:<62}{paper:>8}{:>9}{:>9}{:>9}",
            study.place.title,
            times(|seed| seed.run("4k+4k").measured().misses),
            times(|seed| seed.nested_tlb_apart().measured().misses),
            times(|seed| seed.no_nested_tlb().measured().misses),
        );
    }
    println!();
}
