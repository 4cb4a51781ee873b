//! The figures shown in tables, computed the same way for the terminal and the page.

use crate::RunResult;
use crate::comparison::{Comparison, Spread};
use crate::format;
use crate::html::Heading;
use crate::labels::{Part, WORK_PARTS};

/// One figure of a scheme.
pub(crate) struct Metric {
    /// What it is called.
    pub label: String,
    /// Heading it belongs under.
    pub group: &'static str,
    /// Whether it stands in the page's main table.
    pub is_main: bool,
    /// How a value is written.
    pub form: Form,
    /// Value per scheme, in the comparison's order.
    pub values: Vec<Option<Spread>>,
}

impl Metric {
    /// The value of a scheme as text.
    pub fn text(&self, scheme: usize) -> String {
        self.values[scheme].map_or(format::MISSING.to_string(), |spread| self.write(spread.median))
    }

    /// What stands behind every value; sizes and counts have units of their own.
    pub fn unit(&self) -> &'static str {
        match self.form {
            Form::Times => "×",
            Form::Percent => " %",
            Form::Ratio | Form::Count | Form::Bytes => "",
        }
    }

    /// The heading of a column of this metric's values.
    pub fn heading(&self, name: &str) -> Heading {
        match self.form {
            Form::Times => Heading::with_unit(name, "×"),
            Form::Percent => Heading::with_unit(name, "share of 1"),
            Form::Bytes => Heading::with_unit(name, "bytes"),
            Form::Ratio | Form::Count => name.into(),
        }
    }

    /// A value as text; quotients of one metric have the same number of decimals.
    pub fn write(&self, value: f64) -> String {
        match self.form {
            Form::Ratio => format::ratio_with(value, self.decimals()),
            Form::Times => format::times(value),
            Form::Percent => format::percent(value),
            Form::Count => format::compact(value),
            Form::Bytes => format::bytes(value),
        }
    }

    /// As many as suit the largest value, and at least one for values under 10.
    fn decimals(&self) -> usize {
        let medians = || self.values.iter().flatten().map(|spread| spread.median.abs());
        let least = medians().filter(|&median| median > 0.0).fold(f64::INFINITY, f64::min);
        let floor = if least < 1.0 { 2 } else { usize::from(least < 10.0) };
        format::decimals(medians().fold(0.0, f64::max)).max(floor)
    }

    /// Whether any scheme has a value that is not 0.
    fn says_something(&self) -> bool {
        self.says_something_of(0..self.values.len())
    }

    /// Whether any of these schemes has a value that is not 0.
    pub fn says_something_of(&self, schemes: impl IntoIterator<Item = usize>) -> bool {
        let mut values = schemes.into_iter().filter_map(|scheme| self.values[scheme]);
        values.any(|spread| spread.median != 0.0)
    }
}

/// How the values of a metric are written.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    Ratio,
    Times,
    Percent,
    Count,
    Bytes,
}

type Figure = fn(&RunResult) -> Option<f64>;

/// Counter per 1,000 instructions.
pub(crate) fn per_kilo_instruction(run: &RunResult, counter: &str) -> Option<f64> {
    let instructions = run.instructions.filter(|&count| count > 0.0)?;
    Some(run.counter(counter)? / instructions * 1000.0)
}

/// Sum of all `translation_cycles_…` per 1,000 instructions.
pub(crate) fn translation_cycles(run: &RunResult) -> Option<f64> {
    let names = run.counters.keys().filter(|name| is_translation_cycles(name));
    let parts: Vec<f64> = names.filter_map(|name| per_kilo_instruction(run, name)).collect();
    if parts.is_empty() { None } else { Some(parts.iter().sum()) }
}

/// Whether a counter is one part of the translation cycles (and not their total).
pub(crate) fn is_translation_cycles(name: &str) -> bool {
    name.starts_with("translation_cycles_") && !name.ends_with("_total")
}

/// Whether a counter is the references of one level (and not a total or an average).
pub(crate) fn is_walk_references(name: &str) -> bool {
    name.starts_with("walk_references_") && !name.ends_with("_total")
}

