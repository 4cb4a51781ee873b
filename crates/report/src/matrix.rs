//! Matrices over pairs of guest and host: for each figure, a matrix with a row for each guest and a column
//! for each host.

use perforate_records::{Interval, RunResult, Vocabulary};
use perforate_types::spaced;

use crate::answer::{Difference, difference};
use crate::comparison::{Comparison, Spread};
use crate::format;
use crate::ids;
use crate::metric::{self, Form, Metric, l2_tlb_mpki, per_kilo_instruction, references_per_walk};
use crate::varied::distinct;

/// Heading of the column of native runs in matrices.
pub(crate) const NATIVE: &str = "native";

/// Rows and columns of the matrices of a comparison, with the scheme in each cell.
pub(crate) struct Pairs<'a> {
    /// Schemes that were run as guests, in the order of the comparison.
    pub guests: Vec<&'a str>,
    /// Schemes that were run as hosts, in the order of the comparison.
    pub hosts: Vec<&'a str>,
    /// True if a column of native runs follows the columns of hosts.
    pub has_native: bool,
    /// Index of the scheme (a pair or a native scheme) in each cell, by guest and then by column; `None` for
    /// pairs that were not run.
    cells: Vec<Vec<Option<usize>>>,
}

impl<'a> Pairs<'a> {
    /// Returns the pairs of a comparison; `None` if it has no virtualized runs.
    pub fn of(comparison: &Comparison<'a>) -> Option<Self> {
        let pairs: Vec<Option<(&str, &str)>> =
            comparison.schemes.iter().map(|scheme| scheme.pair()).collect();
        let guests = distinct(pairs.iter().flatten().map(|pair| pair.0));
        let hosts = distinct(pairs.iter().flatten().map(|pair| pair.1));
        let native = |guest: &str| {
            let is_it =
                |index: &usize| pairs[*index].is_none() && comparison.schemes[*index].name == guest;
            (0..pairs.len()).find(is_it)
        };
        let has_native = guests.iter().any(|guest| native(guest).is_some());
        let row = |guest: &&'a str| {
            let pair = |host: &&str| pairs.iter().position(|pair| *pair == Some((*guest, *host)));
            let mut row: Vec<Option<usize>> = hosts.iter().map(pair).collect();
            row.extend(has_native.then(|| native(guest)));
            row
        };
        let cells: Vec<_> = guests.iter().map(row).collect();
        (!guests.is_empty()).then_some(Self { guests, hosts, has_native, cells })
    }

    /// Returns the headings of the columns: the hosts, and `native` if there are native runs.
    pub fn columns(&self) -> impl Iterator<Item = &'a str> {
        self.hosts.iter().copied().chain(self.has_native.then_some(NATIVE))
    }

    /// Returns the index of the scheme in a cell; `None` if the pair was not run.
    pub fn scheme(&self, guest: usize, column: usize) -> Option<usize> {
        self.cells[guest][column]
    }

    /// Returns the indices of all schemes in the matrices.
    pub fn schemes(&self) -> impl Iterator<Item = usize> {
        self.cells.iter().flatten().flatten().copied()
    }

    /// Returns the number of pairs that were run.
    pub fn count(&self) -> usize {
        self.cells.iter().flat_map(|row| &row[..self.hosts.len()]).flatten().count()
    }

    /// True if some guest was not run on one of the hosts, or not natively.
    fn is_missing_some(&self) -> bool {
        self.cells.iter().flatten().any(Option::is_none)
    }

    /// True if any cell of these matrices has no value.
    pub fn has_gap(&self, matrices: &[Matrix]) -> bool {
        let lacks =
            |matrix: &Matrix| self.schemes().any(|scheme| matrix.value(Some(scheme)).is_none());
        self.is_missing_some() || matrices.iter().any(lacks)
    }
}

/// One figure for all pairs of guest and host.
pub(crate) struct Matrix {
    /// Short name of the figure, for anchors.
    pub key: &'static str,
    /// Values of the figure for all schemes of the comparison.
    pub metric: Metric,
    /// Definition of the figure, for readers.
    pub meaning: &'static str,
    /// True if larger values are better.
    pub is_more_better: bool,
}

impl Matrix {
    fn new(
        key: &'static str,
        label: impl Into<String>,
        form: Form,
        values: Vec<Option<Spread>>,
        meaning: &'static str,
    ) -> Self {
        let metric = Metric::new(label.into(), "", form, values);
        Self { key, metric, meaning, is_more_better: false }
    }

    /// Returns a scheme's value of the figure; `None` if the scheme was not run or has no value.
    pub fn value(&self, scheme: Option<usize>) -> Option<Spread> {
        self.metric.values[scheme?]
    }

