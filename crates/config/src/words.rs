//! Spelling of keys and words, and suggestions for wrong ones.

/// True if two keys are equal when `-` and `_` count as one character.
pub fn same(one: &str, other: &str) -> bool {
    kebab(one) == kebab(other)
}

/// Spells a key with `-` in place of `_`.
pub fn kebab(key: &str) -> String {
    key.replace('_', "-")
}

/// Number of letters from which a word may be the beginning of another one.
const LEAST_BEGINNING: usize = 3;

/// The known word that is most similar to the wrong `word`, ignoring case: the only one that begins with it, or
/// else the one with the fewest other letters. `None` if no word is similar.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    // Computing a distance takes time in proportion to the product of both lengths.
    let longest = known.iter().map(|known| known.chars().count()).max()?;
    if word.chars().count() > 2 * longest {
        return None;
    }
    let folded = |word: &str| kebab(word).to_lowercase();
    let start = folded(word);
    let mut begun = known.iter().filter(|known| folded(known).starts_with(&start));
    if let (Some(only), None) = (begun.next(), begun.next())
        && start.len() >= LEAST_BEGINNING
    {
        return Some(only);
    }
    let distance = |known: &&str| strsim::damerau_levenshtein(&start, &folded(known));
    let nearest = known.iter().min_by_key(|known| distance(known))?;
    let is_near = distance(nearest) <= nearest.len().max(word.len()) / 3;
    is_near.then_some(*nearest)
}

/// Second half of an error about an unknown name: the nearest known name, or all known names.
pub fn suggestion(name: &str, known: &[&str]) -> String {
    match nearest(name, known) {
        Some(near) => format!("did you mean {near}?"),
        None if known.is_empty() => "there are none".into(),
        None => format!("there are {}", known.join(", ")),
    }
}

/// Message about an unknown key, with the nearest known key, or with all known keys.
pub fn unknown(key: &str, known: &[&str]) -> String {
    match nearest(key, known) {
        Some(near) => format!("there is no {key:?}; did you mean {}?", kebab(near)),
        None => format!("there is no {key:?}; there are {}", list(known, ", ")),
    }
}

/// Message about a word that is not one of the known words, with the nearest one.
pub fn none_of(word: &str, known: &[&str]) -> String {
    let (all, last) = (known.len(), known.last().copied().unwrap_or_default());
    let words = match all {
        0 | 1 => last.to_owned(),
        _ => format!("{} or {last}", list(&known[..all - 1], ", ")),
    };
    let near = nearest(word, known).map(|near| format!("; did you mean {}?", kebab(near)));
    format!("expected {words}, not {word:?}{}", near.unwrap_or_default())
}

fn list(words: &[&str], separator: &str) -> String {
    words.iter().map(|word| kebab(word)).collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_keys_name_the_nearest() {
        let known = ["portion", "holes", "max_ptes_none"];
        let near = |word| nearest(word, &known);
        assert_eq!(near("porton"), Some("portion"));
        assert_eq!(near("hoels"), Some("holes"));
        assert_eq!(near("max-pte-none"), Some("max_ptes_none"));
        assert_eq!(near("max"), Some("max_ptes_none"), "the beginning of one");
        assert_eq!(near("MAX-ptes"), Some("max_ptes_none"));
        assert_eq!(near("po"), None, "too little");
        assert_eq!(nearest("size", &["ways", "size_bytes"]), Some("size_bytes"));
        assert_eq!(nearest("thp-ma", &["thp-madvise", "thp-max"]), Some("thp-max"), "of two");
        assert_eq!(near("degree"), None);
        assert_eq!(near(""), None);
        assert_eq!(
            unknown("x", &known),
            "there is no \"x\"; there are portion, holes, max-ptes-none"
        );
        assert_eq!(unknown("hole", &known), "there is no \"hole\"; did you mean holes?");
    }

    #[test]
    fn a_name_in_other_letters_is_the_nearest() {
        let known = ["4k", "4k-colt-4", "ice-lake-sp"];
        assert_eq!(nearest("4K", &known), Some("4k"));
        assert_eq!(nearest("ICE_LAKE_SP", &known), Some("ice-lake-sp"));
        assert_eq!(nearest("Ice-Lake", &known), Some("ice-lake-sp"));
    }

    #[test]
    fn a_name_that_is_near_nothing_gets_all_of_them() {
        let known = ["random", "store"];
        assert_eq!(suggestion("stroe", &known), "did you mean store?");
        assert_eq!(suggestion("RANDOM", &known), "did you mean random?");
        assert_eq!(suggestion("zebra", &known), "there are random, store");
        assert_eq!(suggestion("", &known), "there are random, store");
        assert_eq!(suggestion("random", &[]), "there are none");
    }

    #[test]
    fn a_wrong_word_gets_those_that_can_be_and_the_nearest() {
        assert_eq!(none_of("c", &["a", "b"]), "expected a or b, not \"c\"");
        let known = ["never", "always"];
        let problem = "expected never or always, not \"Allways\"; did you mean always?";
        assert_eq!(none_of("Allways", &known), problem);
        assert_eq!(none_of("", &known), "expected never or always, not \"\"");
    }
}
