//! Horizontal bars in groups: a group for each place, a bar for each curve.

use super::WIDTH;
use super::bars::{draw_axis, draw_label, label_room};
use super::legend;
use super::marker::Look;
use super::scale::Scale;
use super::svg::{Anchor, Ink, Svg, length, text_width};
use crate::format::{MISSING, escape};

/// Font size of values at the ends of bars.
const VALUE: f64 = 10.5;
/// Least height of a group, so that its name has room for two lines.
const LEAST_GROUP: f64 = 28.0;
/// Space between groups.
const GAP: f64 = 8.0;

/// What the bars with one number in their groups belong to.
pub(crate) struct GroupSeries {
    /// Name by which the legend switches it.
    pub key: String,
    pub label: String,
    pub look: Look,
}

/// The bars of one place.
pub(crate) struct Group {
    pub label: String,
    /// One for each series.
    pub bars: Vec<Option<GroupBar>>,
}

/// One bar.
pub(crate) struct GroupBar {
    pub value: f64,
    /// Least and greatest.
    pub interval: Option<(f64, f64)>,
    /// What a reader sees when pointing at it.
    pub tip: String,
}

/// A chart of grouped bars.
pub(crate) struct Grouped<'a> {
    pub title: &'a str,
    pub series: Vec<GroupSeries>,
    pub groups: Vec<Group>,
    /// How a value is written.
    pub format: fn(f64) -> String,
    /// Suffix of ticks.
    pub suffix: &'static str,
    /// What the values are; nothing is written where it is empty.
    pub value_label: &'a str,
}