    /// Returns a scheme's value as text; “~1” for a speed that does not differ significantly from 1.
    pub fn text(&self, scheme: Option<usize>) -> Option<String> {
        let value = self.value(scheme)?.median;
        let is_none = |speed: Interval| difference(speed) == Difference::None;
        match (self.interval(scheme), self.metric.form) {
            (Some(speed), Form::Times) if is_none(speed) => Some("~1".into()),
            _ => Some(self.metric.write(value)),
        }
    }

    fn interval(&self, scheme: Option<usize>) -> Option<Interval> {
        self.metric.intervals.get(scheme?).copied()?.filter(|one| one.half_width_95.is_some())
    }

    /// Returns half the width of the value's 95 % interval, in the unit of the metric; `None` if unknown.
    pub fn half_width(&self, scheme: Option<usize>) -> Option<f64> {
        self.interval(scheme)?.half_width_95
    }

    /// Writes half the width of the value's 95 % interval, otherwise the range over the seeds. Empty if
    /// neither is known or the range has no width.
    pub fn uncertainty(&self, scheme: Option<usize>) -> String {
        if let Some(half) = self.half_width(scheme) {
            return match self.metric.form {
                Form::Percent => format::plus_minus(half * 100.0, 1),
                _ => format::plus_minus(half, 2),
            };
        }
        let Some(Spread { least, most, .. }) = self.value(scheme) else { return String::new() };
        let (least, most) = (self.metric.write(least), self.metric.write(most));
        match least == most {
            true => String::new(),
            false => format!("{}–{most}", least.trim_end_matches(" %").trim_end_matches('×')),
        }
    }
}

/// Definition of the translation overhead and its baseline, for readers.
pub(crate) const OVERHEAD: &str = "Time more than without translation: (T − T ideal) ÷ T ideal, where T ideal is the cycles of the native ideal run less those of its page walks.";

/// Returns all matrices of a comparison that contain values other than 0.
pub(crate) fn matrices(comparison: &Comparison<'_>, pairs: &Pairs<'_>) -> Vec<Matrix> {
    let all = 0..comparison.schemes.len();
    let mut found = Vec::new();
    let mut speed = |key, reference: Option<usize>, form, meaning| {
        let Some(reference) = reference else { return };
        let ipc = |scheme| comparison.relative(scheme, reference, |run| run.ipc);
        let values = all.clone().map(ipc);
        let label = format!("IPC ÷ {}", comparison.schemes[reference].name);
        let mut matrix = Matrix::new(key, label, form, values.collect(), meaning);
        let interval = |scheme| comparison.speed(scheme, reference).filter(|_| scheme != reference);
        matrix.metric.intervals = all.clone().map(interval).collect();
        found.push(Matrix { is_more_better: true, ..matrix });
    };
    let ideal = comparison.ideal_of_pairs();
    speed("ideal", ideal, Form::Percent, "How much of the speed on unfragmented memory is kept.");
    let reference = comparison.reference_of_pairs();
    speed("reference", reference, Form::Times, "Instructions per cycle, steady state.");
    found.extend(with_system(comparison, reference));
    let overheads: Vec<_> = all.map(|scheme| overhead(comparison, scheme)).collect();
    found.push(Matrix::new("overhead", "translation overhead", Form::Percent, overheads, OVERHEAD));
    found.extend(FIGURES.iter().map(|&(key, label, figure, meaning)| {
        let of_run = |run: &RunResult| figure(comparison.vocabulary, run);
        let values = comparison.schemes.iter().map(|scheme| scheme.spread(of_run)).collect();
        let counter = comparison.vocabulary.counter(label);
        let label = counter.map_or_else(|| spaced(label), |counter| counter.label.to_string());
        Matrix::new(key, label, Form::Ratio, values, meaning)
    }));
    found.retain(|matrix| matrix.metric.says_something_of(pairs.schemes()));
    found
}

/// Returns the matrix of speeds that include the work of operating systems and VM exits; `None` if there was
/// no such work. All costs of shadow paging are part of this work.
fn with_system(comparison: &Comparison<'_>, reference: Option<usize>) -> Option<Matrix> {
    let reference = reference?;
    let ipc = metric::ipc_of_whole_run;
    let differs =
        |run: &RunResult| ipc(run).is_some_and(|ipc| run.ipc.is_some_and(|all| ipc < all * 0.995));
    if !comparison.schemes.iter().any(|scheme| differs(scheme.first())) {
        return None;
    }
    let all = 0..comparison.schemes.len();
    let values = all.map(|scheme| comparison.quotient((scheme, ipc), (reference, ipc)));
    let label = format!("IPC ÷ {}, with OS work", comparison.schemes[reference].name);
    let meaning =
        "Instructions per cycle with faults, page tables, shootdowns and exits to the host.";
    let matrix = Matrix::new("with-system", label, Form::Times, values.collect(), meaning);
    Some(Matrix { is_more_better: true, ..matrix })
}

