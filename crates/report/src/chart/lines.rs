//! Lines over numbers, powers or named places, with intervals.

use serde_json::{Value, json};

use super::{Axis, Mark, Series, claimed, colour, labels, legend, number, tooltip, visible};

/// Dashes and shapes that tell curves apart without their colours.
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
/// Points of a line beyond which shapes would hide it.
const MOST_SHAPES: usize = 30;
/// Lines beyond which bands would hide each other; these have whiskers.
const MOST_BANDS: usize = 5;
/// Largest value ÷ smallest from which a logarithmic axis tells points apart that a linear one
/// would draw on top of each other.
const LOGARITHMIC: f64 = 30.0;

/// What stands along the horizontal axis.
pub(crate) enum Ground {
    /// From 0, or from the smallest value where that is negative or far from 0.
    Numbers { least: f64, most: f64 },
    /// All places of points.
    Logarithm(Vec<f64>),
    /// Names.
    Names(Vec<String>),
}

impl Ground {
    /// The ground for points at these places: logarithmic where they span many powers.
    pub fn of_numbers(mut places: Vec<f64>) -> Self {
        places.retain(|place| place.is_finite());
        places.sort_by(f64::total_cmp);
        places.dedup();
        match places.as_slice() {
            [first, .., last] if *first > 0.0 && last / first >= LOGARITHMIC => {
                Self::Logarithm(places)
            }
            [first, .., last] => Self::Numbers { least: *first, most: *last },
            _ => Self::Numbers { least: 0.0, most: places.first().copied().unwrap_or(1.0) },
        }
    }

    fn encoding(&self, axis: Axis<'_>) -> Value {
        let mut encoding = json!({"field": "x", "type": "quantitative", "title": axis.title(), "axis": axis.spec(60)});
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

/// A chart of lines.
pub(crate) struct Lines<'a> {
    pub series: Vec<Series>,
    pub marks: Vec<Mark>,
    pub ground: Ground,
    pub axis: Axis<'a>,
    pub value: Axis<'a>,
    /// Smallest and largest value of the vertical axis.
    pub range: (f64, f64),
}

impl Lines<'_> {
    pub fn spec(&self) -> Value {
        let has_names = matches!(self.ground, Ground::Names(_));
        let place = if has_names { "place" } else { "at" };
        let at = format!("isValid(datum.x) ? {} : ''", number("datum.x", self.axis.suffix));
        let at = json!({"calculate": at, "as": "at"});
        let value = |field: &str| {
            json!({
                "field": field, "type": "quantitative", "title": self.value.title(), "axis": self.value.upright(),
                "scale": {"domain": [self.range.0, self.range.1], "zero": false},
            })
        };
        let has_shapes = self.series.iter().all(|one| {
            self.marks.iter().filter(|mark| mark.series == one.label).count() <= MOST_SHAPES
        });
        // Shapes tell curves apart, or dashes where no point has a shape.
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
            // Seen at the pointer only, where they would hide the line.
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
            "encoding": {"x": self.ground.encoding(self.axis), "color": colour(&self.series)},
            "layer": layers,
        })
    }
}

/// Name of a curve's shape, and the letter for it.
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
}
