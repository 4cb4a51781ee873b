//! Descriptions of registered counters and schemes, with which reports interpret results.

use perforate_types::{Counter, Counters, Part, SchemeFacts, SchemeRole};

use crate::RunResult;

/// Counters and schemes that this program registers, in the order in which reports show them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vocabulary {
    /// Registered counters, with their labels, units and headings.
    pub counters: Vec<Counter>,
    /// Registered schemes, with their colours and roles in comparisons.
    pub schemes: Vec<SchemeFacts>,
}

impl Vocabulary {
    /// Creates a vocabulary of these counters and schemes.
    pub fn new(counters: Vec<Counter>, schemes: Vec<SchemeFacts>) -> Self {
        Self { counters, schemes }
    }

    /// Returns the registered counter of this name; `None` if this name is not registered.
    pub fn counter(&self, id: &str) -> Option<&Counter> {
        self.counters.iter().find(|counter| counter.id == id)
    }

    /// Returns the registered components of the total `whole` (such as `walk_references`), each with its
    /// counter, in the order in which charts stack them.
    pub fn parts<'a>(&'a self, whole: &'a str) -> impl Iterator<Item = (&'a Counter, &'a Part)> {
        let parts = self.counters.iter().filter_map(|one| Some((one, one.part.as_ref()?)));
        parts.filter(move |(_, part)| part.whole == whole)
    }

    /// Returns the names of the counters of a run that are components of the total `whole`. Registered
    /// counters come first, in the order of charts. Then come unregistered counters (from other versions)
    /// whose names begin with the name of the total.
    pub fn parts_in<'a>(
        &'a self,
        whole: &'a str,
        counters: &'a Counters,
    ) -> impl Iterator<Item = &'a str> {
        let registered = self.parts(whole).map(|(counter, _)| &*counter.id);
        let named = move |name: &&str| {
            let rest = name.strip_prefix(whole).and_then(|rest| rest.strip_prefix('_'));
            rest.is_some_and(|rest| rest != "total") && self.counter(name).is_none()
        };
        let others = counters.iter().map(|(name, _)| name).filter(named);
        registered.filter(|id| counters.get(id).is_some()).chain(others)
    }

    /// Returns the sum of the components of the total `whole` in a run; `None` if the run has no such
    /// component.
    pub fn sum(&self, whole: &str, run: &RunResult) -> Option<f64> {
        let values = self.parts_in(whole, &run.counters).filter_map(|name| run.counter(name));
        values.reduce(|sum, value| sum + value)
    }

    /// Returns the headings under which reports list the registered counters, in order and without
    /// duplicates.
    pub fn groups(&self) -> Vec<&'static str> {
        let mut found = Vec::new();
        for counter in &self.counters {
            if !found.contains(&counter.group) {
                found.push(counter.group);
            }
        }
        found
    }

    /// Returns the registered scheme of this name, ignoring case; `None` if this name is not registered.
    pub fn scheme(&self, name: &str) -> Option<&SchemeFacts> {
        self.schemes.iter().find(|scheme| scheme.name.eq_ignore_ascii_case(name))
    }

    /// Returns the role of a scheme in comparisons, or the roles of both schemes of a pair. Unknown
    /// schemes have [`SchemeRole::Other`].
    pub fn roles(&self, name: &str) -> Roles {
        let role = |name| self.scheme(name).map_or(SchemeRole::Other, |scheme| scheme.role);
        match name.split_once('+') {
            Some((guest, host)) => Roles::Pair(role(guest), role(host)),
            None => Roles::Native(role(name)),
        }
    }

    /// Returns the scheme whose name, or alternative name, occurs in `name` as a separate word. The longest
    /// matching name wins.
    pub fn named_after(&self, name: &str) -> Option<&SchemeFacts> {
        let name = name.to_lowercase();
        let names = self.schemes.iter().flat_map(|scheme| {
            let others = scheme.other_names.iter().map(String::as_str);
            std::iter::once(&*scheme.name).chain(others).map(move |known| (scheme, known))
        });
        let found = names.filter(|(_, known)| has_words(&name, &known.to_lowercase()));
        // Among matches of equal length, the first wins.
        let longest = found.reduce(|one, next| if next.1.len() > one.1.len() { next } else { one });
        longest.map(|(scheme, _)| scheme)
    }
}

/// Role of a native scheme in comparisons, or the roles of guest and host in a virtualized run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roles {
    /// Role of a native scheme.
    Native(SchemeRole),
    /// Roles of the guest's and the host's scheme.
    Pair(SchemeRole, SchemeRole),
}

impl Roles {
    /// Returns the index of the scheme that is the baseline of a comparison: 4KB pages, natively or in both
    /// guest and host, otherwise the first scheme that is not an ideal bound. `None` without such a scheme.
    pub fn reference(all: &[Self]) -> Option<usize> {
        let place = |wanted| all.iter().position(|roles| *roles == wanted);
        place(Self::Native(SchemeRole::Base))
            .or_else(|| place(Self::Pair(SchemeRole::Base, SchemeRole::Base)))
            .or_else(|| all.iter().position(|roles| !roles.is_bound()))
    }

