//! Positions in a script.

use std::fmt::{self, Display};

use rhai::Position;

/// A position in a script, printed as the beginning of an error: empty, or `line 3, column 5: `.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Line in the script, from 1; 0 if unknown.
    line: usize,
    /// Column in the line, from 1; 0 if unknown.
    column: usize,
}

impl From<Position> for Place {
    fn from(position: Position) -> Self {
        let or_none = Option::unwrap_or_default;
        Self { line: or_none(position.line()), column: or_none(position.position()) }
    }
}

impl Place {
    /// Returns this position in a script, or `other` if this one is unknown.
    pub(crate) fn or_else(self, other: impl FnOnce() -> Self) -> Self {
        if self == Self::default() { other() } else { self }
    }

    /// Position at which the script `text` defines the function `name`, found by a simple search of
    /// the lines.
    pub(crate) fn of_function(text: &str, name: &str) -> Self {
        let column = |line: &str| {
            let start = line.len() - line.trim_start().len();
            let line = line.trim_start();
            let line = line.strip_prefix("private").map_or(line, str::trim_start);
            let defined = line.strip_prefix("fn ")?.trim_start().strip_prefix(name)?;
            defined.trim_start().starts_with('(').then_some(start + 1)
        };
        let found =
            (1..).zip(text.lines()).find_map(|(line, content)| Some((line, column(content)?)));
        found.map_or(Self::default(), |(line, column)| Self { line, column })
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (0, _) => Ok(()),
            (line, 0) => write!(f, "line {line}: "),
            (line, column) => write!(f, "line {line}, column {column}: "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_their_definition() {
        let text =
            "// fn ask(x)\nconst A = 1;\n  fn  ask (x) { 1 }\nprivate fn other(x) { ask(x) }\n";
        let found = |name| Place::of_function(text, name).to_string();
        assert_eq!(found("ask"), "line 3, column 3: ");
        assert_eq!(found("other"), "line 4, column 1: ");
        assert_eq!(found("as"), "");
        assert_eq!(Place { line: 2, column: 0 }.to_string(), "line 2: ");
    }
}
