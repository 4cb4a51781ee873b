//! A linear scale with round ticks.

/// Maps values from `bottom` to `top` to chart units.
pub(crate) struct Scale {
    /// Smallest value on the axis; 0 unless it was asked for another.
    pub bottom: f64,
    /// Largest value on the axis.
    pub top: f64,
    /// Values with a tick, from the smallest up.
    pub ticks: Vec<f64>,
    origin: f64,
    span: f64,
}

impl Scale {
    /// A scale that ends at `most`, with about `wanted` round ticks, from `origin` over `span`
    /// units.
    pub fn new(most: f64, wanted: usize, origin: f64, span: f64) -> Self {
        let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
        let step = nice_step(most, wanted);
        let count = (most / step + 1e-9).clamp(0.0, 20.0) as usize;
        let ticks = (0..=count).map(|index| index as f64 * step).collect();
        Self { bottom: 0.0, top: most, ticks, origin, span }
    }

    /// A scale that need not start at 0: from `least` or below to `most` or above, ending on ticks
    /// where it does not end at 0.
    pub fn between(least: f64, most: f64, wanted: usize, origin: f64, span: f64) -> Self {
        if !(least.is_finite() && most.is_finite() && (least < 0.0 || least > 0.0 && least < most))
            || !(most - least).is_normal()
        {
            return Self::new(most, wanted, origin, span);
        }
        let most = if least < 0.0 { most.max(0.0) } else { most };
        let step = nice_step(most - least, wanted);
        let first = (least / step + 1e-9).floor();
        let last = (most / step - 1e-9).ceil().max(first + 1.0);
        // Steps too small for the values' digits leave a scale from 0.
        if !((first - last).abs() <= 20.0 && first.abs() < 1e9) {
            return Self::new(most, wanted, origin, span);
        }
        let ticks = (0..=(last - first) as usize).map(|index| (first + index as f64) * step);
        Self { bottom: first * step, top: last * step, ticks: ticks.collect(), origin, span }
    }

    /// Distance of neighbouring ticks.
    pub fn step(&self) -> f64 {
        match self.ticks.as_slice() {
            [first, second, ..] => second - first,
            _ => 1.0,
        }
    }

    /// The same values from `origin` over `span` units.
    pub fn place(&self, value: f64) -> f64 {
        self.origin + self.units(value)
    }

    /// Distance of a value from the bottom in chart units.
    pub fn units(&self, value: f64) -> f64 {
        ((value - self.bottom) / (self.top - self.bottom)).clamp(0.0, 1.0) * self.span
    }
}

/// 1, 2 or 5 times a power of ten, so that about `wanted` steps reach `most`.
fn nice_step(most: f64, wanted: usize) -> f64 {
    // Outside this range steps would underflow or overflow; such values are not figures.
    let most = if most.is_finite() { most.clamp(0.0, 1e280) } else { 0.0 };
    let most = if most < 1e-280 { 1.0 } else { most };
    let rough = most / wanted.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough * 0.999);
    factor.unwrap_or(10.0) * power
}

/// A tick's value as short as its step allows.
pub(crate) fn tick_text(value: f64, step: f64, suffix: &str) -> String {
    let decimals = if step >= 1.0 || step <= 0.0 {
        0
    } else {
        (-step.log10()).ceil().clamp(0.0, 9.0) as usize
    };
    let (value, prefix, unit) = match step {
        step if step >= 1e9 => (value / 1e9, 1e9, "G"),
        step if step >= 1e6 => (value / 1e6, 1e6, "M"),
        step if step >= 1e4 => (value / 1e3, 1e3, "k"),
        _ => (value, 1.0, ""),
    };
    match value.abs() {
        0.0 => format!("0{suffix}"),
        size if size < 1e6 => format!("{value:.decimals$}{unit}{suffix}"),
        // Larger than anything has a prefix for; ticks have one digit or two.
        _ => format!("{:.1e}{suffix}", value * prefix),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside_the_data() {
        // 1.62 in about four steps: step 0.5, up to 1.5.
        assert_eq!(Scale::new(1.62, 4, 0.0, 100.0).ticks, [0.0, 0.5, 1.0, 1.5]);
        assert_eq!(Scale::new(100.0, 4, 0.0, 100.0).ticks, [0.0, 50.0, 100.0]);
        assert_eq!(Scale::new(1536.0, 3, 0.0, 100.0).ticks, [0.0, 1000.0]);
        // Half of the largest value stands in the middle.
        assert_eq!(Scale::new(1.62, 4, 10.0, 100.0).place(0.81), 60.0);
    }

    #[test]
    fn a_scale_may_start_below_or_above_zero() {
        // From -31.2 to 59.4 in about four steps: 50 (23 rounded up), ends on ticks.
        let scale = Scale::between(-31.2, 59.4, 4, 0.0, 150.0);
        assert_eq!(scale.ticks, [-50.0, 0.0, 50.0, 100.0]);
        assert_eq!(scale.place(0.0), 50.0);
        let scale = Scale::between(93.2, 99.9, 4, 0.0, 100.0);
        assert_eq!((scale.bottom, scale.top), (92.0, 100.0));
        // All negative values have 0 at the end.
        assert_eq!(Scale::between(-3.0, -1.0, 3, 0.0, 1.0).top, 0.0);
        assert_eq!(Scale::between(0.0, 1.0, 4, 0.0, 100.0).bottom, 0.0);
    }

    #[test]
    fn odd_values_leave_the_scale_usable() {
        for most in [1e-300, 1e-9, 0.3, 7.0, 1e18, 1e300, f64::NAN, f64::INFINITY, 0.0, -4.0] {
            let scale = Scale::new(most, 4, 10.0, 200.0);
            assert!(scale.ticks.len() <= 21 && scale.top > 0.0, "{most}: {:?}", scale.ticks);
            assert!(scale.place(most).is_finite() || most.is_nan());
            for least in [-1e308, -1.0, 1e-300, 0.999_999_999_999 * most, f64::NAN] {
                let scale = Scale::between(least, most, 4, 10.0, 200.0);
                assert!(scale.ticks.len() <= 22 && scale.top > scale.bottom, "{least} to {most}");
                assert!(scale.place(0.0).is_finite());
            }
        }
    }

    #[test]
    fn tick_texts() {
        assert_eq!(tick_text(1.5, 0.5, "×"), "1.5×");
        assert_eq!(tick_text(0.0, 0.5, ""), "0");
        assert_eq!(tick_text(40_000_000.0, 20_000_000.0, ""), "40M");
        assert_eq!(tick_text(0.25, 0.05, ""), "0.25");
        assert_eq!(tick_text(1.5e300, 5e299, " B"), "1.5e300 B");
    }
}
