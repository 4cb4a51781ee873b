//! Bars of speed relative to 4KB pages.

use perforate_results::Interval;

use crate::chart::{Axis, Bars, Mark, Series, broken};
use crate::comparison::{Comparison, SchemeRuns, Spread};
use crate::format::{self, MISSING, times};
use crate::html::{Cell, Figure, Grid, Heading};

/// Most schemes whose speed is drawn as bars where matrices show it too.
const MOST_BARS: usize = 12;

/// The bar of a scheme.
struct Bar<'a> {
    scheme: &'a SchemeRuns<'a>,
    /// Over the seeds.
    speed: Option<Spread>,
    /// Half of the 95 % interval.
    half: Option<f64>,
}

impl Bar<'_> {
    /// Ends of the interval, or of the range over the seeds.
    fn ends(&self) -> Option<(f64, f64)> {
        let speed = self.speed?;
        match self.half {
            Some(half) => Some((speed.median - half, speed.median + half)),
            None => (speed.runs > 1).then_some((speed.least, speed.most)),
        }
    }

    fn mark(&self) -> Mark {
        let around = |speed: Spread| Interval { mean: speed.median, half_width_95: self.half };
        Mark {
            place: broken(self.scheme.name),
            series: self.scheme.name.to_owned(),
            value: self.speed.map(|speed| speed.median),
            low: self.ends().map(|ends| ends.0),
            high: self.ends().map(|ends| ends.1),
            text: self.speed.map_or(MISSING.to_owned(), |speed| times(speed.median)),
            interval: match (self.speed, self.half) {
                (Some(speed), Some(_)) => format::relative_speed(around(speed)),
                (Some(speed), None) if speed.runs > 1 => speed.range(times),
                _ => String::new(),
            },
            ..Mark::default()
        }
    }

    fn row(&self) -> Vec<Cell> {
        let part = |pick: fn(Spread) -> f64| Cell::value(self.speed.map(pick), times);
        vec![
            Cell::scheme(self.scheme.name, self.scheme.colour),
            part(|speed| speed.median),
            Cell::value(self.half, times),
            part(|speed| speed.least),
            part(|speed| speed.most),
        ]
    }
}

/// Speed relative to the reference, where there is something to compare and matrices do not show it
/// better.
pub(super) fn figure(comparison: &Comparison<'_>, id: &str) -> Option<Figure> {
    let count = comparison.schemes.len();
    let has_pairs = comparison.schemes.iter().any(|scheme| scheme.pair().is_some());
    if !comparison.is_timed() || count < 2 || has_pairs && count > MOST_BARS {
        return None;
    }
    let reference = comparison.reference;
    let bar = |(index, scheme)| Bar {
        scheme,
        speed: comparison.relative_ipc(index, reference),
        half: comparison
            .speed(index, reference)
            .filter(|_| index != reference)
            .and_then(|speed| speed.half_width_95),
    };
    let bars: Vec<Bar<'_>> = comparison.schemes.iter().enumerate().map(bar).collect();
    let title = format!("IPC relative to {}", comparison.reference_name());
    let whiskers = if bars.iter().any(|bar| bar.half.is_some()) {
        " Whiskers: 95 % interval."
    } else if comparison.seeds() > 1 {
        " Whiskers: least to most over the seeds."
    } else {
        ""
    };
    let series = |bar: &Bar<'_>| Series {
        label: bar.scheme.name.to_owned(),
        colour: bar.scheme.colour,
        ..Series::default()
    };
    let chart = Bars {
        series: bars.iter().map(series).collect(),
        places: bars.iter().map(|bar| broken(bar.scheme.name)).collect(),
        marks: bars.iter().map(Bar::mark).collect(),
        is_grouped: false,
        value: Axis { label: "", suffix: "×" },
        range: None,
        place: "scheme",
        reference: Some(1.0),
    };
    let head = ["median", "± 95 %", "least", "most"].map(|name| Heading::with_unit(name, "×"));
    Some(Figure {
        id: format!("{id}-ipc-to-reference"),
        name: format!("{} {title}", comparison.workload),
        caption: format!(
            "Instructions per cycle, divided by those of the dashed line. Longer is faster.{whiskers}"
        ),
        chart: chart.spec(),
        data: Grid {
            head: std::iter::once("scheme".into()).chain(head).collect(),
            rows: bars.iter().map(Bar::row).collect(),
        },
        title,
    })
}
