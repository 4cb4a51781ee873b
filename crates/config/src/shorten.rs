//! Length limit for quotations in messages.

/// Number of characters that remain of a long quotation or word.
const KEPT: usize = 60;
/// Length of the longest quotation that is not shortened, in characters.
const MAX_QUOTATION: usize = 80;
/// Length of the longest word that is not shortened, in characters; paths and lists of options may
/// be long.
const MAX_WORD: usize = 300;

/// Shortens the long quotations and words of a message to 60 characters and `…`.
pub fn shorten(message: &str) -> String {
    let mut short = String::with_capacity(message.len().min(4096));
    let mut rest = message;
    while let Some(first) = rest.chars().next() {
        let (piece, most, end) = if first == '"' {
            let (quoted, closing) = quotation(rest);
            (quoted, MAX_QUOTATION, closing)
        } else if first.is_whitespace() {
            (&rest[..first.len_utf8()], MAX_WORD, "")
        } else {
            let is_end = |letter: char| letter.is_whitespace() || letter == '"';
            let end = rest.find(is_end).unwrap_or(rest.len());
            (&rest[..end], MAX_WORD, "")
        };
        rest = &rest[piece.len()..];
        match piece.chars().count() {
            length if length <= most => short.push_str(piece),
            _ => {
                short.extend(piece.chars().take(KEPT));
                short.push('…');
                short.push_str(end);
            }
        }
    }
    short
}

/// Returns the quotation (in the form of `{:?}`) at the start of `text`, with its closing mark, and
/// that mark alone; the mark is empty if it is missing.
fn quotation(text: &str) -> (&str, &'static str) {
    let mut is_escaped = false;
    for (place, letter) in text.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return (&text[..=place], "\""),
            _ => {}
        }
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_is_shortened_and_nothing_else() {
        for short in ["", "plain", "--memory: expected a size, not \"abc\"", "a \"b", "é\n\t \"\""]
        {
            assert_eq!(shorten(short), short);
        }
        let long = "x \\\" y".repeat(3_000);
        let message = shorten(&format!("--seed: expected a whole number, not {long:?}; or none"));
        assert!(message.starts_with("--seed: expected a whole number, not \"x "), "{message}");
        assert!(message.ends_with("…\"; or none") && message.chars().count() < 120, "{message}");
        let message = shorten(&format!("there is no key {}; there are a, b", "é".repeat(10_000)));
        assert!(
            message.ends_with("é… there are a, b") && message.chars().count() < 120,
            "{message}"
        );
        let path = format!("/{}: No such file", "folder/".repeat(40));
        assert_eq!(shorten(&path), path);
    }
}
