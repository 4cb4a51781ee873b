//! Waterfall chart of two schemes: the difference between them in each component of translation stalls.

use perforate_records::RunResult;
use perforate_types::counted;

use crate::answer;
use crate::chart::{Axis, Side, Waterfall};
use crate::comparison::{Comparison, SchemeRuns};
use crate::format::{MISSING, ratio};
use crate::html::{Cell, Figure, Grid, Heading};
use crate::waiting;

/// Share of the longest total wait below which a component is too small to be shown on its own. Components
/// below it under every scheme are joined into one.
const LEAST_SHARE: f64 = 0.01;

/// Average number of cycles that a memory access waits for translation under one scheme.
struct Wait<'a> {
    scheme: &'a SchemeRuns<'a>,
    /// Cycles per memory access of waiting for translation, by component.
    parts: Vec<f64>,
    /// All cycles of the run divided by its memory accesses; `None` if unknown.
    all: Option<f64>,
}

impl<'a> Wait<'a> {
    fn of(scheme: &'a SchemeRuns<'a>, counters: &[&str]) -> Option<Self> {
        let one_run = |run: &&RunResult| {
            let accesses = waiting::memory_accesses(run)?;
            let part = |id: &&str| run.counter(id).filter(|&cycles| cycles >= 0.0);
            let parts: Vec<f64> =
                counters.iter().map(|id| part(id).unwrap_or(0.0) / accesses).collect();
            let all = run.cycles().map(|cycles| cycles / accesses);
            Some(Self { scheme, parts, all })
        };
        // With several seeds, the run with the median total is used, because medians of components
        // would not add up.
        let mut runs: Vec<Self> = scheme.runs.iter().filter_map(one_run).collect();
        runs.sort_by(|one, other| one.sum().total_cmp(&other.sum()));
        let middle = runs.len().checked_sub(1)? / 2;
        Some(runs.swap_remove(middle))
    }

    fn sum(&self) -> f64 {
        self.parts.iter().sum()
    }

    /// Converts the waits to one side of the waterfall: the components with indices in `large` one by one,
    /// and those in `small` as a sum.
    fn side(&self, large: &[usize], small: &[usize]) -> Side {
        let part = |&place: &usize| self.parts[place];
        let mut parts: Vec<f64> = large.iter().map(part).collect();
        if !small.is_empty() {
            parts.push(small.iter().map(part).sum());
        }
        let whole = self.all.map_or(MISSING.to_owned(), ratio);
        Side { name: self.scheme.name.to_owned(), parts, whole }
    }

    fn row(&self) -> Vec<Cell> {
        let number = |value: Option<f64>| Cell::value(value, ratio);
        let parts = self.parts.iter().map(|&part| number(Some(part)));
        std::iter::once(Cell::scheme(self.scheme.name, self.scheme.colour))
            .chain(parts)
            .chain([number(Some(self.sum())), number(self.all)])
            .collect()
    }
}

/// Returns the waterfall from the reference scheme to the scheme that the answer is about; a reader can
/// choose other schemes on the page. `None` if there is no other scheme, or for runs without timing.
pub(super) fn figure(comparison: &Comparison<'_>, id: &str) -> Option<Figure> {
    let named: Vec<(&str, &str)> = waiting::parts(comparison.vocabulary)
        .map(|(counter, part)| (&*counter.id, &*part.label))
        .collect();
    let counters: Vec<&str> = named.iter().map(|(id, _)| *id).collect();
    let waits = comparison.schemes.iter().map(|scheme| Wait::of(scheme, &counters));
    let mut waits: Vec<Wait<'_>> = waits.collect::<Option<_>>()?;
    let named = drop_empty(&mut waits, &named);
    let most = waits.iter().map(Wait::sum).fold(0.0, f64::max);
    if waits.len() < 2 || most <= 0.0 {
        return None;
    }
    let is_small = |&place: &usize| waits.iter().all(|wait| wait.parts[place] < LEAST_SHARE * most);
    let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..named.len()).partition(is_small);
    if small.len() < 2 {
        large.append(&mut small);
        large.sort_unstable();
    }
    let mut parts: Vec<String> = large.iter().map(|&place| named[place].to_owned()).collect();
    if !small.is_empty() {
        parts.push(counted(small.len(), "other"));
    }
    let chart = Waterfall {
        parts,
        sides: waits.iter().map(|wait| wait.side(&large, &small)).collect(),
        from: comparison.reference,
        to: answer::subject(comparison)?,
        value: Axis { label: "cycles per memory access", suffix: "" },
        whole: "All time",
        unit: "cycles per access",
    };
    let title = "Waiting for translation, from one scheme to another";
    Some(Figure {
        id: format!("{id}-why"),
        name: format!("{} waterfall of waiting for translation", comparison.workload),
        title: title.into(),
        caption: "Cycles per memory access, on the critical path. Green: this part takes less. Orange: it takes more. The bars add up.".into(),
        chart: chart.spec(),
        data: data(&waits, &named),
    })
}

/// Removes components that are 0 under all schemes, and returns the labels of the remaining ones.
fn drop_empty<'a>(waits: &mut [Wait<'_>], named: &[(&str, &'a str)]) -> Vec<&'a str> {
    let says = |place: &usize| waits.iter().any(|wait| wait.parts[*place] > 0.0);
    let kept: Vec<usize> = (0..named.len()).filter(says).collect();
    for wait in waits.iter_mut() {
        wait.parts = kept.iter().map(|&place| wait.parts[place]).collect();
    }
    kept.into_iter().map(|place| named[place].1).collect()
}

fn data(waits: &[Wait<'_>], named: &[&str]) -> Grid {
    let names = named.iter().copied().chain(["waiting for translation", "all time"]);
    let head = names.map(|name| Heading::with_unit(name, "cycles per memory access"));
    Grid {
        head: std::iter::once("scheme".into()).chain(head).collect(),
        rows: waits.iter().map(Wait::row).collect(),
    }
}
