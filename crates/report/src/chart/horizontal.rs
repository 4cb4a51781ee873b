//! What a chart of lines has along its bottom: numbers, powers, or named places.

use super::scale::{Scale, tick_text};
use super::svg::{Anchor, Ink, Svg, fit, length, text_width};
use crate::format::escape;

pub(super) const TICK: f64 = 11.5;
/// Longest name of a place that stands upright.
const LONGEST: f64 = 120.0;
/// Largest value ÷ smallest from which a logarithmic axis tells points apart that a linear one
/// would draw on top of each other.
const LOGARITHMIC: f64 = 30.0;

/// What stands along the horizontal axis.
pub(crate) struct Axis<'a> {
    /// What it shows.
    pub label: &'a str,
    /// Factor and suffix for ticks.
    pub tick: (f64, &'static str),
}

impl Axis<'_> {
    pub(crate) const INSTRUCTIONS: Axis<'static> = Axis { label: "instructions", tick: (1.0, "") };
}

/// Places of values along the axis.
pub(crate) enum Ground {
    /// From 0, or from the smallest value where that is negative or far from 0.
    Number { least: f64, most: f64 },
    /// All places of points, in ascending order, as logarithms.
    Logarithm { places: Vec<f64>, write: fn(f64) -> String },
    /// Names, drawn at 0, 1, 2, …
    Names(Vec<String>),
}

impl Ground {
    /// The ground for points at these places: logarithmic where they span many powers.
    pub fn of_numbers(mut places: Vec<f64>, write: fn(f64) -> String) -> Self {
        places.retain(|place| place.is_finite());
        places.sort_by(f64::total_cmp);
        places.dedup();
        let (first, last) = match places.as_slice() {
            [first, .., last] => (*first, *last),
            _ => {
                let most = places.first().copied().unwrap_or(0.0);
                return Self::Number { least: most.min(0.0), most };
            }
        };
        if first > 0.0 && last / first >= LOGARITHMIC {
            return Self::Logarithm { places, write };
        }
        Self::Number { least: first, most: last }
    }

    pub(super) fn spread(&self, left: f64, right: f64) -> Spread<'_> {
        let scale = match self {
            Self::Number { least, most } if *least < 0.0 || *least > most / 2.0 => {
                Scale::between(*least, *most, 5, left, right - left)
            }
            Self::Number { most, .. } => Scale::new(*most, 5, left, right - left),
            Self::Logarithm { .. } | Self::Names(_) => Scale::new(1.0, 1, left, right - left),
        };
        Spread { ground: self, scale, left, right }
    }
}

/// A ground between two ends.
pub(super) struct Spread<'g> {
    ground: &'g Ground,
    scale: Scale,
    left: f64,
    right: f64,
}

impl Spread<'_> {
    /// Place of a value in chart units.
    pub fn place(&self, x: f64) -> f64 {
        let share = match self.ground {
            Ground::Number { .. } => return self.scale.place(x),
            Ground::Logarithm { places, .. } => {
                let (first, last) = (places[0].ln(), places[places.len() - 1].ln());
                (x.ln() - first) / (last - first)
            }
            // Half a step free at both ends.
            Ground::Names(names) => (x + 0.5) / names.len().max(1) as f64,
        };
        self.left + share.clamp(0.0, 1.0) * (self.right - self.left)
    }

    /// Draws ticks and label below `floor`; returns the height they take.
    pub fn draw(&self, svg: &mut Svg, floor: f64, axis: &Axis<'_>) -> f64 {
        let height = match self.ground {
            Ground::Number { .. } => {
                draw_ticks(svg, &self.scale, floor, axis);
                16.0
            }
            Ground::Logarithm { places, write } => {
                let labels = places.iter().map(|&place| (self.place(place), write(place)));
                draw_level(svg, floor, &labels.collect::<Vec<_>>());
                16.0
            }
            Ground::Names(names) => self.draw_names(svg, floor, names),
        };
        let middle = (self.left + self.right) / 2.0;
        svg.text(middle, floor + height + 16.0, TICK, Anchor::Middle, Ink::Muted, axis.label);
        height + 22.0
    }

    /// Names below their places, upright where one is wider than its room.
    fn draw_names(&self, svg: &mut Svg, floor: f64, names: &[String]) -> f64 {
        let room = (self.right - self.left) / names.len().max(1) as f64;
        let middle = |index: usize| self.place(index as f64);
        if names.iter().all(|name| text_width(name, TICK) + 6.0 <= room) {
            for (index, name) in names.iter().enumerate() {
                svg.tick_label(middle(index), floor + 16.0, TICK, name);
            }
            return 16.0;
        }
        let mut height: f64 = 0.0;
        for (index, name) in names.iter().enumerate() {
            let name = fit(name, TICK, LONGEST);
            height = height.max(text_width(&name, TICK));
            svg.raw(&format!(
                "<text class=\"muted\" transform=\"translate({} {}) rotate(-90)\" font-size=\"{TICK}\" text-anchor=\"end\" fill=\"#5a6570\">{}</text>",
                length(middle(index) + 4.0),
                length(floor + 7.0),
                escape(&name)
            ));
        }
        height + 8.0
    }
}

