//! Conversion of messages that name command-line flags to Python keywords.

use std::iter::Peekable;

use perforate_sim::RunSpec;

/// Characters that may surround a flag or a value in a sentence.
const PUNCTUATION: [char; 7] = [':', ';', ',', '.', '(', ')', '`'];

/// Replaces flags in a text by keywords: `--skip` by `skip=`, `--timing sampled` by
/// `timing="sampled"`. Quoted commands (`perforate record --sample N/M`) stay unchanged.
pub fn with_keywords(text: &str) -> String {
    let (mut found, mut is_in_command) = (Vec::new(), false);
    let mut words = text.split(' ').peekable();
    while let Some(word) = words.next() {
        let bare = word.trim_matches(PUNCTUATION);
        is_in_command |= bare == "perforate";
        found.push(match bare.strip_prefix("--").filter(|_| !is_in_command) {
            Some(flag) if is_name(flag) => keyword(word, flag, &mut words),
            _ => word.to_owned(),
        });
        is_in_command &= !word.ends_with(PUNCTUATION);
    }
    found.join(" ")
}

/// True if the text, which follows the dashes of a flag, is a flag's name, with or without a value.
fn is_name(flag: &str) -> bool {
    let name = flag.split('=').next().unwrap_or_default();
    !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '-')
}

/// Returns the keyword for the flag in this word. The flag's value may be in this word or in the
/// next one.
fn keyword<'a>(
    word: &'a str,
    flag: &'a str,
    words: &mut Peekable<impl Iterator<Item = &'a str>>,
) -> String {
    let (name, value) =
        flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
    let (start, mut end) =
        (&word[..word.len() - word.trim_start_matches(PUNCTUATION).len()], end(word));
    let value = value.or_else(|| {
        let next = words.next_if(|next| end.is_empty() && is_value(name, next))?;
        end = self::end(next);
        Some(next.trim_end_matches(PUNCTUATION))
    });
    let keyword = if name == "scheme" { "schemes".to_owned() } else { name.replace('-', "_") };
    match value.map(|value| (value, value.split_once('='))) {
        Some((_, Some((key, value)))) if name == "set" => {
            format!("{start}set={{{key:?}: {value:?}}}{end}")
        }
        Some((value, _)) => format!("{start}{keyword}={value:?}{end}"),
        // A colon follows the name of the option that is wrong.
        None if end.starts_with(':') => format!("{start}{keyword}{end}"),
        None => format!("{start}{keyword}={end}"),
    }
}

/// Returns the punctuation characters at the end of a word.
fn end(word: &str) -> &str {
    &word[word.trim_end_matches(PUNCTUATION).len()..]
}

/// True if a word is the value of the preceding flag, not the next word of the sentence. Such a
/// word has digits, capitals or symbols, or is one of the option's known values.
fn is_value(name: &str, word: &str) -> bool {
    let word = word.trim_end_matches(PUNCTUATION);
    let is_odd = |c: char| c.is_ascii_digit() || c.is_ascii_uppercase() || "=/%".contains(c);
    let is_form = |form: &str| form.split(['|', '[']).any(|one| one == word);
    word.contains(is_odd)
        || RunSpec::keys().iter().any(|key| key.name == name && is_form(&key.form))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_keywords() {
        for (text, expected) in [
            ("no flags -- at all", "no flags -- at all"),
            ("--rounds: expected a whole number", "rounds: expected a whole number"),
            ("--skip begins later, --side-by-side too", "skip= begins later, side_by_side= too"),
            ("leave --timing sampled out", "leave timing=\"sampled\" out"),
            ("with --timing sampled=N/M there", "with timing=\"sampled=N/M\" there"),
            ("looks quicker; try --size 4G", "looks quicker; try size=\"4G\""),
            ("(--scheme 4k,thp)", "(schemes=\"4k,thp\")"),
            ("--set tlb.l2.entries=3: no", "set={\"tlb.l2.entries\": \"3\"}: no"),
            (
                "perforate record --sample N/M takes windows; --skip N passes over it",
                "perforate record --sample N/M takes windows; skip=\"N\" passes over it",
            ),
            ("use `perforate calibrate --out my.toml`", "use `perforate calibrate --out my.toml`"),
        ] {
            assert_eq!(with_keywords(text), expected);
        }
    }
}