impl Grouped<'_> {
    /// The chart as SVG.
    pub fn svg(&self) -> String {
        let mut svg = Svg::new();
        let mut top = if self.series.len() > 1 { self.draw_legend(&mut svg) } else { 0.0 };
        if !self.value_label.is_empty() {
            top += super::draw_value_label(&mut svg, top + 4.0, self.value_label);
        }
        let left = label_room(self.groups.iter().map(|group| group.label.as_str()));
        let (least, most) = self.range();
        let scale = Scale::between(least, most, 4, left, WIDTH - left - self.value_room());
        let bottom = top + 4.0 + self.groups.len() as f64 * (self.group_height() + GAP);
        let axis = draw_axis(&mut svg, &scale, top, bottom, (1.0, self.suffix));
        for (index, group) in self.groups.iter().enumerate() {
            let top = top + 4.0 + GAP / 2.0 + index as f64 * (self.group_height() + GAP);
            self.draw_group(&mut svg, group, &scale, left, top);
        }
        svg.finish(bottom + axis, self.title, "")
    }

    /// Distance of neighbouring bars.
    fn pitch(&self) -> f64 {
        match self.series.len() {
            0..=2 => 15.0,
            3..=5 => 12.0,
            6..=10 => 9.0,
            _ => 7.0,
        }
    }

    /// Whether bars are far enough apart for their values.
    fn has_values(&self) -> bool {
        self.pitch() >= 12.0
    }

    fn group_height(&self) -> f64 {
        (self.pitch() * self.series.len() as f64).max(LEAST_GROUP)
    }

    fn bars(&self) -> impl Iterator<Item = &GroupBar> {
        self.groups.iter().flat_map(|group| group.bars.iter().flatten())
    }

    fn value_room(&self) -> f64 {
        if !self.has_values() {
            return 18.0;
        }
        let texts = self.bars().map(|bar| text_width(&(self.format)(bar.value), VALUE));
        texts.fold(20.0, f64::max) + 14.0
    }

    /// Least and greatest of all ends of bars and whiskers, 0 among them.
    fn range(&self) -> (f64, f64) {
        let ends = self.bars().flat_map(|bar| {
            let (low, high) = bar.interval.unwrap_or((bar.value, bar.value));
            [bar.value, low, high]
        });
        let ends = ends.filter(|end| end.is_finite());
        ends.fold((0.0, 0.0), |(least, most): (f64, f64), end| (least.min(end), most.max(end)))
    }

    fn draw_group(&self, svg: &mut Svg, group: &Group, scale: &Scale, left: f64, top: f64) {
        draw_label(svg, &group.label, left, top + self.group_height() / 2.0);
        let first = top + (self.group_height() - self.pitch() * self.series.len() as f64) / 2.0;
        for (index, (series, bar)) in self.series.iter().zip(&group.bars).enumerate() {
            let middle = first + self.pitch() * (index as f64 + 0.5);
            svg.raw(&format!("<g data-series=\"{}\">", escape(&series.key)));
            match bar {
                Some(bar) => self.draw_bar(svg, series.look, bar, scale, middle),
                None if self.has_values() => svg.text(
                    scale.place(0.0) + 6.0,
                    middle + 3.7,
                    VALUE,
                    Anchor::Start,
                    Ink::Muted,
                    MISSING,
                ),
                None => {}
            }
            svg.raw("</g>");
        }
    }

    fn draw_bar(&self, svg: &mut Svg, look: Look, bar: &GroupBar, scale: &Scale, middle: f64) {
        let thickness = self.pitch() - 2.0;
        let (zero, end) = (scale.place(0.0), scale.place(bar.value));
        svg.raw(&format!(
            "<rect {} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"1\"><title>{}</title></rect>",
            look.fill(),
            length(zero.min(end)),
            length(middle - thickness / 2.0),
            // A value of 0 can be pointed at, too.
            length((end - zero).abs().max(1.0)),
            length(thickness),
            escape(&bar.tip)
        ));
        let mut right = end.max(zero);
        if let Some((low, high)) = bar.interval {
            let (from, to) = (scale.place(low), scale.place(high));
            let half = thickness / 2.0 - 1.0;
            svg.line("whisker", (from, middle), (to, middle));
            for x in [from, to] {
                svg.line("whisker", (x, middle - half), (x, middle + half));
            }
            right = right.max(to);
        }
        if self.has_values() {
            let text = (self.format)(bar.value);
            svg.text(right + 6.0, middle + 3.7, VALUE, Anchor::Start, Ink::Value, &text);
        }
    }

    /// A piece of each bar with its name, in the order of the bars; returns the height.
    fn draw_legend(&self, svg: &mut Svg) -> f64 {
        let items = self.series.iter().map(|one| (one.key.as_str(), one.label.as_str()));
        legend::draw_items(svg, items, legend::SQUARE, |svg, index, place| {
            legend::draw_square(svg, &self.series[index].look.fill(), place);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(values: &[Option<f64>]) -> String {
        let bar = |value: &Option<f64>| {
            value.map(|value| GroupBar { value, interval: None, tip: format!("tip {value}") })
        };
        let look = Look { colour: "series0", number: 0, round: 0 };
        let series = |index: usize| GroupSeries {
            key: index.to_string(),
            label: format!("curve {index}"),
            look,
        };
        Grouped {
            title: "t",
            series: (0..values.len()).map(series).collect(),
            groups: vec![Group { label: "place".into(), bars: values.iter().map(bar).collect() }],
            format: crate::format::ratio,
            suffix: "",
            value_label: "",
        }
        .svg()
    }

    #[test]
    fn negative_values_go_left_from_zero() {
        let svg = chart(&[Some(2.0), Some(-2.0)]);
        let bars: Vec<Vec<f64>> = svg
            .split("<rect ")
            .filter(|piece| piece.contains("<title>"))
            .map(|piece| {
                let number = |name: &str| -> f64 {
                    let from = piece.find(name).unwrap() + name.len();
                    piece[from..].split('"').next().unwrap().parse().unwrap()
                };
                vec![number(" x=\""), number(" width=\"")]
            })
            .collect();
        // Places are rounded to hundredths.
        assert!((bars[0][1] - bars[1][1]).abs() < 0.02, "as long");
        assert!((bars[1][0] + bars[1][1] - bars[0][0]).abs() < 0.02, "on both sides of zero");
    }

    #[test]
    fn a_missing_value_is_said_and_a_zero_can_be_pointed_at() {
        let svg = chart(&[None, Some(0.0)]);
        assert_eq!(svg.matches(MISSING).count(), 1);
        assert!(svg.contains("width=\"1\"") && svg.contains("tip 0"));
    }
}
