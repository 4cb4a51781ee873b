//! Pull parser of protocol buffers in text format: fields, and messages in braces. Lists and strings of
//! several parts are not supported; the files next to traces have neither.

/// Maximum number of messages that are nested in each other.
const MAX_DEPTH: usize = 16;

/// Item of a protocol buffer's text: the beginning or end of a message, or a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Item<'a> {
    /// Beginning of a nested message, with the name of its field.
    Begin(&'a str),
    /// End of the innermost message.
    End,
    /// Name of a field, and its value as written.
    Field(&'a str, Value<'a>),
}

/// Value of a field as written, and its byte offset in the text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Value<'a> {
    pub(super) text: &'a str,
    pub(super) offset: usize,
}

/// Problem at a byte offset of a text, and what was expected.
#[derive(Debug, PartialEq)]
pub(super) struct Problem {
    pub(super) offset: usize,
    pub(super) text: String,
    pub(super) expected: &'static str,
}

/// Parser of a protocol buffer in text format.
pub(super) struct TextMessage<'a> {
    text: &'a str,
    offset: usize,
    depth: usize,
}

impl<'a> TextMessage<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, offset: 0, depth: 0 }
    }

    /// Parses the next item of the protocol buffer's text; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Item<'a>>, Problem> {
        self.skip_blanks();
        let Some(first) = self.rest().chars().next() else {
            return match self.depth {
                0 => Ok(None),
                _ => Err(self.wrong("the text ends inside a message", "}")),
            };
        };
        if first == '}' {
            self.depth = self.depth.checked_sub(1).ok_or_else(|| {
                self.wrong("a message ends that did not begin", "a field or the end")
            })?;
            self.offset += 1;
            return Ok(Some(Item::End));
        }
        let name = self.word();
        if name.is_empty() {
            let text = format!("\"{}\"", first.escape_default());
            return Err(self.wrong(&text, "the name of a field, or }"));
        }
        self.skip_blanks();
        let has_colon = self.accept(':');
        self.skip_blanks();
        if self.accept('{') {
            self.depth += 1;
            return match self.depth {
                ..=MAX_DEPTH => Ok(Some(Item::Begin(name))),
                _ => Err(self.wrong("messages inside each other", "at most 16")),
            };
        }
        let offset = self.offset;
        let text = if self.rest().starts_with('"') { self.quoted()? } else { self.word() };
        if !has_colon || self.offset == offset {
            let expected = "NAME: VALUE or NAME { … }";
            return Err(self.wrong(&format!("no value of {}", shown(name)), expected));
        }
        Ok(Some(Item::Field(name, Value { text, offset })))
    }

    fn rest(&self) -> &'a str {
        &self.text[self.offset..]
    }

    fn accept(&mut self, wanted: char) -> bool {
        let is_there = self.rest().starts_with(wanted);
        self.offset += if is_there { wanted.len_utf8() } else { 0 };
        is_there
    }

    /// Skips white space, separators and comments.
    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            let after =
                rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || ",;".contains(c));
            self.offset += rest.len() - after.len();
            if !after.starts_with('#') {
                return;
            }
            self.offset += after.find('\n').unwrap_or(after.len());
        }
    }

    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let is_other = |c: char| !(c.is_ascii_alphanumeric() || "_.+-".contains(c));
        let word = &rest[..rest.find(is_other).unwrap_or(rest.len())];
        self.offset += word.len();
        word
    }

    /// Parses a quoted string. Returns its content with escapes unchanged.
    fn quoted(&mut self) -> Result<&'a str, Problem> {
        let inner = &self.rest()[1..];
        let mut escaped = false;
        let end = inner.find(|c| {
            let is_end = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            is_end
        });
        let Some(end) = end else {
            return Err(self.wrong("a text without an end", "a second quote"));
        };
        self.offset += end + 2;
        Ok(&inner[..end])
    }

    /// Makes the error that `text` is at the current offset, where `expected` was expected.
    pub(super) fn wrong(&self, text: &str, expected: &'static str) -> Problem {
        Problem { offset: self.offset, text: text.to_owned(), expected }
    }
}

impl Value<'_> {
    /// Parses an integer: decimal, hexadecimal after 0x, or octal after 0.
    pub(super) fn number(self) -> Result<u64, Problem> {
        let parsed = match self.text {
            "0" => Ok(0),
            text => match (text.strip_prefix("0x"), text.strip_prefix('0')) {
                (Some(digits), _) => u64::from_str_radix(digits, 16),
                (None, Some(digits)) => u64::from_str_radix(digits, 8),
                (None, None) => text.parse(),
            },
        };
        parsed.map_err(|_| Problem {
            offset: self.offset,
            text: format!("\"{}\"", shown(self.text)),
            expected: "a whole number of at most 64 bits",
        })
    }
}

/// Shortens text from the file for an error message.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(40).collect()
}

/// Converts a byte offset of `text` to line and column, both from 1.
pub(super) fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..offset];
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(text: &str) -> Result<Vec<Item<'_>>, Problem> {
        let mut message = TextMessage::new(text);
        std::iter::from_fn(|| message.next().transpose()).collect()
    }

    #[test]
    fn fields_and_messages() {
        let text = "# a comment\na { b: 12, c : \"x \\\" {\" }\n d: { e:-1 } # more";
        let value = |text, offset| Value { text, offset };
        let expected = [
            Item::Begin("a"),
            Item::Field("b", value("12", 19)),
            Item::Field("c", value("x \\\" {", 27)),
            Item::End,
            Item::Begin("d"),
            Item::Field("e", value("-1", 46)),
            Item::End,
        ];
        assert_eq!(items(text).unwrap(), expected);
        assert_eq!(line_and_column(text, 19), (2, 8));
        assert!(items(" \n").unwrap().is_empty());
    }

    #[test]
    fn numbers_of_three_bases() {
        let number = |text| Value { text, offset: 0 }.number();
        assert_eq!(
            [number("0"), number("10"), number("0x1F"), number("010")],
            [0, 10, 31, 8].map(Ok)
        );
        for wrong in ["-1", "x", "0x", "08", "18446744073709551616", ""] {
            assert!(number(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn malformed_messages_are_rejected() {
        for (text, offset, problem) in [
            ("a { b: 1", 8, "ends inside a message"),
            ("}", 0, "did not begin"),
            ("a 1", 3, "no value of a"),
            ("a:", 2, "no value of a"),
            ("a: [1]", 3, "no value of a"),
            ("?", 0, "\"?\""),
            ("a: \"b", 3, "without an end"),
            (&"a{".repeat(17), 34, "inside each other"),
        ] {
            let found = items(text).unwrap_err();
            assert_eq!(found.offset, offset, "{text}");
            assert!(found.text.contains(problem), "{text}: {}", found.text);
        }
    }
}
