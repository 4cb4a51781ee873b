//! Figures shown in tables, computed in the same way for terminal output and pages.

use perforate_records::{Interval, RunResult, Vocabulary};
use perforate_types::{Counter, CounterUnit, Prominence};

use crate::comparison::{Comparison, Spread};
use crate::format;
use crate::html::Heading;
use crate::ids;

/// One figure of a table, with its values for all schemes of a comparison.
pub(crate) struct Metric {
    /// Name of the metric in tables.
    pub label: String,
    /// Heading under which tables list the metric.
    pub group: &'static str,
    /// True if the main table of the page shows the metric.
    pub is_main: bool,
    /// Notation of the metric's values.
    pub form: Form,
    /// Value for each scheme, in the order of the comparison; `None` if unknown.
    pub values: Vec<Option<Spread>>,
    /// 95 % interval for each scheme, in the order of the comparison; empty if the metric has none.
    pub intervals: Vec<Option<Interval>>,
}

impl Metric {
    /// Creates a metric without intervals.
    pub fn new(
        label: String,
        group: &'static str,
        form: Form,
        values: Vec<Option<Spread>>,
    ) -> Self {
        Self { label, group, is_main: false, form, values, intervals: Vec::new() }
    }

    /// Writes the value for a scheme (given by index), with its interval if known.
    pub fn text(&self, scheme: usize) -> String {
        let interval = self.intervals.get(scheme).copied().flatten();
        match (interval.filter(|one| one.half_width_95.is_some()), self.form) {
            (Some(speed), Form::Times) => format::relative_speed(speed),
            (Some(share), Form::Percent) => format::share(share),
            _ => {
                let written = self.values[scheme].map(|spread| self.write(spread.median));
                written.unwrap_or_else(|| format::MISSING.to_owned())
            }
        }
    }

    /// Returns the unit after every value; empty for ratios, sizes and counts.
    pub fn unit(&self) -> &'static str {
        match self.form {
            Form::Times => "×",
            Form::Percent => " %",
            Form::Ratio | Form::Count | Form::Bytes => "",
        }
    }

    /// Returns the heading of a column with this metric's values.
    pub fn heading(&self, name: &str) -> Heading {
        match self.form {
            Form::Times => Heading::with_unit(name, "×"),
            Form::Percent => Heading::with_unit(name, "share of 1"),
            Form::Bytes => Heading::bytes(name),
            Form::Ratio | Form::Count => name.into(),
        }
    }

    /// Writes a value in the metric's notation. All ratios of one metric have equally many decimals.
    pub fn write(&self, value: f64) -> String {
        match self.form {
            Form::Ratio => format::ratio_with(value, self.decimals()),
            Form::Times => format::times(value),
            Form::Percent => format::percent(value),
            Form::Count => format::compact(value),
            Form::Bytes => format::bytes(value),
        }
    }

    /// Returns the number of decimals that suits the largest value. It is at least one if some value is below
    /// 10, and two if some value is below 1.
    fn decimals(&self) -> usize {
        let medians = || self.values.iter().flatten().map(|spread| spread.median.abs());
        let least = medians().filter(|&median| median > 0.0).fold(f64::INFINITY, f64::min);
        let floor = if least < 1.0 { 2 } else { usize::from(least < 10.0) };
        format::decimals(medians().fold(0.0, f64::max)).max(floor)
    }

    /// True if the metric has a value, for any scheme, that is not displayed as 0.
    fn says_something(&self) -> bool {
        self.says_something_of(0..self.values.len())
    }

    /// True if any of these schemes has a value that is not displayed as 0.
    pub fn says_something_of(&self, schemes: impl IntoIterator<Item = usize>) -> bool {
        let mut values = schemes.into_iter().filter_map(|scheme| self.values[scheme]);
        let least = if matches!(self.form, Form::Percent) { 0.0005 } else { f64::MIN_POSITIVE };
        values.any(|spread| spread.median.abs() >= least)
    }
}

/// Notation of a metric's values.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    Ratio,
    Times,
    Percent,
    Count,
    Bytes,
}