/// Returns the translation overhead of a scheme (paper D §VIII): (T − T_2Mideal) ÷ T_2Mideal. T_2Mideal is
/// the time of the native run with 2MB pages, without the time spent in page walks. Here the scheme `ideal`
/// is that run, because it always gets 2MB pages.
fn overhead(comparison: &Comparison<'_>, scheme: usize) -> Option<Spread> {
    let ideal = comparison.ideal.filter(|&ideal| comparison.schemes[ideal].pair().is_none())?;
    let without_walks = |run: &RunResult| {
        let rest = run.cycles()? - run.counter(ids::WALK_CYCLES)?;
        // Walks overlap with other work and with each other. If they take most of the run, the
        // difference is meaningless.
        (rest > run.cycles()? / 2.0).then_some(rest)
    };
    let times = comparison.quotient((scheme, RunResult::cycles), (ideal, without_walks))?;
    let Spread { median, least, most, runs } = times;
    Some(Spread { median: median - 1.0, least: least - 1.0, most: most - 1.0, runs })
}

/// Returns the references to guest page tables in an average walk. In a native run, these are all references.
fn guest_references_per_walk(vocabulary: &Vocabulary, run: &RunResult) -> Option<f64> {
    let is_native = run.guest.is_none() && run.host.is_none();
    let native = || references_per_walk(vocabulary, run).filter(|_| is_native);
    run.counter(ids::GUEST_REFERENCES_PER_WALK).or_else(native)
}

