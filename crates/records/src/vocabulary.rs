//! What is known of the counters and schemes that results mention.

use perforate_types::{Counter, Part, SchemeFacts, SchemeRole};

/// Counters and schemes as they are registered, in the order in which reports show them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vocabulary {
    /// Counters.
    pub counters: Vec<Counter>,
    /// Schemes.
    pub schemes: Vec<SchemeFacts>,
}

impl Vocabulary {
    /// A vocabulary of these.
    pub fn new(counters: Vec<Counter>, schemes: Vec<SchemeFacts>) -> Self {
        Self { counters, schemes }
    }

    /// The counter of this name.
    pub fn counter(&self, id: &str) -> Option<&Counter> {
        self.counters.iter().find(|counter| counter.id == id)
    }

    /// The parts of a whole with their counters, in the order in which charts stack them.
    pub fn parts<'a>(&'a self, whole: &'a str) -> impl Iterator<Item = (&'a Counter, &'a Part)> {
        let parts = self.counters.iter().filter_map(|one| Some((one, one.part.as_ref()?)));
        parts.filter(move |(_, part)| part.whole == whole)
    }

    /// Headings of counters in order, each once.
    pub fn groups(&self) -> Vec<&'static str> {
        let mut found = Vec::new();
        for counter in &self.counters {
            if !found.contains(&counter.group) {
                found.push(counter.group);
            }
        }
        found
    }

    /// The scheme of this name.
    pub fn scheme(&self, name: &str) -> Option<&SchemeFacts> {
        self.schemes.iter().find(|scheme| scheme.name.eq_ignore_ascii_case(name))
    }

    /// What a scheme is in a comparison.
    pub fn role(&self, name: &str) -> SchemeRole {
        self.scheme(name).map_or(SchemeRole::Other, |scheme| scheme.role)
    }

    /// The scheme that something is named after: one of its names stands in the name as words of
    /// their own. The longest such name counts.
    pub fn named_after(&self, name: &str) -> Option<&SchemeFacts> {
        let name = name.to_lowercase();
        let names = self.schemes.iter().flat_map(|scheme| {
            let others = scheme.other_names.iter().map(String::as_str);
            std::iter::once(&*scheme.name).chain(others).map(move |known| (scheme, known))
        });
        let found = names.filter(|(_, known)| has_words(&name, &known.to_lowercase()));
        // Of names of one length the first counts.
        let longest = found.reduce(|one, next| if next.1.len() > one.1.len() { next } else { one });
        longest.map(|(scheme, _)| scheme)
    }
}

/// Whether `words` stand in `text` with no letter or digit at either end.
fn has_words(text: &str, words: &str) -> bool {
    let is_end = |other: Option<char>| other.is_none_or(|other| !other.is_alphanumeric());
    text.match_indices(words).any(|(at, _)| {
        is_end(text[..at].chars().next_back()) && is_end(text[at + words.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_named_after_schemes() {
        let scheme = |name: &'static str, other_names: &[&str]| SchemeFacts {
            name: name.into(),
            other_names: other_names.iter().map(|&name| name.into()).collect(),
            colour: name.into(),
            role: SchemeRole::Other,
            setting: None,
        };
        let schemes = vec![
            scheme("4k", &[]),
            scheme("thp", &["conventional"]),
            scheme("perforated", &[]),
            scheme("perforated-lazy", &[]),
            scheme("ideal", &[]),
        ];
        let vocabulary = Vocabulary::new(Vec::new(), schemes);
        for (name, scheme) in [
            ("misses-thp-511", Some("thp")),
            ("of-ideal-4k", Some("ideal")),
            ("Conventional", Some("thp")),
            ("perforated-lazy", Some("perforated-lazy")),
            ("perforated-90", Some("perforated")),
            ("64k", None),
            ("idealised", None),
        ] {
            let found = vocabulary.named_after(name).map(|scheme| &*scheme.name);
            assert_eq!(found, scheme, "{name}");
        }
    }
}
