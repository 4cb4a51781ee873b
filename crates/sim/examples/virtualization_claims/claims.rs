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

/// The workloads of one claim: with the TLBs of Table VI, and with traces on scaled ones.
struct Sets<'a> {
    table6: Vec<&'a Study>,
    scaled: Vec<&'a Study>,
}

/// Prints all of them.
pub fn print(studies: &[Study]) {
    graph500(studies);
    let set = |is_scaled| {
        let is_of =
            move |study: &&Study| study.place.is_trace_scaled.is_none_or(|is| is == is_scaled);
        studies.iter().filter(is_of).collect()
    };
    let sets = Sets { table6: set(false), scaled: set(true) };
    println!(
        "\nTaken together below: the synthetic workloads, and the traces with the TLBs of Table VI \
         or scaled.\nOf every workload the median of its seeds; then the mean of workloads, and \
         least–median–greatest."
    );
    virtualization(&sets);
    per_miss(&sets);
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

/// How figures of several workloads become one.
type Average = fn(&[f64]) -> Option<f64>;

fn greatest(values: &[f64]) -> Option<f64> {
    values.iter().copied().max_by(f64::total_cmp)
}

/// The geometric mean of ratios given as percent more.
fn geometric_mean_of_percent(values: &[f64]) -> Option<f64> {
    let ratios: Vec<f64> = values.iter().map(|percent| percent / 100.0 + 1.0).collect();
    geometric_mean(&ratios).map(|mean| (mean - 1.0) * 100.0)
}

impl Sets<'_> {
    /// A row: the figure of every workload that has one.
    fn row(
        &self,
        (what, paper): (&str, &str),
        digits: usize,
        average: Average,
        of: impl Fn(&Seed<'_>) -> Option<f64>,
    ) {
        let mut row = format!("{what:<36}{paper:>7}");
        for set in [&self.table6, &self.scaled] {
            let medians = set.iter().map(|study| median(&study.figures(&of)));
            let values: Vec<f64> = medians.flatten().collect();
            let ours = average(&values).map_or("–".into(), |value| format!("{value:.digits$}"));
            let values: Vec<Option<f64>> = values.into_iter().map(Some).collect();
            row += &format!("{ours:>8}{:>20}", spread(&values, digits));
        }
        println!("{row}");
    }

    fn headings(what: &str) {
        let of_set = |name: &str| format!("{name:>8}{:>20}", "of workloads");
        println!("\n{what:<36}{:>7}{}{}", "paper", of_set("ours"), of_set("scaled"));
    }
}

fn virtualization(sets: &Sets<'_>) {
    Sets::headings("D-C3: what virtualization costs");
    let no_miss = |seed: &Seed<'_>, scheme| Some(seed.overhead_over_no_misses(scheme) * 100.0);
    sets.row(("overhead 4K+4K ÷ 4K, geometric mean", "3.6"), 2, geometric_mean, |seed| {
        let native = seed.overhead("4k").filter(|&share| share > 0.0)?;
        Some(seed.overhead("4k+4k")? / native)
    });
    sets.row(("  over the run without misses", ""), 2, geometric_mean, |seed| {
        let native = seed.overhead_over_no_misses("4k");
        (native > 0.0).then(|| seed.overhead_over_no_misses("4k+4k") / native)
    });
    let slower = |seed: &Seed<'_>| {
        Some((seed.run("4k+segment").cycles / seed.run("4k").cycles - 1.0) * 100.0)
    };
    let what = ("VMM Direct behind 4K, geomean, %", "2");
    sets.row(what, 1, geometric_mean_of_percent, slower);
    sets.row(("  worst, %", "7.3"), 1, greatest, slower);
    sets.row(("overhead of Dual Direct, worst, %", "≤ 0.17"), 2, greatest, |seed| {
        Some(seed.overhead("segment+segment")? * 100.0)
    });
    sets.row(("  over the run without misses", ""), 2, greatest, |seed| {
        no_miss(seed, "segment+segment")
    });
}

fn per_miss(sets: &Sets<'_>) {
    Sets::headings("D-C4: walk cycles per miss ÷ 4K");
    for &(label, scheme, paper) in CYCLES_PER_MISS {
        sets.row((label, &format!("{paper}")), 2, mean, |seed| {
            let native = seed.run("4k").measured().cycles_per_miss();
            (native > 0.0).then(|| seed.run(scheme).measured().cycles_per_miss() / native)
        });
    }
    sets.row(("L2 TLB misses, DD against 4K, %", "−99.9"), 1, mean, |seed| {
        let misses = |scheme| seed.run(scheme).measured().misses;
        Some((misses("segment+segment") / misses("4k") - 1.0) * 100.0)
    });
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
