//! Line charts with intervals, over a linear axis, a logarithmic axis or named places.

use serde_json::{Value, json};

use super::{
    Axis, Mark, Series, are_binary, binary, claimed, colour, labels, legend, number, tooltip,
    visible,
};

/// Dash patterns that distinguish curves without colour: lengths of dashes and gaps in pixels.
const DASHES: [&[u8]; 6] = [&[1, 0], &[7, 3], &[2, 3], &[9, 3, 2, 3], &[4, 2], &[1, 2]];
const SHAPES: [(&str, &str); 7] = [
    ("circle", "●"),
    ("square", "■"),
    ("triangle-up", "▲"),
    ("diamond", "◆"),
    ("triangle-down", "▼"),
    ("cross", "✚"),
    ("triangle-right", "▶"),
];
/// Maximum number of points of a line at which shapes are drawn; more shapes would hide the line.
const MOST_SHAPES: usize = 30;
/// Maximum number of lines with shaded intervals. More would hide each other, so they get whiskers instead.
const MOST_BANDS: usize = 5;
/// Least ratio of the largest to the smallest position for which the axis is logarithmic. On a linear axis,
/// small positions would then coincide.
const LOGARITHMIC: f64 = 30.0;

/// Vertical distance, as a share of the chart's height, below which two curves coincide: about a pixel.
const SAME_PLACE: f64 = 0.005;
/// Length in pixels of a dash with the following gap, for curves that coincide with others.
const GAPS_PIXELS: f64 = 18.0;

/// Horizontal axis of a line chart.
pub(crate) enum Ground {
    /// Linear horizontal axis. It starts at 0, or at the smallest position if that is negative or far from 0.
    Numbers { least: f64, most: f64 },
    /// Logarithmic axis with the distinct positions of all points, at which it has labels.
    Logarithm(Vec<f64>),
    /// Horizontal axis of named places, in their order.
    Names(Vec<String>),
}

impl Ground {
    /// Chooses the axis for points at these positions: logarithmic if the positions cover a wide range, or if
    /// each is a power of two times its predecessor; otherwise linear.
    pub fn of_numbers(mut places: Vec<f64>) -> Self {
        places.retain(|place| place.is_finite());
        places.sort_by(f64::total_cmp);
        places.dedup();
        match places.as_slice() {
            [first, .., last] if *first > 0.0 && last / first >= LOGARITHMIC => {
                Self::Logarithm(places)
            }
            [_, _, ..] if are_doublings(&places) => Self::Logarithm(places),
            [first, .., last] => Self::Numbers { least: *first, most: *last },
            _ => Self::Numbers { least: 0.0, most: places.first().copied().unwrap_or(1.0) },
        }
    }

    /// Returns the Vega-Lite encoding of the axis. If `are_binary`, positions are labelled in units of 1024.
    fn encoding(&self, axis: Axis<'_>, are_binary: bool) -> Value {
        let mut encoding = json!({"field": "x", "type": "quantitative", "title": axis.title(), "axis": axis.spec(60)});
        if are_binary {
            encoding["axis"]["labelExpr"] = binary("datum.value", axis.suffix).into();
        }
        encoding["axis"]["grid"] = false.into();
        match self {
            Self::Numbers { least, most } => {
                let is_from_zero = *least >= 0.0 && *least <= most / 2.0;
                encoding["scale"] = json!({"zero": is_from_zero, "nice": false});
            }
            Self::Logarithm(places) => {
                encoding["scale"] = json!({"type": "log", "nice": false});
                encoding["axis"]["values"] = json!(places);
                encoding["axis"]["labelOverlap"] = "greedy".into();
            }
            Self::Names(names) => {
                encoding = json!({
                    "field": "place", "type": "nominal", "title": axis.title(),
                    "scale": {"domain": names},
                    "axis": {"labelAngle": -90, "labelLimit": 120, "labelOverlap": false, "labelExpr": "replace(datum.value, '\\n', ' ')"},
                });
                let widest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
                if widest * names.len() < 36 {
                    encoding["axis"]["labelAngle"] = 0.into();
                }
            }
        }
        encoding
    }
}

/// True if the positions are powers of two, or three times powers of two, and each is a power of two times
/// its predecessor.
fn are_doublings(places: &[f64]) -> bool {
    let is_power = |ratio: f64| ratio.log2().fract() == 0.0;
    let is_start = |first: f64| is_power(first) || is_power(first / 3.0);
    places.windows(2).all(|pair| is_power(pair[1] / pair[0]))
        && places.first().is_some_and(|&first| first >= 1.0 && is_start(first))
}