    /// True for the ideal bounds (ideal large pages and free translation), also if only the guest or the host
    /// of a pair is one.
    pub fn is_bound(self) -> bool {
        self.has(|role| matches!(role, SchemeRole::Ideal | SchemeRole::Free))
    }

    /// True if `test` holds for the role of the scheme, or of the guest's or the host's scheme.
    pub fn has(self, test: impl Fn(SchemeRole) -> bool) -> bool {
        match self {
            Self::Native(role) => test(role),
            Self::Pair(guest, host) => test(guest) || test(host),
        }
    }
}

/// True if `words` occur in `text` without a letter or digit directly before or after them.
fn has_words(text: &str, words: &str) -> bool {
    let is_end = |other: Option<char>| other.is_none_or(|other| !other.is_alphanumeric());
    text.match_indices(words).any(|(at, _)| {
        is_end(text[..at].chars().next_back()) && is_end(text[at + words.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use perforate_types::{CounterUnit, Prominence};

    use super::*;

    #[test]
    fn parts_are_registered_or_named_after_their_whole() {
        let counter = |id: &'static str, whole: Option<&'static str>| Counter {
            id: id.into(),
            label: id.into(),
            unit: CounterUnit::Count,
            group: "",
            meaning: "".into(),
            prominence: Prominence::Listed,
            part: whole.map(|whole| Part {
                whole,
                key: id.into(),
                label: id.into(),
                colour: "other".into(),
            }),
        };
        let counters = vec![
            counter("read_first", Some("reads")),
            counter("reads_last", Some("reads")),
            counter("reads_of_others", None),
        ];
        let vocabulary = Vocabulary::new(counters, Vec::new());
        let line = r#"{"scheme":"4k","workload":"w","counters":{"reads_of_others":1,"reads_last":2,
            "reads_new":4,"reads_total":8,"read_first":16,"readiness":32}}"#;
        let run: RunResult = serde_json::from_str(line).unwrap();
        let parts: Vec<&str> = vocabulary.parts_in("reads", &run.counters).collect();
        assert_eq!(parts, ["read_first", "reads_last", "reads_new"]);
        assert_eq!(vocabulary.sum("reads", &run), Some(22.0));
        assert_eq!(vocabulary.sum("writes", &run), None);
        let mut counters = vocabulary.counters;
        for (counter, group) in counters.iter_mut().zip(["walks", "faults", "walks"]) {
            counter.group = group;
        }
        assert_eq!(Vocabulary::new(counters, Vec::new()).groups(), ["walks", "faults"]);
    }

    #[test]
    fn guest_and_host_both_have_a_role() {
        use SchemeRole::{Base, Free, Ideal, Other};
        let (native, pair) = (Roles::Native, |role| Roles::Pair(role, role));
        for (roles, is_bound) in [
            (native(Base), false),
            (native(Ideal), true),
            (native(Free), true),
            (pair(Base), false),
            (Roles::Pair(Ideal, Base), true),
            (Roles::Pair(Base, Ideal), true),
            (Roles::Pair(Other, Free), true),
        ] {
            assert_eq!(roles.is_bound(), is_bound, "{roles:?}");
        }
        let host = Roles::Pair(Other, Base);
        assert_eq!(Roles::reference(&[native(Ideal), host, native(Other)]), Some(1));
        assert_eq!(Roles::reference(&[native(Other), host, pair(Base)]), Some(2));
        assert_eq!(Roles::reference(&[host, pair(Base), native(Base)]), Some(2));
        assert_eq!(Roles::reference(&[native(Free), Roles::Pair(Base, Ideal)]), None);
    }

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

    #[test]
    fn schemes_are_found_by_name_and_pairs_by_both() {
        let scheme = |name: &'static str, role| SchemeFacts {
            name: name.into(),
            other_names: vec!["other name".into()],
            colour: name.into(),
            role,
            setting: None,
        };
        let schemes = vec![scheme("4k", SchemeRole::Base), scheme("free", SchemeRole::Free)];
        let vocabulary = Vocabulary::new(Vec::new(), schemes);
        assert_eq!(vocabulary.scheme("4K").map(|scheme| &*scheme.name), Some("4k"));
        assert!(vocabulary.scheme("other name").is_none() && vocabulary.scheme("4k+4k").is_none());
        for (name, roles) in [
            ("4k", Roles::Native(SchemeRole::Base)),
            ("new", Roles::Native(SchemeRole::Other)),
            ("4k+free", Roles::Pair(SchemeRole::Base, SchemeRole::Free)),
            ("free+new", Roles::Pair(SchemeRole::Free, SchemeRole::Other)),
        ] {
            assert_eq!(vocabulary.roles(name), roles, "{name}");
        }
        // Of names of one length the first scheme's.
        assert_eq!(vocabulary.named_after("an other name").map(|scheme| &*scheme.name), Some("4k"));
        for (text, words, expected) in [
            ("4k", "4k", true),
            ("a 4k", "4k", true),
            ("4k-b", "4k", true),
            ("64k", "4k", false),
            ("4kb", "4k", false),
            ("64k 4k", "4k", true),
        ] {
            assert_eq!(has_words(text, words), expected, "{text}");
        }
    }
}
