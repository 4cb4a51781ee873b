//! States and curves.

use perforate_records::Show;
use serde::{Deserialize, Serialize};

use super::{Texts, texts::texts};

/// Settings with a name, on top of those of all states.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Name that formulas use after `@`.
    pub name: String,
    /// The settings; an empty text takes away one of all states.
    #[serde(flatten, deserialize_with = "texts")]
    pub settings: Texts,
}

/// A formula over the axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// Name that charts and claims use.
    pub name: String,
    /// For readers; the name where there is none.
    pub label: Option<String>,
    /// Its value.
    pub value: String,
    /// How values are written.
    #[serde(default)]
    pub show: Show,
    /// The same by random draws, where the value is a closed form.
    pub drawn: Option<String>,
    /// Half the width of the 95 % interval of what was drawn.
    pub drawn_half_width_95: Option<String>,
    /// How many draws there were.
    pub draws: Option<String>,
}

impl Curve {
    /// Its formulas.
    pub fn formulas(&self) -> impl Iterator<Item = &String> {
        let drawn = [&self.drawn, &self.drawn_half_width_95, &self.draws];
        std::iter::once(&self.value).chain(drawn.into_iter().flatten())
    }
}