pub(crate) fn mpki(run: &RunResult, level: &str) -> Option<f64> {
    let given = run.counter(&format!("{level}_tlb_mpki"));
    given.or_else(|| per_kilo_instruction(run, &format!("{level}_tlb_misses")))
}

/// References per walk, from the average or from its parts.
pub(crate) fn references_per_walk(run: &RunResult) -> Option<f64> {
    run.counter("references_per_walk").or_else(|| {
        let walks = run.counter("walks").filter(|&walks| walks > 0.0)?;
        let names = run.counters.keys().filter(|name| is_walk_references(name));
        Some(names.filter_map(|name| run.counter(name)).sum::<f64>() / walks)
    })
}

/// Share of the last sample's second-level TLB entries that are of one kind.
fn share_at_end(run: &RunResult, kind: &str) -> Option<f64> {
    let sample = run.series.l2_tlb_contents.last()?;
    let total: f64 = sample.entries.values().filter_map(|count| count.as_f64()).sum();
    let count = sample.entries.get(kind)?.as_f64()?;
    (total > 0.0).then(|| count / total)
}

/// All figures that say something about this comparison.
pub(crate) fn metrics(comparison: &Comparison<'_>) -> Vec<Metric> {
    let mut found = speed(comparison);
    found.extend(rows(comparison, OPERATING_SYSTEM));
    found.extend(operating_system_parts(comparison));
    found.extend(rows(comparison, FIGURES));
    found.retain(Metric::says_something);
    found
}

fn rows(comparison: &Comparison<'_>, figures: &[Row]) -> Vec<Metric> {
    let metric = |&(group, label, is_main, form, figure): &Row| {
        let values = comparison.schemes.iter().map(|scheme| scheme.spread(figure)).collect();
        Metric { label: label.to_string(), group, is_main, form, values }
    };
    figures.iter().map(metric).collect()
}

/// What the operating system's share of cycles is made of.
fn operating_system_parts(comparison: &Comparison<'_>) -> Vec<Metric> {
    let metric = |&(name, label, _): &Part| {
        let counter = format!("operating_system_cycles_{name}");
        let share = |run: &RunResult| share_of_cycles(run, &counter);
        let values = comparison.schemes.iter().map(|scheme| scheme.spread(share)).collect();
        let label = format!("of it: {label}");
        Metric { label, group: WITH_WORK, is_main: false, form: Form::Percent, values }
    };
    WORK_PARTS.iter().map(metric).collect()
}

/// Instructions per cycle with the operating system's work.
pub(crate) fn ipc_with_operating_system(run: &RunResult) -> Option<f64> {
    run.counter("ipc_with_operating_system")
}

/// Both speeds: in the steady state and with the operating system's work.
fn speed(comparison: &Comparison<'_>) -> Vec<Metric> {
    let mut found = speed_by(comparison, STEADY, |run| run.ipc);
    let mut whole = speed_by(comparison, WITH_WORK, ipc_with_operating_system);
    // The page's main table has no groups to tell the two apart; it shows the work's share.
    for metric in &mut whole {
        metric.is_main = false;
    }
    found.extend(whole);
    found
}

fn speed_by(comparison: &Comparison<'_>, group: &'static str, figure: Figure) -> Vec<Metric> {
    let metric = |label: String, form, values| Metric { label, group, is_main: true, form, values };
    let relative = |reference| {
        (0..comparison.schemes.len())
            .map(|scheme| comparison.relative(scheme, reference, figure))
            .collect::<Vec<_>>()
    };
    let ipc = comparison.schemes.iter().map(|scheme| scheme.spread(figure)).collect();
    let mut found = vec![
        metric("IPC".into(), Form::Ratio, ipc),
        metric(
            format!("IPC ÷ {}", comparison.reference_name()),
            Form::Times,
            relative(comparison.reference),
        ),
    ];
    if let Some(ideal) = comparison.ideal {
        let label = format!("IPC ÷ {}", comparison.ideal_name());
        found.push(metric(label, Form::Percent, relative(ideal)));
    }
    found
}