/// One figure of the matrices: its key; its label, or the name of a counter whose label it has; the function
/// that computes it; and its definition for readers.
type Figure = (&'static str, &'static str, metric::Figure, &'static str);

const FIGURES: &[Figure] = &[
    (
        "l2-tlb-mpki",
        ids::L2_TLB_MPKI,
        l2_tlb_mpki,
        "Misses of the second-level TLB per 1,000 instructions.",
    ),
    (
        "walks",
        "walks PKI",
        |_, run| per_kilo_instruction(run, ids::WALKS),
        "Page walks per 1,000 instructions.",
    ),
    (
        "references",
        ids::REFERENCES_PER_WALK,
        references_per_walk,
        "Page-table entries read from memory in an average walk, of guest and host.",
    ),
    (
        "guest-references",
        ids::GUEST_REFERENCES_PER_WALK,
        guest_references_per_walk,
        "Those of them that are entries of the guest's tables.",
    ),
    (
        "host-references",
        ids::HOST_REFERENCES_PER_WALK,
        |_, run| run.counter(ids::HOST_REFERENCES_PER_WALK),
        "Those of them that are entries of the host's tables.",
    ),
    (
        "checks",
        ids::SEGMENT_CHECKS_PER_WALK,
        |_, run| run.counter(ids::SEGMENT_CHECKS_PER_WALK),
        "Comparisons with the bounds of direct segments in an average walk.",
    ),
    (
        "exits",
        "VM exits PKI",
        |_, run| per_kilo_instruction(run, ids::VIRTUAL_MACHINE_EXITS),
        "How often the virtual machine was left per 1,000 instructions.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::comparisons;
    use crate::ids::tests::vocabulary;
    use perforate_records::read_results;

    fn line(name: &str, cycles: u64, walk_cycles: u64) -> String {
        let names = name.split_once('+').map_or(String::new(), |(guest, host)| {
            format!(r#""guest":"{guest}","host":"{host}","#)
        });
        format!(
            r#"{{"scheme":"{name}",{names}"workload":"w","cycles":{cycles},"ipc":{},"counters":{{"walk_cycles":{walk_cycles}}}}}"#,
            1000.0 / cycles as f64
        )
    }

    fn median(matrix: &Matrix, pairs: &Pairs<'_>, guest: usize, column: usize) -> Option<f64> {
        matrix.value(pairs.scheme(guest, column)).map(|spread| spread.median)
    }

    #[test]
    fn guests_are_rows_and_hosts_columns_with_native_runs_last() {
        let lines = [
            line("4k", 1500, 600),
            line("ideal", 1100, 100),
            line("4k+thp", 2000, 0),
            line("thp+4k", 4000, 0),
            line("4k+4k", 3000, 0),
        ];
        let results = read_results(&lines.join("\n")).unwrap();
        let vocabulary = vocabulary();
        let comparison = &comparisons(&results, &vocabulary)[0];
        let pairs = Pairs::of(comparison).unwrap();
        assert_eq!(pairs.guests, ["4k", "thp"]);
        assert_eq!(pairs.columns().collect::<Vec<_>>(), ["thp", "4k", "native"]);
        assert_eq!(
            (0..3).map(|column| pairs.scheme(0, column)).collect::<Vec<_>>(),
            [Some(2), Some(4), Some(0)]
        );
        assert_eq!(
            (0..3).map(|column| pairs.scheme(1, column)).collect::<Vec<_>>(),
            [None, Some(3), None]
        );
        assert!(pairs.is_missing_some());
        let matrices = matrices(comparison, &pairs);
        let labels: Vec<&str> = matrices.iter().map(|one| one.metric.label.as_str()).collect();
        assert_eq!(labels, ["IPC ÷ ideal", "IPC ÷ 4k+4k", "translation overhead"]);
        // 3000 / 2000; (2000 − 1000) / 1000, where 1000 = 1100 − 100.
        assert_eq!(median(&matrices[1], &pairs, 0, 0), Some(1.5));
        assert_eq!(median(&matrices[2], &pairs, 0, 0), Some(1.0));
        assert_eq!(median(&matrices[2], &pairs, 0, 2), Some(0.5));
        assert_eq!(median(&matrices[2], &pairs, 1, 0), None);
    }

    #[test]
    fn overhead_needs_a_native_ideal_run_and_ipc_prefers_a_virtualized_one() {
        let labels = |lines: &[String]| -> Vec<String> {
            let results = read_results(&lines.join("\n")).unwrap();
            let vocabulary = vocabulary();
            let comparison = &comparisons(&results, &vocabulary)[0];
            let found = matrices(comparison, &Pairs::of(comparison).unwrap());
            found.into_iter().map(|matrix| matrix.metric.label).collect()
        };
        let pair = line("thp+thp", 2000, 0);
        let virtualized = line("ideal+ideal", 1200, 100);
        assert_eq!(labels(std::slice::from_ref(&pair)), ["IPC ÷ thp+thp"]);
        assert_eq!(
            labels(&[pair.clone(), virtualized.clone()]),
            ["IPC ÷ ideal+ideal", "IPC ÷ thp+thp"]
        );
        assert_eq!(
            labels(&[pair.clone(), virtualized, line("ideal", 1000, 50)]),
            ["IPC ÷ ideal+ideal", "IPC ÷ thp+thp", "translation overhead"]
        );
        // The walkers were occupied for longer than the run, so the overhead is undefined.
        assert_eq!(labels(&[pair, line("ideal", 1000, 1000)]), ["IPC ÷ ideal", "IPC ÷ thp+thp"]);
    }

    #[test]
    fn a_range_over_the_seeds_begins_with_the_least() {
        let range = |form, values: [f64; 3]| {
            Matrix::new("", "", form, vec![Spread::of(values)], "").uncertainty(Some(0))
        };
        assert_eq!(range(Form::Percent, [0.2, 0.125, 0.15]), "12.5–20.0 %");
        assert_eq!(range(Form::Times, [1.5, 1.25, 1.75]), "1.25–1.75×");
        assert_eq!(range(Form::Times, [1.5; 3]), "");
    }

    #[test]
    fn native_results_and_half_a_pair_have_no_matrices() {
        let lines = [
            line("4k", 1, 0),
            r#"{"scheme":"x","guest":"x","workload":"w"}"#.to_string(),
            r#"{"scheme":"y","guest":7,"host":"","workload":"w"}"#.to_string(),
        ];
        let results = read_results(&lines.join("\n")).unwrap();
        assert!(Pairs::of(&comparisons(&results, &vocabulary())[0]).is_none());
    }

    /// Speeds with the system's work are a matrix if that costs more than half a percent; an overhead is told if
    /// walks take less than half of the ideal run.
    #[test]
    fn matrices_are_made_where_they_say_something() {
        let has = |label: &str, whole_ipc: f64, walk_cycles: u64| {
            let with_work = |line: String| {
                line.replace(
                    r#""counters":{"#,
                    &format!(r#""counters":{{"whole_run_ipc":{whole_ipc},"#),
                )
            };
            let lines = [
                line("ideal", 1000, walk_cycles),
                line("4k+4k", 1000, 0),
                line("thp+thp", 2000, 0),
            ];
            let results = read_results(&lines.map(with_work).join("\n")).unwrap();
            let vocabulary = vocabulary();
            let comparison = &comparisons(&results, &vocabulary)[0];
            let found = matrices(comparison, &Pairs::of(comparison).unwrap());
            found.iter().any(|matrix| matrix.metric.label == label)
        };
        // The slowest run has an IPC of 0.5, the others 1.
        let label = "IPC ÷ 4k+4k, with OS work";
        assert_eq!([0.4, 0.994, 0.996].map(|ipc| has(label, ipc, 0)), [true, true, false]);
        let label = "translation overhead";
        assert_eq!([499, 500].map(|cycles| has(label, 1.0, cycles)), [true, false]);
    }
}
