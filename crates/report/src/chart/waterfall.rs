//! Waterfall charts: from the total of one scheme to that of another, with a bar for each
//! component's difference. The reader chooses the two schemes on the page.

use serde_json::{Value, json};

use super::{Axis, filled};

/// Vertical distance in pixels from one bar to the next.
const PITCH: usize = 26;

/// One end of a waterfall: a scheme with the values of its components.
pub(crate) struct Side {
    pub name: String,
    /// Values of the scheme's components, in the order of the waterfall.
    pub parts: Vec<f64>,
    /// Text of the total that contains the components, such as all cycles per memory access.
    pub whole: String,
}

/// A waterfall chart of the differences between two schemes' cycles per memory access, by component.
pub(crate) struct Waterfall<'a> {
    pub parts: Vec<String>,
    pub sides: Vec<Side>,
    /// Index of the scheme from which the waterfall starts until a reader chooses another; `to` is the index
    /// of the scheme at which it ends.
    pub from: usize,
    pub to: usize,
    pub value: Axis<'a>,
    /// Label of the total `whole` of each scheme, such as `All time`; `unit` is its unit.
    pub whole: &'a str,
    pub unit: &'a str,
}

/// Kinds of the two bars for the totals: at the top and at the bottom.
const ENDS: [&str; 2] = ["start", "end"];

impl Waterfall<'_> {
    /// Returns the chart's data: all components and totals of each scheme.
    fn values(&self) -> Vec<Value> {
        let last = self.parts.len() + 1;
        let value = |side: &Side, number: usize, kind: &str, part: &str, value: f64| json!({"scheme": side.name, "number": number, "kind": kind, "part": part, "value": value});
        let of_side = |side: &Side| {
            let parts = self.parts.iter().zip(&side.parts).enumerate();
            let mut values: Vec<Value> = parts
                .map(|(index, (part, &share))| value(side, index + 1, "part", part, share))
                .collect();
            let sum = side.parts.iter().sum();
            values.extend(
                [0, last].iter().zip(ENDS).map(|(&at, kind)| value(side, at, kind, "", sum)),
            );
            values
        };
        self.sides.iter().flat_map(of_side).collect()
    }

    /// Returns the Vega number format of the chart. All numbers have equally many decimals, so that a reader
    /// can add them up.
    fn form(&self) -> &'static str {
        let sums = self.sides.iter().map(|side| side.parts.iter().sum::<f64>());
        match sums.fold(0.0, f64::max) {
            most if most >= 1e6 => ".3s",
            most if most >= 100.0 => ",.1f",
            most if most >= 10.0 => ".2f",
            most if most >= 0.1 => ".3f",
            _ => ".2~e",
        }
    }

    pub fn spec(&self) -> Value {
        let names: Vec<&str> = self.sides.iter().map(|side| side.name.as_str()).collect();
        let wholes: Value =
            self.sides.iter().map(|side| (side.name.clone(), json!(side.whole))).collect();
        let y = json!({
            "field": "number", "type": "ordinal", "title": null, "scale": {"paddingInner": 0.28, "paddingOuter": 0.14},
            "axis": {
                // Bars are identified by numbers, which keep the order; the axis shows their names.
                "labelExpr": format!("datum.value === 0 ? from : datum.value === {} ? to : parts[datum.value - 1]", self.parts.len() + 1),
                "labelColor": "var(--ink)", "labelFontSize": 12.5, "labelLimit": 180, "labelOverlap": false, "ticks": false, "domain": false,
            },
        });
        let mut top = y.clone();
        top["bandPosition"] = 0.0.into();
        let x = |field: &str| {
            let mut axis = self.value.spec(190);
            axis["grid"] = true.into();
            json!({"field": field, "type": "quantitative", "title": self.value.title(), "axis": axis, "scale": {"zero": true}})
        };
        let template = include_str!("spec/waterfall.json").replace("FORM", self.form());
        filled(
            &template.replace("WHOLE", self.whole).replace("UNIT", self.unit),
            &[
                ("$names", json!(names)),
                ("$from", names[self.from].into()),
                ("$to", names[self.to].into()),
                ("$values", self.values().into()),
                ("$parts", json!(self.parts)),
                ("$wholes", wholes),
                ("$height", (PITCH * (self.parts.len() + 2)).into()),
                ("$y", y),
                ("$y top", top),
                ("$x start", x("start")),
                ("$x end", x("end")),
                ("$x right", x("right")),
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The larger of the two sums decides, on both sides of each threshold.
    #[test]
    fn numbers_have_about_three_digits() {
        let form = |sums: [[f64; 2]; 2]| {
            let side = |parts: [f64; 2]| Side {
                name: String::new(),
                parts: parts.to_vec(),
                whole: String::new(),
            };
            let waterfall = Waterfall {
                parts: vec![String::new(); 2],
                sides: sums.map(side).into(),
                from: 0,
                to: 1,
                value: Axis { label: "", suffix: "" },
                whole: "",
                unit: "",
            };
            waterfall.form()
        };
        for (sum, below, from) in [
            (1e6, ",.1f", ".3s"),
            (100.0, ".2f", ",.1f"),
            (10.0, ".3f", ".2f"),
            (0.125, ".3f", ".3f"),
            (0.1, ".2~e", ".3f"),
        ] {
            assert_eq!(form([[sum / 2.0, sum / 2.0], [0.0, 0.0]]), from, "{sum}");
            assert_eq!(form([[0.0, 0.0], [sum / 2.0, sum * 0.499]]), below, "below {sum}");
        }
        assert_eq!(form([[0.0, 0.0], [0.0, 0.0]]), ".2~e");
    }
}