/// A line chart with intervals.
pub(crate) struct Lines<'a> {
    pub series: Vec<Series>,
    pub marks: Vec<Mark>,
    pub ground: Ground,
    pub axis: Axis<'a>,
    pub value: Axis<'a>,
    /// Lower and upper end of the vertical axis.
    pub range: (f64, f64),
}

impl Lines<'_> {
    pub fn spec(&self) -> Value {
        let has_names = matches!(self.ground, Ground::Names(_));
        let place = if has_names { "place" } else { "at" };
        let are_binary = are_binary(self.marks.iter().filter_map(|mark| mark.x));
        let written = if are_binary { binary } else { number };
        let at = format!("isValid(datum.x) ? {} : ''", written("datum.x", self.axis.suffix));
        let at = json!({"calculate": at, "as": "at"});
        let value = |field: &str| {
            json!({
                "field": field, "type": "quantitative", "title": self.value.title(), "axis": self.value.sparse(),
                "scale": {"domain": [self.range.0, self.range.1], "zero": false},
            })
        };
        let has_shapes = self.series.iter().all(|one| {
            self.marks.iter().filter(|mark| mark.series == one.label).count() <= MOST_SHAPES
        });
        // Curves are distinguished by point shapes, or by dashes if no point has a shape.
        let (channel, range) = if has_shapes {
            ("shape", json!(self.series.iter().map(|one| shape(one).0).collect::<Vec<_>>()))
        } else {
            ("strokeDash", json!(self.series.iter().map(dash).collect::<Vec<_>>()))
        };
        let sign = |one| {
            if has_shapes { json!({"shape": shape(one).1}) } else { json!({"dash": dash(one)}) }
        };
        let look = json!({"field": "series", "type": "nominal", "scale": {"domain": labels(&self.series), "range": range}});
        let mut line = json!({"y": value("value")});
        if has_shapes && !self.coinciding().is_empty() {
            let dashes: Vec<Value> = self.series.iter().map(|one| self.gaps(one)).collect();
            line["strokeDash"] = json!({"field": "series", "type": "nominal", "scale": {"domain": labels(&self.series), "range": dashes}});
        }
        let mut points = json!({"y": value("value"), "tooltip": tooltip(self.axis.label, place)});
        let looking = if has_shapes { &mut points } else { &mut line };
        looking[channel] = look;
        let is_band = self.series.len() <= MOST_BANDS && !has_names;
        let interval = if is_band {
            json!({"type": "area", "opacity": 0.18})
        } else {
            json!({"type": "rule", "strokeWidth": 1.2})
        };
        let point = json!({
            "type": "point", "filled": true, "size": 44,
            // Shapes that would hide the line are visible only under the pointer.
            "opacity": if has_shapes { 1 } else { 0 },
        });
        let claims = claimed("y", value);
        let has_claims = self.marks.iter().any(|mark| mark.claimed.is_some());
        let claims = claims.into_iter().filter(|_| has_claims);
        let mut layers = vec![
            json!({"transform": [{"filter": "isValid(datum.low)"}], "mark": interval, "encoding": {"y": value("low"), "y2": {"field": "high"}}}),
            json!({"mark": "line", "encoding": line}),
            json!({"transform": [{"filter": "isValid(datum.value)"}], "mark": point, "encoding": points}),
        ];
        layers.extend(claims);
        json!({
            "usermeta": {"legend": legend(&self.series, sign)},
            "data": {"values": self.marks}, "transform": [visible(), at],
            "height": 200,
            "encoding": {"x": self.ground.encoding(self.axis, are_binary), "color": colour(&self.series)},
            "layer": layers,
        })
    }

    /// Returns groups of labels whose curves coincide, so that a reader sees only one curve of each group.
    fn coinciding(&self) -> Vec<Vec<&str>> {
        let height = self.range.1 - self.range.0;
        let mut groups: Vec<Vec<&str>> = Vec::new();
        for label in labels(&self.series) {
            let is_on = |group: &&mut Vec<&str>| are_close(&self.marks, group[0], label, height);
            match groups.iter_mut().find(is_on) {
                Some(group) => group.push(label),
                None => groups.push(vec![label]),
            }
        }
        groups.retain(|group| group.len() > 1);
        groups
    }

    /// Returns a sentence for each group of curves that coincide; empty if there are no such groups.
    pub fn coincidence(&self) -> String {
        let sentence = |group: Vec<&str>| {
            let (last, others) = group.split_last().expect("a group has members");
            format!(" The curves of {} and {last} coincide.", others.join(", "))
        };
        self.coinciding().into_iter().map(sentence).collect()
    }

    /// Returns the dash pattern of a curve. A curve that coincides with others has gaps through which those
    /// drawn earlier are visible.
    fn gaps(&self, series: &Series) -> Value {
        for group in self.coinciding() {
            if let Some(place) = group.iter().position(|label| *label == series.label)
                && place > 0
            {
                let drawn = GAPS_PIXELS * (group.len() - place) as f64 / group.len() as f64;
                return json!([drawn, GAPS_PIXELS - drawn]);
            }
        }
        json!([1, 0])
    }
}