impl Form {
    /// Returns the notation for values of a counter with this unit.
    fn of(unit: CounterUnit) -> Self {
        match unit {
            CounterUnit::Count | CounterUnit::Cycles | CounterUnit::Nanojoules => Self::Count,
            CounterUnit::Bytes => Self::Bytes,
            CounterUnit::Share => Self::Percent,
            CounterUnit::Ratio | CounterUnit::PerKiloInstruction => Self::Ratio,
        }
    }
}

/// Function that computes a figure of a run. The vocabulary lists which counters are components of which
/// totals.
pub(crate) type Figure = fn(&Vocabulary, &RunResult) -> Option<f64>;

/// Returns the value of a counter per 1,000 instructions; `None` if the run lacks the counter or the number
/// of instructions.
pub(crate) fn per_kilo_instruction(run: &RunResult, counter: &str) -> Option<f64> {
    let instructions = run.instructions()?;
    Some(run.counter(counter)? / instructions * 1000.0)
}

/// Returns the misses of the second-level TLB per 1,000 instructions.
pub(crate) fn l2_tlb_mpki(vocabulary: &Vocabulary, run: &RunResult) -> Option<f64> {
    shown_value(vocabulary, run, ids::L2_TLB_MPKI)
}

/// Returns the average number of page-table entries that a page walk reads, from caches or DRAM.
pub(crate) fn references_per_walk(vocabulary: &Vocabulary, run: &RunResult) -> Option<f64> {
    shown_value(vocabulary, run, ids::REFERENCES_PER_WALK)
}

/// Ratios that a results file may lack, each with a function that computes it from other counters.
const QUOTIENTS: [(&str, Figure); 3] = [
    (ids::L1_TLB_MPKI, |_, run| per_kilo_instruction(run, ids::L1_TLB_MISSES)),
    (ids::L2_TLB_MPKI, |_, run| per_kilo_instruction(run, ids::L2_TLB_MISSES)),
    (ids::REFERENCES_PER_WALK, |vocabulary, run| {
        let walks = run.counter(ids::WALKS).filter(|&walks| walks > 0.0)?;
        Some(vocabulary.sum(ids::WALK_REFERENCES, run).unwrap_or(0.0) / walks)
    }),
];

/// Returns the value of a counter, or its computed value if the run lacks the counter.
fn shown_value(vocabulary: &Vocabulary, run: &RunResult, id: &str) -> Option<f64> {
    let quotient = || QUOTIENTS.iter().find(|quotient| quotient.0 == id)?.1(vocabulary, run);
    run.counter(id).or_else(quotient)
}

/// Returns the share of entries of one kind, 0–1, in the last sample of the second-level TLB.
fn share_at_end(run: &RunResult, kind: &str) -> Option<f64> {
    let entries = &run.series.l2_tlb_contents.last()?.entries;
    let (count, total) = (entries.get(kind)?, entries.total());
    (total > 0).then(|| count as f64 / total as f64)
}

/// Returns all figures of a comparison that have a value other than 0: first the speeds, then the registered
/// counters and computed figures by heading.
pub(crate) fn metrics(comparison: &Comparison<'_>) -> Vec<Metric> {
    let mut found = speed(comparison);
    for group in groups(comparison.vocabulary) {
        found.extend(of_group(comparison, group));
    }
    found.retain(Metric::says_something);
    found
}

/// Returns all headings in order. Headings of figures that the report computes for the whole run come first.
fn groups(vocabulary: &Vocabulary) -> Vec<&'static str> {
    let own = COMPUTED.iter().map(|computed| computed.group);
    let mut found = Vec::new();
    for group in [WHOLE_RUN, WITH_WORK, RUN].into_iter().chain(vocabulary.groups()).chain(own) {
        if !found.contains(&group) {
            found.push(group);
        }
    }
    found
}

