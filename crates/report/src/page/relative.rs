//! First chart of a comparison: a bar for each scheme, with its confidence interval.

use perforate_records::Interval;

use crate::chart::{Axis, Bars, Mark, Series, broken};
use crate::comparison::{Comparison, SchemeRuns, Spread};
use crate::format::{self, MISSING, ratio, times};
use crate::html::{Cell, Figure, Grid, Heading};
use crate::metric::l2_tlb_mpki;

/// Maximum number of schemes in the chart. Matrices show larger numbers of pairs better.
const MOST_BARS: usize = 36;
/// Height in pixels of all bars together; `PITCH` has the least and the greatest height of one bar.
const ROOM: usize = 400;
const PITCH: (usize, usize) = (16, 44);

/// The bar of a scheme in the first chart of a comparison.
struct Bar<'a> {
    scheme: &'a SchemeRuns<'a>,
    /// Median and range, over the seeds, of the quantity that the bar shows; `None` if unknown.
    value: Option<Spread>,
    /// Half the width of the quantity's 95 % interval, `None` if unknown.
    half: Option<f64>,
    write: fn(Interval) -> String,
}

impl Bar<'_> {
    /// Returns the ends of the bar's confidence interval; if it is unknown, those of the range over the
    /// seeds.
    fn ends(&self) -> Option<(f64, f64)> {
        let value = self.value?;
        match self.half {
            Some(half) => Some((value.median - half, value.median + half)),
            None => (value.runs > 1).then_some((value.least, value.most)),
        }
    }

    fn written(&self, value: f64) -> String {
        (self.write)(Interval { mean: value, half_width_95: None })
    }

    fn mark(&self, place: String) -> Mark {
        let around = |value: Spread| Interval { mean: value.median, half_width_95: self.half };
        Mark {
            place,
            series: self.scheme.name.to_owned(),
            value: self.value.map(|value| value.median),
            low: self.ends().map(|ends| ends.0),
            high: self.ends().map(|ends| ends.1),
            text: self.value.map_or(MISSING.to_owned(), |value| (self.write)(around(value))),
            brief: self.value.map_or(String::new(), |value| self.written(value.median)),
            interval: match (self.value, self.half) {
                (Some(value), None) if value.runs > 1 => value.range(|end| self.written(end)),
                _ => String::new(),
            },
            ..Mark::default()
        }
    }

    fn number(&self, value: Option<f64>) -> Cell {
        Cell::value(value, |value| self.written(value))
    }

    /// Returns a table cell with one component of the spread over the seeds, such as the median.
    fn part(&self, pick: fn(Spread) -> f64) -> Cell {
        self.number(self.value.map(pick))
    }
}

/// Quantity that the bars show: relative speed, or L2 TLB misses.
struct Quantity {
    key: &'static str,
    title: String,
    caption: &'static str,
    unit: &'static str,
    suffix: &'static str,
    reference: Option<f64>,
}

/// Returns the chart of speeds relative to the reference, or of L2 TLB misses for runs without timing. `None`
/// if there is only one scheme, or more than [`MOST_BARS`].
pub(super) fn figure(comparison: &Comparison<'_>, id: &str) -> Option<Figure> {
    if !(2..=MOST_BARS).contains(&comparison.schemes.len()) {
        return None;
    }
    let (quantity, bars) =
        if comparison.is_timed() { speeds(comparison) } else { misses(comparison) };
    let has_values = bars.iter().any(|bar| bar.value.is_some());
    has_values.then(|| quantity.figure(comparison, id, &bars))
}

fn speeds<'a>(comparison: &'a Comparison<'a>) -> (Quantity, Vec<Bar<'a>>) {
    let reference = comparison.reference;
    let bar = |(index, scheme)| Bar {
        scheme,
        value: comparison.relative(index, reference, |run| run.ipc),
        half: comparison
            .speed(index, reference)
            .filter(|_| index != reference)
            .and_then(|speed| speed.half_width_95),
        write: if index == reference { |one| times(one.mean) } else { format::speed },
    };
    let name = match comparison.reference_name() {
        "4KB" => "4KB pages",
        name => name,
    };
    let quantity = Quantity {
        key: "ipc-to-reference",
        title: format!("Speed relative to {name}"),
        caption: "Instructions per cycle, divided by those of the dashed line. Longer is faster.",
        unit: "×",
        suffix: "×",
        reference: Some(1.0),
    };
    (quantity, comparison.schemes.iter().enumerate().map(bar).collect())
}

