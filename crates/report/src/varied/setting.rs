//! Options that were varied, as results record them.

use perforate_records::RunResult;
use serde_json::Value;

/// One option or machine parameter, with its value in a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Setting<'a> {
    /// Name of the option, or key of the machine parameter.
    pub key: &'a str,
    /// Value of the option in the result.
    pub value: &'a str,
    /// The value as a number, if it is one.
    pub number: Option<f64>,
    /// Unit that follows the number.
    pub unit: &'a str,
}

impl<'a> Setting<'a> {
    fn of(varied: &'a Value) -> Option<Self> {
        let text = |name: &str| varied.get(name).and_then(Value::as_str);
        let number = varied.get("number").and_then(Value::as_f64);
        let unit = text("unit").unwrap_or_default();
        Some(Self { key: text("key")?, value: text("value")?, number, unit })
    }
}

/// Options that were varied: one, or two for a grid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Varied<'a> {
    /// First option, or the only one.
    pub first: Setting<'a>,
    /// Second option of a grid; `None` if only one was varied.
    pub second: Option<Setting<'a>>,
}

impl<'a> Varied<'a> {
    /// Returns the options of a run; `None` if none were varied.
    pub fn of(run: &'a RunResult) -> Option<Self> {
        let varied = run.config.get("varied")?;
        let second = varied.get("second").and_then(Setting::of);
        Some(Self { first: Setting::of(varied)?, second })
    }

    /// Keys of the options.
    pub fn keys(&self) -> (&'a str, Option<&'a str>) {
        (self.first.key, self.second.map(|second| second.key))
    }

    /// Writes keys and values.
    pub fn text(&self) -> String {
        let text = |one: &Setting<'_>| format!("{} {}", one.key, one.value);
        let second = self.second.as_ref().map(|second| format!(", {}", text(second)));
        text(&self.first) + &second.unwrap_or_default()
    }
}