/// Returns the figures under one heading: each registered counter that is shown, followed by the figures
/// computed from it.
fn of_group(comparison: &Comparison<'_>, group: &'static str) -> Vec<Metric> {
    let is_shown =
        |counter: &&Counter| counter.group == group && counter.prominence != Prominence::Listed;
    let shown: Vec<&Counter> = comparison.vocabulary.counters.iter().filter(is_shown).collect();
    let computed = || COMPUTED.iter().filter(|computed| computed.group == group);
    let is_beside = |computed: &&Computed, id: &str| computed.beside == Some(id);
    let mut found = Vec::new();
    for alone in computed().filter(|computed| computed.beside.is_none()) {
        found.extend(alone.metrics(comparison));
    }
    for &counter in &shown {
        found.push(registered(comparison, counter));
        for beside in computed().filter(|computed| is_beside(computed, &counter.id)) {
            found.extend(beside.metrics(comparison));
        }
    }
    // Computed figures that follow a counter which is not registered or not shown.
    let is_left = |computed: &&Computed| {
        computed.beside.is_some_and(|id| shown.iter().all(|counter| counter.id != id))
    };
    for left in computed().filter(is_left) {
        found.extend(left.metrics(comparison));
    }
    found
}

/// Returns a table row with the values of a registered counter under all schemes.
fn registered(comparison: &Comparison<'_>, counter: &Counter) -> Metric {
    let value = |run: &RunResult| shown_value(comparison.vocabulary, run, &counter.id);
    let values = comparison.schemes.iter().map(|scheme| scheme.spread(value)).collect();
    let is_main = counter.prominence == Prominence::Main;
    let form = Form::of(counter.unit);
    Metric { is_main, ..Metric::new(counter.label.to_string(), counter.group, form, values) }
}

/// Entry of [`COMPUTED`]: a figure, or several, that the report computes from counters of a run.
struct Computed {
    group: &'static str,
    /// Counter that the figure follows in tables; `None` if the figure comes first.
    beside: Option<&'static str>,
    what: What,
}

