//! Options that were varied between runs, as results record them.

use perforate_records::RunResult;
use serde_json::Value;

/// An option or machine parameter that was varied, with its value in one result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Setting<'a> {
    /// Name of the option, or key of the machine parameter in the machine file.
    pub key: &'a str,
    /// Value of the varied option in the result, as text.
    pub value: &'a str,
    /// Value of the varied option as a number; `None` if it is not a number.
    pub number: Option<f64>,
    /// Unit that follows the number in the option's value; empty for none.
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

/// Options that were varied in a sweep: one, or two for a grid, with their values in one result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Varied<'a> {
    /// First varied option, or the only one, with its value.
    pub first: Setting<'a>,
    /// Second varied option of a grid; `None` if only one option was varied.
    pub second: Option<Setting<'a>>,
}

impl<'a> Varied<'a> {
    /// Returns the options that were varied, with their values in this run; `None` if there are none.
    pub fn of(run: &'a RunResult) -> Option<Self> {
        let varied = run.config.get("varied")?;
        let second = varied.get("second").and_then(Setting::of);
        Some(Self { first: Setting::of(varied)?, second })
    }

    /// Returns the names of the first and the second varied option.
    pub fn keys(&self) -> (&'a str, Option<&'a str>) {
        (self.first.key, self.second.map(|second| second.key))
    }

    /// Returns names and values of the varied options as text.
    pub fn text(&self) -> String {
        let text = |one: &Setting<'_>| format!("{} {}", one.key, one.value);
        let second = self.second.as_ref().map(|second| format!(", {}", text(second)));
        text(&self.first) + &second.unwrap_or_default()
    }
}
