//! Formulas over measurements: `ipc(perforated@clustered) / ipc(4k) - 1`.
//!
//! A figure (a measured quantity, such as `ipc`) has its subject (such as the scheme) in parentheses
//! and, after `@`, the state: the name of the settings with which it is measured. Without a state,
//! only the experiment's common settings apply. A formula may also have numbers,
//! names of definitions, `+ - * /`, parentheses, `min(a, b)`, `max(a, b)` and `given(c, a)`.
//! `given(c, a)` is `a` if `c` is more than 0, otherwise it is missing. A result is missing if one
//! of its operands is, or after a division by 0.

/// Arithmetic expression over measured figures and definitions, as curves use it.
#[derive(Clone, Debug, PartialEq)]
pub enum Formula {
    /// Number in the text of the formula.
    Number(f64),
    /// Value of the definition of this name.
    Name(String),
    /// Reference to a measured figure.
    Figure(Reference),
    /// Operation on the values of two formulas.
    Binary(Operation, Box<Formula>, Box<Formula>),
}

/// Reference to a measured figure, such as `ipc(4k@clustered)`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// Name of the figure, such as `ipc`.
    pub figure: String,
    /// Subject of the measurement: a scheme, or a design for large mappings.
    pub subject: String,
    /// Name of the state in which it is measured; `None` for the experiment's common settings.
    pub state: Option<String>,
}

/// Operation of a formula on two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Sum of the two values.
    Add,
    /// First value minus the second.
    Subtract,
    /// Product of the two values.
    Multiply,
    /// First value divided by the second.
    Divide,
    /// Smaller of two values (`min`).
    Least,
    /// Larger of two values (`max`).
    Greatest,
    /// Second value if the first is more than 0; otherwise missing.
    Given,
}

/// Maximum nesting depth of parentheses and definitions. The limit protects against hostile files.
const DEEPEST: usize = 64;

impl Formula {
    /// Parses the text of a formula.
    ///
    /// # Errors
    /// A syntax error, with its position.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { text, place: 0, depth: 0 };
        let formula = parser.sum()?;
        parser.skip_space();
        match parser.rest() {
            "" => Ok(formula),
            rest => Err(parser.wrong(&format!("unexpected {:?}", first_word(rest)))),
        }
    }

    /// Calls `references` for each measured figure in the formula, and `names` for each name of a definition.
    /// Figures inside definitions are not visited.
    pub fn visit(&self, references: &mut dyn FnMut(&Reference), names: &mut dyn FnMut(&str)) {
        match self {
            Self::Number(_) => {}
            Self::Name(name) => names(name),
            Self::Figure(reference) => references(reference),
            Self::Binary(_, left, right) => {
                left.visit(references, names);
                right.visit(references, names);
            }
        }
    }

    /// Evaluates the formula; `figure` and `definition` return the values of measured figures and
    /// definitions. `None` if the result is missing.
    pub fn value(
        &self,
        figure: &dyn Fn(&Reference) -> Option<f64>,
        definition: &dyn Fn(&str) -> Option<f64>,
    ) -> Option<f64> {
        let value = match self {
            Self::Number(number) => *number,
            Self::Name(name) => definition(name)?,
            Self::Figure(reference) => figure(reference)?,
            Self::Binary(operation, left, right) => {
                let left = left.value(figure, definition);
                operation.of(left?, right.value(figure, definition)?)?
            }
        };
        value.is_finite().then_some(value)
    }
}

impl Operation {
    fn of(self, left: f64, right: f64) -> Option<f64> {
        Some(match self {
            Self::Add => left + right,
            Self::Subtract => left - right,
            Self::Multiply => left * right,
            Self::Divide if right == 0.0 => return None,
            Self::Divide => left / right,
            Self::Least => left.min(right),
            Self::Greatest => left.max(right),
            Self::Given if left > 0.0 => right,
            Self::Given => return None,
        })
    }
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or(text)
}