fn misses<'a>(comparison: &'a Comparison<'a>) -> (Quantity, Vec<Bar<'a>>) {
    let bar = |scheme: &'a SchemeRuns<'a>| Bar {
        scheme,
        value: scheme.spread(|run| l2_tlb_mpki(comparison.vocabulary, run)),
        half: None,
        write: |one| ratio(one.mean),
    };
    let quantity = Quantity {
        key: "misses",
        title: "Misses of the L2 TLB".into(),
        caption: "Per 1,000 instructions. Shorter is better.",
        unit: "per 1,000 instructions",
        suffix: "",
        reference: None,
    };
    (quantity, comparison.schemes.iter().map(bar).collect())
}

impl Quantity {
    fn figure(self, comparison: &Comparison<'_>, id: &str, bars: &[Bar<'_>]) -> Figure {
        let whiskers = if bars.iter().any(|bar| bar.half.is_some()) {
            " Whiskers: 95 % interval."
        } else if comparison.seeds() > 1 {
            " Whiskers: least to most over the seeds."
        } else {
            ""
        };
        let pitch = (ROOM / bars.len()).clamp(PITCH.0, PITCH.1);
        // A bar whose name takes two lines needs room for both.
        let place = |bar: &Bar<'_>| match pitch < 28 {
            true => bar.scheme.name.to_owned(),
            false => broken(bar.scheme.name),
        };
        let series = |bar: &Bar<'_>| Series {
            label: bar.scheme.name.to_owned(),
            colour: bar.scheme.colour,
            ..Series::default()
        };
        let mut chart = Bars {
            series: bars.iter().map(series).collect(),
            places: bars.iter().map(place).collect(),
            marks: bars.iter().map(|bar| bar.mark(place(bar))).collect(),
            value: Axis { label: "", suffix: self.suffix },
            place: "scheme",
            reference: self.reference,
            ..Bars::default()
        }
        .spec();
        chart["height"] = (pitch * bars.len()).into();
        chart["usermeta"]["widest"] = 1090.into();
        let heading = |name| Heading::with_unit(name, self.unit);
        let data = Grid::of(
            bars,
            [
                ("scheme".into(), &|bar| Cell::scheme(bar.scheme.name, bar.scheme.colour)),
                (heading("median"), &|bar| bar.part(|value| value.median)),
                (heading("± 95 %"), &|bar| bar.number(bar.half)),
                (heading("least"), &|bar| bar.part(|value| value.least)),
                (heading("most"), &|bar| bar.part(|value| value.most)),
            ],
        );
        Figure {
            id: format!("{id}-{}", self.key),
            name: format!("{} {}", comparison.workload, self.title),
            caption: format!("{}{whiskers}", self.caption),
            chart,
            data,
            title: self.title,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::comparisons;
    use crate::ids::tests::vocabulary;
    use perforate_records::read_results;

    #[test]
    fn bars_share_the_height_but_are_neither_too_thick_nor_too_thin() {
        let height = |schemes: u64| {
            let line =
                |n| format!(r#"{{"scheme":"s{n}","workload":"w","cycles":{},"ipc":0.5}}"#, 100 + n);
            let lines: Vec<String> = (0..schemes).map(line).collect();
            let results = read_results(&lines.join("\n")).unwrap();
            let vocabulary = vocabulary();
            figure(&comparisons(&results, &vocabulary)[0], "c")
                .map(|one| one.chart["height"].clone())
        };
        assert_eq!(height(1), None);
        assert_eq!(height(2), Some((2 * 44).into()));
        assert_eq!(height(10), Some(400.into()));
        assert_eq!(height(36), Some((36 * 16).into()));
        assert_eq!(height(37), None);
    }
}
