//! Charts of memory over time: fragmentation of free memory, and memory that is mapped but untouched.

use maud::{Markup, html};
use perforate_records::MemoryPoint;

use super::memory::seeds_note;
use super::pictures::OverTime;
use crate::chart::{Axis, Ground, Lines, Mark, Series};
use crate::comparison::{Comparison, SchemeRuns};
use crate::format::{self, MISSING, bytes, compact};
use crate::html::{Cell, Figure, Grid, Heading, Page, figures, linked};
use crate::labels::{MEMORY_PARTS, part};

/// Returns a chart of each fragmentation index of free memory for all schemes, and a chart of the program's
/// touched and untouched memory for each scheme.
pub(super) fn over_time(comparison: &Comparison<'_>, id: &str, page: &mut Page) -> Markup {
    let schemes = comparison.schemes.iter();
    let schemes: Vec<&SchemeRuns<'_>> =
        schemes.filter(|scheme| !scheme.first().series.memory.is_empty()).collect();
    if schemes.is_empty() {
        return html! {};
    }
    let fails = samples(&schemes).any(|sample| sample.fragmentation_index_2m.is_some());
    let always = if fails { "" } else { " At every sample 2MB could still be had." };
    let indices = [
        Index {
            key: "unusable-index",
            title: "Free memory unusable for 2MB pages",
            caption: format!(
                "Share of free memory that lies in pieces smaller than 2MB (Linux: unusable index of order 9).{always}"
            ),
            value: |sample| sample.unusable_index_2m,
        },
        Index {
            key: "fragmentation-index",
            title: "Why no 2MB can be had",
            caption: "Towards 0 %: little is free. Towards 100 %: what is free lies in small pieces (Linux: fragmentation index of order 9). No line: 2MB can be had.".into(),
            value: |sample| sample.fragmentation_index_2m,
        },
    ];
    let steady = indices.iter().filter_map(|index| Some((index.title, index.steady(&schemes)?)));
    let steady: Vec<_> = steady.collect();
    let drawn: Vec<Figure> =
        indices.iter().filter_map(|index| index.figure(&schemes, id)).collect();
    html! {
        @if !steady.is_empty() || !drawn.is_empty() {
            h2 { "Memory over time" }
            @for (title, value) in steady {
                p.lead { (title) ": " (format::percent(value)) " throughout, under every scheme." }
            }
            (figures(drawn, page))
        }
        (bloat(comparison, &schemes, id, page))
    }
}

fn samples<'s>(schemes: &'s [&'s SchemeRuns<'s>]) -> impl Iterator<Item = &'s MemoryPoint> + 's {
    schemes.iter().flat_map(|scheme| &scheme.first().series.memory)
}

/// An index of the fragmentation of free memory (Linux: unusable or fragmentation index of order 9), which a
/// chart shows over time.
struct Index {
    key: &'static str,
    title: &'static str,
    caption: String,
    value: fn(&MemoryPoint) -> Option<f64>,
}

impl Index {
    /// Returns the value of the index in a sample; `None` unless it is between −1 and 1.
    fn of(&self, sample: &MemoryPoint) -> Option<f64> {
        (self.value)(sample).filter(|value| value.abs() <= 1.0)
    }