/// Recursive-descent parser for formulas, with a function for each precedence of operators.
struct Parser<'a> {
    text: &'a str,
    place: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.place..]
    }

    fn wrong(&self, problem: &str) -> String {
        let column = self.text[..self.place].chars().count() + 1;
        format!("formula {:?}, column {column}: {problem}", self.text)
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.place += rest.len() - rest.trim_start().len();
    }

    /// Consumes the next character if it is `character`; returns true if it was consumed.
    fn takes(&mut self, character: char) -> bool {
        self.skip_space();
        let takes = self.rest().starts_with(character);
        self.place += if takes { character.len_utf8() } else { 0 };
        takes
    }

    fn expect(&mut self, character: char) -> Result<(), String> {
        if self.takes(character) {
            return Ok(());
        }
        Err(self.wrong(&format!("expected {character:?}")))
    }

    fn sum(&mut self) -> Result<Formula, String> {
        let operators = [('+', Operation::Add), ('-', Operation::Subtract)];
        self.chain(operators, Self::product)
    }

    fn product(&mut self) -> Result<Formula, String> {
        let operators = [('*', Operation::Multiply), ('/', Operation::Divide)];
        self.chain(operators, Self::factor)
    }

    fn chain(
        &mut self,
        operators: [(char, Operation); 2],
        part: fn(&mut Self) -> Result<Formula, String>,
    ) -> Result<Formula, String> {
        let mut left = part(self)?;
        while let Some((_, operation)) =
            operators.into_iter().find(|(character, _)| self.takes(*character))
        {
            left = Formula::Binary(operation, left.into(), part(self)?.into());
            self.deeper()?; // Long chains nest too.
        }
        Ok(left)
    }

    fn deeper(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.wrong("too many parts; use [definitions]"));
        }
        Ok(())
    }

    fn factor(&mut self) -> Result<Formula, String> {
        self.deeper()?;
        if self.takes('-') {
            let of = self.factor()?;
            return Ok(Formula::Binary(
                Operation::Subtract,
                Formula::Number(0.0).into(),
                of.into(),
            ));
        }
        if self.takes('(') {
            let inner = self.sum()?;
            self.expect(')')?;
            return Ok(inner);
        }
        let is_word = |character: char| character.is_alphanumeric() || "_.".contains(character);
        let rest = self.rest();
        let word = &rest[..rest.find(|character| !is_word(character)).unwrap_or(rest.len())];
        if word.is_empty() {
            let what = first_word(rest);
            return Err(self.wrong(&format!("expected a number or a name, not {what:?}")));
        }
        if word.starts_with(|character: char| character.is_ascii_digit()) {
            let number = word.parse().map_err(|_| self.wrong(&format!("{word:?} is no number")))?;
            self.place += word.len();
            return Ok(Formula::Number(number));
        }
        self.place += word.len();
        if !self.takes('(') {
            return Ok(Formula::Name(word.into()));
        }
        let operation = match word {
            "min" => Operation::Least,
            "max" => Operation::Greatest,
            "given" => Operation::Given,
            figure => return self.figure(figure),
        };
        let left = self.sum()?;
        self.expect(',')?;
        let right = self.sum()?;
        self.expect(')')?;
        Ok(Formula::Binary(operation, left.into(), right.into()))
    }

    /// Parses the subject and state of a figure after `figure(`. Subjects may contain characters that are
    /// operators outside the parentheses.
    fn figure(&mut self, figure: &str) -> Result<Formula, String> {
        let Some(end) = self.rest().find(')') else {
            return Err(self.wrong("expected ')' after subject and state"));
        };
        let inside = &self.rest()[..end];
        let (subject, state) = match inside.split_once('@') {
            Some((subject, state)) => (subject.trim(), Some(state.trim().to_owned())),
            None => (inside.trim(), None),
        };
        if subject.is_empty() || state.as_deref() == Some("") {
            return Err(self.wrong("expected figure(subject) or figure(subject@state)"));
        }
        self.place += end + 1;
        let (figure, subject) = (figure.into(), subject.into());
        Ok(Formula::Figure(Reference { figure, subject, state }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In this test, every figure is the length of its subject, and `two` is a definition.
    fn value(text: &str) -> Option<f64> {
        let figure = |reference: &Reference| {
            (reference.figure == "length").then_some(reference.subject.len() as f64)
        };
        let definition = |name: &str| (name == "two").then_some(2.0);
        Formula::parse(text).unwrap().value(&figure, &definition)
    }

    #[test]
    fn values_by_hand() {
        for (text, expected) in [
            ("1 + 2 * 3", Some(7.0)),
            ("(1 + 2) * 3 - 4 / 2", Some(7.0)),
            ("8 / 4 / 2", Some(1.0)),
            ("-two * -3", Some(6.0)),
            ("length(4k+4k) / length(4k)", Some(2.5)),
            ("length( gt-pde-4m @ a b ) - 1", Some(8.0)),
            ("min(two, 3) + max(two, 3)", Some(5.0)),
            ("given(two - 1, 5)", Some(5.0)),
            ("given(two - 2, 5)", None),
            ("1 / (two - 2)", None),
            ("1 + none", None),
            ("width(4k)", None),
        ] {
            assert_eq!(value(text), expected, "{text}");
        }
    }

    #[test]
    fn references_have_subject_and_state() {
        let Formula::Figure(reference) = Formula::parse("ipc(4k+segment@half)").unwrap() else {
            panic!("a figure");
        };
        assert_eq!((reference.subject.as_str(), reference.figure.as_str()), ("4k+segment", "ipc"));
        assert_eq!(reference.state.as_deref(), Some("half"));
    }

    #[test]
    fn mistakes_name_the_column() {
        for (text, problem) in [
            ("", "column 1: expected a number or a name"),
            ("1 +", "column 4: expected a number"),
            ("(1", "column 3: expected ')'"),
            ("1 2", "column 3: unexpected \"2\""),
            ("ipc(4k", "column 5: expected ')'"),
            ("ipc()", "expected figure(subject)"),
            ("ipc(4k@)", "expected figure(subject)"),
            ("min(1)", "expected ','"),
            ("1.2.3", "is no number"),
            ("é + {x}", "column 5"),
        ] {
            let message = Formula::parse(text).unwrap_err();
            assert!(message.contains(problem), "{text:?}: {message}");
        }
        assert!(Formula::parse(&"(".repeat(10_000)).unwrap_err().contains("too many"));
        assert!(Formula::parse(&"1+".repeat(10_000)).unwrap_err().contains("too many"));
    }

    /// Numbers, operators and parentheses count as parts.
    #[test]
    fn formulas_have_at_most_64_parts() {
        let sum = |numbers| vec!["1"; numbers].join(" + ");
        let nested = |depth| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
        assert_eq!(value(&sum(32)), Some(32.0));
        assert_eq!(value(&nested(63)), Some(1.0));
        for text in [sum(33), nested(64)] {
            assert!(Formula::parse(&text).unwrap_err().contains("too many parts"), "{text}");
        }
    }
}