/// True if two curves (given by label) have values at the same positions that are indistinguishable in a
/// chart of this height. `height` is in the unit of the values.
fn are_close(marks: &[Mark], one: &str, other: &str, height: f64) -> bool {
    let values = |label: &str| {
        let own = marks.iter().filter(|mark| mark.series == label);
        own.filter_map(|mark| Some((mark.x, mark.place.clone(), mark.value?))).collect::<Vec<_>>()
    };
    let (one, other) = (values(one), values(other));
    one.len() > 1
        && one.len() == other.len()
        && one
            .iter()
            .zip(&other)
            .all(|(a, b)| (a.0, &a.1) == (b.0, &b.1) && (a.2 - b.2).abs() <= SAME_PLACE * height)
}

/// Returns the name of a curve's point shape in Vega, and a character of this shape for texts.
fn shape(series: &Series) -> (&'static str, &'static str) {
    SHAPES[series.number % SHAPES.len()]
}

fn dash(series: &Series) -> &'static [u8] {
    DASHES[series.number % DASHES.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_powers_are_drawn_as_logarithms() {
        let ground = |places: &[f64]| Ground::of_numbers(places.to_vec());
        assert!(
            matches!(ground(&[4096.0, 64.0, 512.0]), Ground::Logarithm(all) if all == [64.0, 512.0, 4096.0])
        );
        assert!(matches!(ground(&[0.0, 4096.0]), Ground::Numbers { .. }), "0 has no logarithm");
        assert!(matches!(ground(&[10.0, 20.0]), Ground::Numbers { .. }));
        assert!(matches!(ground(&[f64::NAN]), Ground::Numbers { .. }));
    }

    #[test]
    fn doublings_are_drawn_as_logarithms_with_ticks_at_each() {
        let ground = |places: &[f64]| Ground::of_numbers(places.to_vec());
        for doublings in [&[64.0, 128.0, 256.0][..], &[768.0, 1536.0, 3072.0], &[1.0, 4.0, 8.0]] {
            assert!(matches!(ground(doublings), Ground::Logarithm(all) if all == doublings));
        }
        for others in [&[25.0, 50.0, 100.0][..], &[8.0, 16.0, 24.0], &[0.25, 0.5, 1.0], &[7.0]] {
            assert!(matches!(ground(others), Ground::Numbers { .. }), "{others:?}");
        }
    }

    fn lines<'a>(curves: &[(&str, &[f64])], places: &[f64]) -> Lines<'a> {
        let series = |(number, (name, _)): (usize, &(&str, &[f64]))| Series {
            label: (*name).to_owned(),
            colour: "blue",
            number,
            ..Series::default()
        };
        let marks = curves.iter().flat_map(|(name, values)| {
            values.iter().zip(places).map(|(value, x)| Mark {
                x: Some(*x),
                series: (*name).to_owned(),
                value: Some(*value),
                ..Mark::default()
            })
        });
        Lines {
            series: curves.iter().enumerate().map(series).collect(),
            marks: marks.collect(),
            ground: Ground::of_numbers(places.to_vec()),
            axis: Axis { label: "entries", suffix: "" },
            value: Axis { label: "v", suffix: "" },
            range: (0.0, 1.0),
        }
    }

    #[test]
    fn curves_on_each_other_are_all_seen_and_said_to_be() {
        let flat = [0.5, 0.5];
        let near = [0.5, 0.503];
        let curves: [(&str, &[f64]); 4] =
            [("a", &flat), ("b", &[0.5, 0.9]), ("c", &near), ("d", &flat)];
        let chart = lines(&curves, &[64.0, 128.0]);
        assert_eq!(chart.coincidence(), " The curves of a, c and d coincide.");
        let two = lines(&curves[2..], &[64.0, 128.0]);
        assert_eq!(two.coincidence(), " The curves of c and d coincide.");
        let dashes = &chart.spec()["layer"][1]["encoding"]["strokeDash"]["scale"]["range"];
        assert_eq!(*dashes, json!([[1, 0], [1, 0], [12.0, 6.0], [6.0, 12.0]]));
        assert_eq!(lines(&curves[..2], &[64.0, 128.0]).coincidence(), "");
    }

    #[test]
    fn places_of_powers_of_two_are_written_so() {
        let spec = lines(&[("a", &[0.1, 0.2])], &[65_536.0, 131_072.0]).spec();
        let label = spec["encoding"]["x"]["axis"]["labelExpr"].as_str().unwrap();
        assert!(label.contains("/ 1024, '.4~r') + 'k'"), "{label}");
        assert_eq!(spec["encoding"]["x"]["axis"]["values"], json!([65_536.0, 131_072.0]));
        let spec = lines(&[("a", &[0.1, 0.2])], &[64_000.0, 128_000.0]).spec();
        let label = spec["encoding"]["x"]["axis"]["labelExpr"].as_str().unwrap();
        assert!(label.contains("'.3~s'"), "{label}");
    }

    #[test]
    fn an_axis_is_logarithmic_from_a_factor_of_30_on() {
        let ground = |places: &[f64]| Ground::of_numbers(places.to_vec());
        assert!(matches!(ground(&[10.0, 300.0]), Ground::Logarithm(_)));
        assert!(matches!(ground(&[10.0, 299.0]), Ground::Numbers { least: 10.0, most: 299.0 }));
        assert!(matches!(ground(&[5.0, 5.0]), Ground::Numbers { least: 0.0, most: 5.0 }));
        assert!(matches!(ground(&[]), Ground::Numbers { least: 0.0, most: 1.0 }));
        let zero = |least: f64, most: f64| {
            let ground = Ground::Numbers { least, most };
            ground.encoding(Axis::default(), false)["scale"]["zero"].clone()
        };
        assert_eq!(
            [zero(5.0, 10.0), zero(5.1, 10.0), zero(-1.0, 10.0), zero(0.0, 0.0)],
            [true, false, false, true]
        );
        // Names side by side if they are short: widest × count below 36.
        let angle = |count: usize, length: usize| {
            let ground = Ground::Names(vec!["x".repeat(length); count]);
            ground.encoding(Axis::default(), false)["axis"]["labelAngle"].clone()
        };
        assert_eq!([angle(5, 7), angle(6, 6), angle(36, 1), angle(35, 1)], [0, -90, -90, 0]);
    }

    /// Shapes for up to 30 points of each curve, shaded intervals for up to five curves over numbers.
    #[test]
    fn many_points_have_no_shapes_and_many_curves_no_bands() {
        let spec = |curves: usize, points: usize| {
            let places: Vec<f64> = (0..points).map(|place| place as f64).collect();
            let names = ["a", "b", "c", "d", "e", "f"];
            let values: Vec<Vec<f64>> =
                (0..curves).map(|curve| vec![curve as f64; points]).collect();
            let curves: Vec<(&str, &[f64])> = names
                .iter()
                .zip(&values)
                .map(|(name, values)| (*name, values.as_slice()))
                .collect();
            lines(&curves, &places).spec()
        };
        let opacity = |spec: &Value| spec["layer"][2]["mark"]["opacity"].clone();
        assert_eq!((opacity(&spec(2, 30)), opacity(&spec(2, 31))), (json!(1), json!(0)));
        assert!(spec(2, 30)["layer"][2]["encoding"]["shape"].is_object());
        let long = spec(2, 31);
        assert!(long["layer"][2]["encoding"]["shape"].is_null());
        assert!(long["layer"][1]["encoding"]["strokeDash"].is_object());
        assert!(long["usermeta"]["legend"][1]["sign"]["dash"].is_array());
        let interval = |curves: usize| spec(curves, 3)["layer"][0]["mark"]["type"].clone();
        assert_eq!((interval(5), interval(6)), (json!("area"), json!("rule")));
        assert_eq!(spec(2, 3)["layer"].as_array().unwrap().len(), 3, "nothing is published");
    }

    #[test]
    fn curves_coincide_within_half_a_percent_of_the_height() {
        let together = |other: &[f64], places: &[f64]| {
            let chart = lines(&[("a", &[0.5, 0.5]), ("b", other)], places);
            !chart.coincidence().is_empty()
        };
        assert!(together(&[0.5049, 0.4951], &[1.0, 2.0]) && !together(&[0.5, 0.5051], &[1.0, 2.0]));
        assert!(!together(&[0.4949, 0.5], &[1.0, 2.0]) && !together(&[0.5], &[1.0, 2.0]));
        assert!(!together(&[0.5, 0.5], &[1.0]), "a point is no curve");
    }
}