/// Texts beside each other, leaving out those that would touch the one before.
fn draw_level(svg: &mut Svg, floor: f64, labels: &[(f64, String)]) {
    let mut free_from = f64::NEG_INFINITY;
    for (x, text) in labels {
        let half = text_width(text, TICK) / 2.0;
        svg.line("axis", (*x, floor), (*x, floor + 4.0));
        if x - half < free_from {
            continue;
        }
        svg.tick_label(*x, floor + 16.0, TICK, text);
        free_from = x + half + 8.0;
    }
}

fn draw_ticks(svg: &mut Svg, scale: &Scale, floor: f64, axis: &Axis<'_>) {
    let (factor, suffix) = axis.tick;
    for &tick in &scale.ticks {
        let x = scale.place(tick);
        svg.line("axis", (x, floor), (x, floor + 4.0));
        let text = tick_text(tick * factor, scale.step() * factor, suffix);
        svg.tick_label(x, floor + 16.0, TICK, &text);
    }
}

/// Ticks of a linear scale and what they count, 38 units high.
pub(super) fn draw_axis(svg: &mut Svg, scale: &Scale, floor: f64, axis: &Axis<'_>) {
    draw_ticks(svg, scale, floor, axis);
    let middle = (scale.place(scale.bottom) + scale.place(scale.top)) / 2.0;
    svg.text(middle, floor + 32.0, TICK, Anchor::Middle, Ink::Muted, axis.label);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::compact;

    #[test]
    fn many_powers_are_drawn_as_logarithms() {
        let ground = Ground::of_numbers(vec![4096.0, 64.0, 512.0], compact);
        let spread = ground.spread(0.0, 100.0);
        // 512 lies in the middle of 64 and 4096.
        let places = [64.0, 512.0, 4096.0].map(|x| spread.place(x).round());
        assert_eq!(places, [0.0, 50.0, 100.0]);
        let ground = Ground::of_numbers(vec![0.0, 4096.0], compact);
        assert_eq!(ground.spread(0.0, 100.0).place(1024.0), 25.0, "0 has no logarithm");
    }

    #[test]
    fn names_stand_in_the_middle_of_their_room() {
        let ground = Ground::Names(["a", "b"].map(String::from).to_vec());
        let spread = ground.spread(0.0, 100.0);
        assert_eq!([0.0, 1.0].map(|x| spread.place(x)), [25.0, 75.0]);
    }

    #[test]
    fn labels_that_would_touch_are_left_out() {
        let labels = |places: [f64; 3]| {
            let mut svg = Svg::new();
            draw_level(&mut svg, 0.0, &places.map(|x| (x, "1024".to_owned())));
            svg.finish(10.0, "", "").matches("1024").count()
        };
        assert_eq!(labels([0.0, 100.0, 200.0]), 3);
        assert_eq!(labels([0.0, 10.0, 200.0]), 2);
    }
}