    /// Returns the value of the index if it is constant within 0.01 in all samples, otherwise `None`.
    fn steady(&self, schemes: &[&SchemeRuns<'_>]) -> Option<f64> {
        let values = || samples(schemes).map(|sample| self.of(sample));
        let least = values().try_fold(f64::INFINITY, |least, value| Some(least.min(value?)))?;
        let most = values().flatten().fold(f64::NEG_INFINITY, f64::max);
        (most - least < 0.01).then_some(most)
    }

    /// Returns the chart of the index over time; `None` if no scheme has the index, or if it is constant.
    fn figure(&self, schemes: &[&SchemeRuns<'_>], id: &str) -> Option<Figure> {
        if self.steady(schemes).is_some() {
            return None;
        }
        let most = samples(schemes).filter_map(|sample| self.of(sample)).reduce(f64::max)?;
        let last = samples(schemes).map(|sample| sample.instruction as f64).fold(0.0, f64::max);
        let all = || {
            schemes.iter().flat_map(|scheme| {
                scheme.first().series.memory.iter().map(move |sample| (*scheme, sample))
            })
        };
        let mark = |(scheme, sample): (&SchemeRuns<'_>, &MemoryPoint)| {
            let value = self.of(sample);
            Mark {
                x: Some(sample.instruction as f64),
                series: scheme.name.to_owned(),
                value: value.map(|value| value * 100.0),
                text: value.map_or(MISSING.to_owned(), format::percent),
                ..Mark::default()
            }
        };
        let series = |(number, scheme): (usize, &&SchemeRuns<'_>)| Series {
            label: scheme.name.to_owned(),
            colour: scheme.colour,
            number,
            ..Series::default()
        };
        let chart = Lines {
            series: schemes.iter().enumerate().map(series).collect(),
            marks: all().map(mark).collect(),
            ground: Ground::Numbers { least: 0.0, most: last },
            // The axis starts at 0 and spans at least 10 %, so that tiny changes do not look large.
            range: (0.0, most.clamp(0.1, 1.0) * 100.0),
            axis: Axis { label: "instructions", suffix: "" },
            value: Axis { label: "", suffix: " %" },
        };
        let data = Grid::of(
            all(),
            [
                ("scheme".into(), &|(scheme, _)| Cell::scheme(scheme.name, scheme.colour)),
                ("instructions".into(), &|(_, sample)| instruction(sample)),
                (Heading::with_unit("share", "share of 1"), &|(_, sample)| {
                    Cell::value(self.of(sample), format::percent)
                }),
            ],
        );
        Some(Figure {
            id: format!("{id}-{}", self.key),
            name: format!("{} {}", schemes[0].first().workload, self.title),
            title: self.title.to_owned(),
            caption: self.caption.clone(),
            chart: chart.spec(),
            data,
        })
    }
}

fn instruction(sample: &MemoryPoint) -> Cell {
    Cell::value(Some(sample.instruction as f64), compact)
}

/// Splits a program's memory into three sizes in bytes: touched and mapped, mapped but untouched, and touched
/// but no longer mapped.
fn parts(sample: &MemoryPoint) -> [f64; 3] {
    let [touched, mapped] =
        [sample.touched_bytes, sample.mapped_bytes].map(|size| size.unwrap_or(0) as f64);
    let resident = touched.min(mapped);
    [resident, mapped - resident, touched - resident]
}

/// Returns a chart of touched and of mapped but untouched memory for each scheme, with common axes.
fn bloat(
    comparison: &Comparison<'_>,
    schemes: &[&SchemeRuns<'_>],
    id: &str,
    page: &mut Page,
) -> Markup {
    let most = samples(schemes).map(|sample| parts(sample).iter().sum()).fold(0.0, f64::max);
    if most <= 0.0 {
        return html! {};
    }
    // Uses the largest unit of which there are at least ten, so that the axis has no fractions.
    let units = [(4, "TB"), (3, "GB"), (2, "MB")].map(|(power, name)| (1024f64.powi(power), name));
    let (unit, name) =
        units.into_iter().find(|unit| most >= 10.0 * unit.0).unwrap_or((1024.0, "KB"));
    // Swapped-out or unmapped memory has a series only if there is any.
    let is_gone = samples(schemes).any(|sample| parts(sample)[2] > 0.0);
    let series: Vec<Series> = MEMORY_PARTS[..2 + usize::from(is_gone)].iter().map(part).collect();
    let size = |size: Option<u64>| Cell::value(size.map(|size| size as f64), bytes);
    let charts = OverTime {
        key: "bloat",
        name: "Bloat",
        series: &series,
        unit: name,
        samples: &|scheme| {
            let sample = |sample| {
                let parts = parts(sample).into_iter().take(series.len());
                (sample.instruction as f64, parts.map(|part| part / unit).collect())
            };
            scheme.first().series.memory.iter().map(sample).collect()
        },
        data: &|scheme| {
            Grid::of(
                &scheme.first().series.memory,
                [
                    ("instructions".into(), &|sample| instruction(sample)),
                    (Heading::bytes("touched"), &|sample| size(sample.touched_bytes)),
                    (Heading::bytes("mapped"), &|sample| size(sample.mapped_bytes)),
                ],
            )
        },
    };
    let drawn = charts.figures(schemes, id);
    if drawn.is_empty() {
        return html! {};
    }
    let drawn = linked(drawn, page);
    html! {
        h2 { "Bloat over time" }
        p.lead {
            "Memory mapped, in " (name) ", and how much of it the program has touched so far."
            (seeds_note(comparison))
        }
        (drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(touched: u64, mapped: u64, index: Option<f64>) -> MemoryPoint {
        MemoryPoint {
            touched_bytes: Some(touched),
            mapped_bytes: Some(mapped),
            unusable_index_2m: index,
            ..MemoryPoint::default()
        }
    }

    /// Calls `with` with the schemes of a comparison whose first run has these samples.
    fn of<T>(
        samples: &[MemoryPoint],
        with: impl Fn(&Comparison<'_>, &[&SchemeRuns<'_>]) -> T,
    ) -> T {
        let line = r#"{"scheme":"4k","workload":"w"}"#;
        let mut results = perforate_records::read_results(line).unwrap();
        results[0].series.memory = samples.to_vec();
        let vocabulary = crate::ids::tests::vocabulary();
        let found = crate::comparison::comparisons(&results, &vocabulary);
        let schemes: Vec<&SchemeRuns<'_>> = found[0].schemes.iter().collect();
        with(&found[0], &schemes)
    }

    #[test]
    fn memory_is_touched_untouched_or_gone() {
        for (touched, mapped, expected) in
            [(3, 8, [3.0, 5.0, 0.0]), (8, 3, [3.0, 0.0, 5.0]), (4, 4, [4.0, 0.0, 0.0])]
        {
            assert_eq!(parts(&point(touched, mapped, None)), expected);
        }
        assert_eq!(parts(&MemoryPoint::default()), [0.0; 3]);
    }

    /// The unit of which there are ten; the series for memory that is gone only if some is.
    #[test]
    fn the_axis_has_a_unit_of_which_there_are_ten() {
        let shown = |touched: u64, mapped: u64| {
            let samples = [point(0, mapped, None), point(touched, mapped, None)];
            of(&samples, |comparison, schemes| {
                bloat(comparison, schemes, "c", &mut Page::default()).into_string()
            })
        };
        let ten = 10 << 20;
        assert!(shown(ten, ten).contains("Memory mapped, in MB, and how much of it"));
        assert!(shown(ten - 1, ten - 1).contains("Memory mapped, in KB, and"));
        assert!(
            shown(10 << 30, 10 << 30).contains("in GB, and")
                && shown(10 << 40, 10 << 40).contains("in TB, and")
        );
        assert_eq!(shown(0, 0), "");
    }

    /// An index is the same throughout if it changes by less than 0.01 and is there in each sample.
    #[test]
    fn an_index_that_hardly_changes_is_a_sentence() {
        let index = Index {
            key: "k",
            title: "t",
            caption: String::new(),
            value: |sample| sample.unusable_index_2m,
        };
        let steady = |values: &[Option<f64>]| {
            let samples: Vec<MemoryPoint> =
                values.iter().map(|&value| point(1, 1, value)).collect();
            of(&samples, |_, schemes| (index.steady(schemes), index.figure(schemes, "c").is_some()))
        };
        assert_eq!(steady(&[Some(0.5), Some(0.509)]), (Some(0.509), false));
        assert_eq!(steady(&[Some(0.5), Some(0.511)]), (None, true));
        assert_eq!(steady(&[Some(0.5), None]), (None, true));
        assert_eq!(steady(&[None, None]), (None, false));
        assert_eq!(steady(&[Some(1.0), Some(1.0)]), (Some(1.0), false));
        assert_eq!(steady(&[Some(1.01), Some(-1.01)]), (None, false), "no index");
        let chart = |most: f64| {
            let samples = [point(1, 1, Some(0.0)), point(1, 1, Some(most))];
            of(&samples, |_, schemes| {
                let figure = index.figure(schemes, "c").unwrap();
                figure.chart["layer"][0]["encoding"]["y"]["scale"]["domain"].clone()
            })
        };
        assert_eq!(
            [chart(0.05), chart(0.25)],
            [serde_json::json!([0.0, 10.0]), serde_json::json!([0.0, 25.0])]
        );
    }
}