/// Headings of the two speeds.
const STEADY: &str = "Speed, steady state";
const WITH_WORK: &str = "Speed, including OS work";

/// Counter that is one cause of the operating system's cycles, as a share of all cycles.
fn share_of_cycles(run: &RunResult, counter: &str) -> Option<f64> {
    let all = run.counter("cycles_with_operating_system").filter(|&cycles| cycles > 0.0)?;
    Some(run.counter(counter)? / all)
}

/// Sum of counters; none where none of them is there.
fn sum(run: &RunResult, prefix: &str) -> Option<f64> {
    let names = run.counters.keys().filter(|name| name.starts_with(prefix));
    names.filter_map(|name| run.counter(name)).reduce(|sum, value| sum + value)
}

type Row = (&'static str, &'static str, bool, Form, Figure);

/// What the operating system's work adds in all.
const OPERATING_SYSTEM: &[Row] = &[
    (WITH_WORK, "cycles of OS work", false, Form::Count, |run| {
        run.counter("operating_system_cycles")
    }),
    (WITH_WORK, "OS work, share of cycles", true, Form::Percent, |run| {
        share_of_cycles(run, "operating_system_cycles")
    }),
];

const FIGURES: &[Row] = &[
    (WITH_WORK, "in background, ÷ cycles", false, Form::Times, |run| {
        share_of_cycles(run, "operating_system_background_cycles")
    }),
    (WITH_WORK, "faults served", false, Form::Count, |run| sum(run, "work_faults_")),
    (WITH_WORK, "shootdowns", false, Form::Count, |run| sum(run, "work_shootdowns_")),
    ("Run", "instructions", false, Form::Count, |run| run.instructions),
    ("Run", "cycles, steady state", false, Form::Count, |run| run.cycles),
    ("TLB", "L1 TLB accesses", false, Form::Count, |run| run.counter("l1_tlb_accesses")),
    ("TLB", "L1 TLB misses", false, Form::Count, |run| run.counter("l1_tlb_misses")),
    ("TLB", "L1 TLB MPKI", false, Form::Ratio, |run| mpki(run, "l1")),
    ("TLB", "L2 TLB accesses", false, Form::Count, |run| run.counter("l2_tlb_accesses")),
    ("TLB", "L2 TLB misses", false, Form::Count, |run| run.counter("l2_tlb_misses")),
    ("TLB", "L2 TLB MPKI", true, Form::Ratio, |run| mpki(run, "l2")),
    ("Page walks", "walks", false, Form::Count, |run| run.counter("walks")),
    ("Page walks", "walks PKI", true, Form::Ratio, |run| per_kilo_instruction(run, "walks")),
    ("Page walks", "references per walk", true, Form::Ratio, references_per_walk),
    ("Page walks", "level 4 references", false, Form::Count, |run| {
        run.counter("walk_references_level4")
    }),
    ("Page walks", "level 3 references", false, Form::Count, |run| {
        run.counter("walk_references_level3")
    }),
    ("Page walks", "level 2 references", false, Form::Count, |run| {
        run.counter("walk_references_level2")
    }),
    ("Page walks", "level 1 references", false, Form::Count, |run| {
        run.counter("walk_references_level1")
    }),
    ("Page walks", "shadow references", false, Form::Count, |run| {
        run.counter("walk_references_shadow")
    }),
    ("Page walks", "hole references", false, Form::Count, |run| {
        run.counter("walk_references_hole")
    }),
    ("Page walks", "guest references per walk", false, Form::Ratio, |run| {
        run.counter("guest_references_per_walk")
    }),
    ("Page walks", "host references per walk", false, Form::Ratio, |run| {
        run.counter("host_references_per_walk")
    }),
    ("Page walks", "host level 4 references", false, Form::Count, |run| {
        run.counter("walk_references_host_level4")
    }),
    ("Page walks", "host level 3 references", false, Form::Count, |run| {
        run.counter("walk_references_host_level3")
    }),
    ("Page walks", "host level 2 references", false, Form::Count, |run| {
        run.counter("walk_references_host_level2")
    }),
    ("Page walks", "host level 1 references", false, Form::Count, |run| {
        run.counter("walk_references_host_level1")
    }),
    ("Page walks", "host shadow references", false, Form::Count, |run| {
        run.counter("walk_references_host_shadow")
    }),
    ("Page walks", "host hole references", false, Form::Count, |run| {
        run.counter("walk_references_host_hole")
    }),
    ("Page walks", "segment checks per walk", false, Form::Ratio, |run| {
        run.counter("segment_checks_per_walk")
    }),
    ("Page walks", "walk cycles", false, Form::Count, |run| run.counter("walk_cycles")),
    ("Page walks", "translation cycles PKI", true, Form::Ratio, translation_cycles),
    ("Page walks", "translation energy, nJ PKI", false, Form::Ratio, |run| {
        per_kilo_instruction(run, "translation_energy_dynamic_nj")
    }),
    ("Holes", "bitmap look-ups", false, Form::Count, |run| run.counter("bitmap_lookups")),
    ("Holes", "bitmap filtered", false, Form::Count, |run| run.counter("bitmap_filtered")),
    ("Holes", "bitmap hits", false, Form::Count, |run| run.counter("bitmap_hits")),
    ("Holes", "bitmap misses", false, Form::Count, |run| run.counter("bitmap_misses")),
    ("Holes", "holes translated", false, Form::Count, |run| run.counter("holes_translated")),
    ("L2 TLB at end", "4KB pages", false, Form::Percent, |run| share_at_end(run, "page_4k")),
    ("L2 TLB at end", "runs of pages", false, Form::Percent, |run| share_at_end(run, "coalesced")),
    ("L2 TLB at end", "2MB pages", false, Form::Percent, |run| share_at_end(run, "page_2m")),
    ("L2 TLB at end", "1GB pages", false, Form::Percent, |run| share_at_end(run, "page_1g")),
    ("L2 TLB at end", "perforated", false, Form::Percent, |run| share_at_end(run, "perforated")),
    ("L2 TLB at end", "holes", false, Form::Percent, |run| share_at_end(run, "hole")),
    ("L2 TLB at end", "hole bitmap", false, Form::Percent, |run| share_at_end(run, "bitmap")),
    ("L2 TLB at end", "guest-physical", false, Form::Percent, |run| share_at_end(run, "nested")),
    ("Memory", "mapped", false, Form::Bytes, |run| run.counter("mapped_bytes")),
    ("Memory", "touched", false, Form::Bytes, |run| run.counter("touched_bytes")),
    ("Memory", "reserved", false, Form::Bytes, |run| run.counter("reserved_bytes")),
    ("Memory", "swapped out", false, Form::Bytes, |run| run.counter("swapped_bytes")),
    ("Memory", "scanned to merge", false, Form::Count, |run| run.counter("ksm_pages_scanned")),
    ("Memory", "saved by merging", false, Form::Bytes, |run| run.counter("ksm_saved_bytes")),
    ("Memory", "page tables", true, Form::Bytes, |run| run.counter("page_table_bytes")),
    ("Memory", "host page tables", false, Form::Bytes, |run| run.counter("host_page_table_bytes")),
    ("Memory", "hole bitmap", false, Form::Bytes, |run| run.counter("hole_bitmap_bytes")),
    ("Memory", "page faults", false, Form::Count, |run| run.counter("page_faults")),
    ("Memory", "large pages", false, Form::Count, |run| run.counter("large_pages")),
    ("Memory", "perforated pages", false, Form::Count, |run| run.counter("perforated_pages")),
    ("Memory", "made by khugepaged", false, Form::Count, |run| sum(run, "khugepaged_pages_made_")),
    ("Memory", "holes patched", false, Form::Count, |run| run.counter("work_subpages_patched")),
    ("Memory", "2MB pages split", false, Form::Count, |run| run.counter("work_large_pages_split")),
];