enum What {
    /// One figure, which a function computes for each run.
    Figure { label: &'static str, is_main: bool, form: Form, figure: Figure },
    /// Each component of the operating system's cycles, as a share of all cycles.
    PartsOfWork,
    /// Share of each kind of entry in the second-level TLB at the end of the run.
    KindsOfEntries,
}

impl Computed {
    /// Returns the metrics that this entry of [`COMPUTED`] adds to tables: one, or one for each component of
    /// the operating system's cycles or kind of TLB entry.
    fn metrics(&self, comparison: &Comparison<'_>) -> Vec<Metric> {
        let metric = |label: String, is_main, form, figure: &dyn Fn(&RunResult) -> Option<f64>| {
            let values = comparison.schemes.iter().map(|scheme| scheme.spread(figure)).collect();
            Metric { is_main, ..Metric::new(label, self.group, form, values) }
        };
        let parts = |whole| comparison.vocabulary.parts(whole);
        match self.what {
            What::Figure { label, is_main, form, figure } => {
                let of_run = |run: &RunResult| figure(comparison.vocabulary, run);
                vec![metric(label.to_string(), is_main, form, &of_run)]
            }
            What::PartsOfWork => parts(ids::PARTS_OF_WORK)
                .map(|(counter, part)| {
                    let share = |run: &RunResult| share_of_cycles(run, &counter.id);
                    metric(format!("of it: {}", part.label), false, Form::Percent, &share)
                })
                .collect(),
            What::KindsOfEntries => parts(ids::L2_TLB_CONTENTS)
                .filter(|(_, part)| part.key != "empty")
                .map(|(_, part)| {
                    let share = |run: &RunResult| share_at_end(run, &part.key);
                    metric(part.label.to_string(), false, Form::Percent, &share)
                })
                .collect(),
        }
    }
}

/// Returns the instructions per cycle of the whole run, including the operating system's work.
pub(crate) fn ipc_of_whole_run(run: &RunResult) -> Option<f64> {
    run.counter(ids::WHOLE_RUN_IPC)
}

/// Returns the share of the whole run's time, 0–1, that the operating system's work takes.
fn work_share(run: &RunResult) -> Option<f64> {
    let all = run.counter(ids::WHOLE_RUN_CYCLES).filter(|&cycles| cycles > 0.0)?;
    Some(run.counter(ids::WHOLE_RUN_OPERATING_SYSTEM_CYCLES)? / all)
}

/// Returns the figures on speed, both in the steady state and for the whole run with the operating system's
/// work. The main figures are the speed in the steady state, and the shares of its time that translation
/// takes.
fn speed(comparison: &Comparison<'_>) -> Vec<Metric> {
    let work = |scheme: usize| {
        comparison.schemes[scheme].spread(work_share).map_or(0.0, |share| share.median)
    };
    let mut found = speed_by(comparison, STEADY, |run| run.ipc, &|_| 1.0);
    found.extend(saving(comparison));
    found.push(waiting(comparison));
    // The share of the operating system's work is assumed to be equal in all batches of a run.
    let whole = |scheme: usize| 1.0 - work(scheme);
    let with_work = speed_by(comparison, WHOLE_RUN, ipc_of_whole_run, &whole);
    found.extend(with_work.into_iter().map(|metric| Metric { is_main: false, ..metric }));
    found
}

/// Returns the share of each scheme's time that free translation would save; `None` if neither free
/// translation nor ideal large pages were run.
fn saving(comparison: &Comparison<'_>) -> Option<Metric> {
    comparison.bound?;
    let schemes = 0..comparison.schemes.len();
    let intervals: Vec<_> = schemes.map(|scheme| comparison.saving(scheme)).collect();
    let value = |saving: &Option<Interval>| Spread::of(saving.map(|saving| saving.mean));
    let values = intervals.iter().map(value).collect();
    let metric = Metric::new("saved if free".into(), STEADY, Form::Percent, values);
    Some(Metric { is_main: true, intervals, ..metric })
}

/// Returns the share of each scheme's time in which it waits for address translation.
fn waiting(comparison: &Comparison<'_>) -> Metric {
    let share = |run: &RunResult| {
        let cycles = run.cycles().filter(|&cycles| cycles > 0.0)?;
        Some(run.counter(ids::TRANSLATION_STALL_CYCLES)? / cycles)
    };
    let values = comparison.schemes.iter().map(|scheme| scheme.spread(share)).collect();
    let schemes = 0..comparison.schemes.len();
    let intervals = schemes.map(|scheme| comparison.translation_share(scheme)).collect();
    let metric = Metric::new("waits for translation".into(), STEADY, Form::Percent, values);
    Metric { is_main: true, intervals, ..metric }
}

/// Returns metrics on speed: the IPC that `figure` computes for each run, and its ratio to that of the
/// reference and of the ideal scheme. Intervals are those of the steady state, times `factor` of the scheme
/// (such as the share of time without the operating system's work).
fn speed_by(
    comparison: &Comparison<'_>,
    group: &'static str,
    figure: fn(&RunResult) -> Option<f64>,
    factor: &dyn Fn(usize) -> f64,
) -> Vec<Metric> {
    let schemes = || 0..comparison.schemes.len();
    let relative = |label: String, form, reference: usize| {
        let values: Vec<Option<Spread>> =
            schemes().map(|scheme| comparison.relative(scheme, reference, figure)).collect();
        let interval = |scheme: usize| {
            let half_width_95 = comparison.speed(scheme, reference)?.half_width_95;
            let half_width_95 = half_width_95.map(|half| half * factor(scheme));
            Some(Interval { mean: values[scheme]?.median, half_width_95 })
        };
        let intervals =
            schemes().map(|scheme| interval(scheme).filter(|_| scheme != reference)).collect();
        Metric { is_main: true, intervals, ..Metric::new(label, group, form, values) }
    };
    let ipc = schemes().map(|scheme| comparison.schemes[scheme].spread(figure)).collect();
    let label = format!("IPC ÷ {}", comparison.reference_name());
    let mut found = vec![
        Metric { is_main: true, ..Metric::new("IPC".into(), group, Form::Ratio, ipc) },
        relative(label, Form::Times, comparison.reference),
    ];
    if let Some(ideal) = comparison.ideal {
        let label = format!("IPC ÷ {}", comparison.ideal_name());
        // The share of time that free translation saves gives the same information.
        let of_ideal = relative(label, Form::Percent, ideal);
        found.push(Metric { is_main: false, ..of_ideal });
    }
    found
}

/// Heading of the figures on speed in the steady state; `WITH_WORK` and `WHOLE_RUN` head the speeds
/// that include the operating system's work.
const STEADY: &str = "Speed, steady state";
const WITH_WORK: &str = "Speed, including OS work";
const WHOLE_RUN: &str = "Whole run, including OS work";
/// Heading of the figures on a run's number of instructions and cycles; `WALKS` heads the figures on page
/// walks.
const RUN: &str = "Run";
const WALKS: &str = "Page walks";

/// Returns the operating system's cycles of one cause (`counter`) as a share of all cycles, 0–1.
fn share_of_cycles(run: &RunResult, counter: &str) -> Option<f64> {
    let all = run.counter(ids::CYCLES_WITH_OPERATING_SYSTEM).filter(|&cycles| cycles > 0.0)?;
    Some(run.counter(counter)? / all)
}

/// Creates an entry of [`COMPUTED`] whose figure a function computes from the counters of a run.
const fn figure(
    group: &'static str,
    beside: Option<&'static str>,
    (label, is_main, form): (&'static str, bool, Form),
    figure: Figure,
) -> Computed {
    Computed { group, beside, what: What::Figure { label, is_main, form, figure } }
}

const WORK_OF_RUN: Option<&str> = Some(ids::WHOLE_RUN_OPERATING_SYSTEM_CYCLES);
const WORK: Option<&str> = Some(ids::OPERATING_SYSTEM_CYCLES);

/// All figures that the report computes. Figures that follow the same counter are in the order of this list.
const COMPUTED: &[Computed] = &[
    figure(WHOLE_RUN, WORK_OF_RUN, ("OS work", false, Form::Percent), |_, run| work_share(run)),
    figure(WITH_WORK, WORK, ("OS work, share of cycles", false, Form::Percent), |_, run| {
        share_of_cycles(run, ids::OPERATING_SYSTEM_CYCLES)
    }),
    Computed { group: WITH_WORK, beside: WORK, what: What::PartsOfWork },
    figure(WITH_WORK, WORK, ("in background, ÷ cycles", false, Form::Times), |_, run| {
        share_of_cycles(run, ids::OPERATING_SYSTEM_BACKGROUND_CYCLES)
    }),
    figure(WITH_WORK, WORK, ("faults served", false, Form::Count), |vocabulary, run| {
        vocabulary.sum(ids::WORK_FAULTS, run)
    }),
    figure(WITH_WORK, WORK, ("shootdowns", false, Form::Count), |vocabulary, run| {
        vocabulary.sum(ids::WORK_SHOOTDOWNS, run)
    }),
    figure(RUN, None, ("instructions", false, Form::Count), |_, run| run.instructions()),
    figure(RUN, None, ("cycles, steady state", false, Form::Count), |_, run| run.cycles()),
    figure(WALKS, Some(ids::WALKS), ("walks PKI", true, Form::Ratio), |_, run| {
        per_kilo_instruction(run, ids::WALKS)
    }),
    figure(
        WALKS,
        Some(ids::WALK_CYCLES),
        ("translation cycles PKI", false, Form::Ratio),
        |vocabulary, run| {
            let cycles = vocabulary.sum(ids::TRANSLATION_CYCLES, run)?;
            Some(cycles / run.instructions()? * 1000.0)
        },
    ),
    figure(
        WALKS,
        Some(ids::WALK_CYCLES),
        ("translation energy, nJ PKI", false, Form::Ratio),
        |_, run| per_kilo_instruction(run, ids::TRANSLATION_ENERGY_DYNAMIC_NJ),
    ),
    Computed { group: "L2 TLB, mean", beside: None, what: What::KindsOfEntries },
    figure(
        "Memory",
        Some(ids::PERFORATED_PAGES),
        ("made by khugepaged", false, Form::Count),
        |vocabulary, run| vocabulary.sum(ids::KHUGEPAGED_PAGES_MADE, run),
    ),
];
