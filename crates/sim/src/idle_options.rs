//! Options that change nothing: known before a run from the schemes that are compared, or after it
//! from what was counted.

use perforate_config::{ConfigError, Key};
use perforate_os::{Defrag, PageLayout, ZoneLayout};
use perforate_schemes::scripted::ScriptRule;
use perforate_schemes::segment;
use perforate_types::Counters;

use crate::{Composition, MemoryOptions, MemoryState, ModeSwitching, Scheme};

/// What comes before the name of an option of the host.
const HOST: &str = "host-";
/// Why an option of the host's memory changes nothing natively.
const NO_HOST: &str = "no GUEST+HOST is compared";

/// Why an option that was given, by its name in [`MemoryOptions::keys`], can change nothing under
/// these schemes on this memory; `None` if it may.
///
/// # Panics
/// If there is no such option.
pub fn idle_option(
    option: &str,
    schemes: &[Composition],
    memory: &MemoryState,
) -> Option<ConfigError> {
    let reason = reason(option, schemes, memory)?;
    let error = ConfigError::new(format!("has no effect: {reason}"));
    Some(match option.strip_prefix(HOST) {
        Some(option) => error.under(option).under("host"),
        None => error.under(option),
    })
}

fn reason(option: &str, schemes: &[Composition], memory: &MemoryState) -> Option<String> {
    if let Some(option) = option.strip_prefix(HOST) {
        let hosts: Vec<&Scheme> = schemes.iter().filter_map(|scheme| scheme.host).collect();
        return match hosts.is_empty() {
            true => memory.host.as_ref().map(|_| NO_HOST.into()),
            false => {
                Side { schemes: hosts, whose: "host's", memory: &memory.host() }.reason(option)
            }
        };
    }
    match option {
        "modes" => modes(memory.modes?, schemes),
        "self-balloon" if memory.background.self_balloon.is_some() => {
            let is_native = schemes.iter().all(|scheme| scheme.host.is_none());
            is_native.then(|| "no GUEST+HOST is compared".into())
        }
        "hot-add"
            if memory.past.hot_add_bytes > 0
                && memory.modes.is_none()
                && memory.background.self_balloon.is_none() =>
        {
            Some("it needs modes or self-balloon".into())
        }
        "io-gap" => io_gap(schemes, memory),
        _ => {
            let own = schemes.iter().map(|scheme| scheme.own).collect();
            let is_virtual = schemes.iter().any(|scheme| scheme.host.is_some());
            let whose = if is_virtual { "native or guest's" } else { "" };
            Side { schemes: own, whose, memory }.reason(option)
        }
    }
}

fn modes(switching: ModeSwitching, schemes: &[Composition]) -> Option<String> {
    let suits = schemes.iter().any(|scheme| switching.suits(scheme));
    (!suits).then(|| "big-memory wants a segment scheme on both sides, compute one as host".into())
}

/// Natively the I/O gap matters to what wants contiguous memory.
fn io_gap(schemes: &[Composition], memory: &MemoryState) -> Option<String> {
    let gap = memory.past.io_gap?;
    if memory.memory_bytes <= gap.kept_bytes.unwrap_or(gap.start_bytes) {
        return Some("memory ends below the gap".into());
    }
    let matters = |scheme: &Composition| scheme.host.is_some() || segment::is_used_by(scheme.own);
    (!schemes.iter().any(matters))
        .then(|| "no GUEST+HOST and no scheme with direct segments is compared".into())
}

/// The schemes that run on one memory.
struct Side<'a> {
    schemes: Vec<&'a Scheme>,
    /// Whose schemes they are, where these are not all.
    whose: &'static str,
    memory: &'a MemoryState,
}

impl Side<'_> {
    fn reason(&self, option: &str) -> Option<String> {
        let MemoryState { past, policies, background, .. } = self.memory;
        let has_past = past.ageing.is_some() || self.memory.snapshot.is_some();
        match option {
            "compaction" if past.compacted && !has_past => {
                Some("memory has no past (age, memory-from): there is nothing to move".into())
            }
            "defrag" if past.defrag != Defrag::Never => self.lacks("2MB pages", maps_large),
            "khugepaged" if background.khugepaged.is_some() => self.lacks("2MB pages", maps_large),
            "perforation" if policies.perforation.is_some() => {
                // A script has options of its own.
                let has = |scheme: &Scheme, memory: &MemoryState| {
                    scheme.shadow_directories && !has_script(scheme, memory)
                };
                self.lacks("perforated pages with options", has)
            }
            "segment" if policies.segment.is_some() => {
                self.lacks("direct segments", |scheme, _| segment::is_used_by(scheme))
            }
            "superpages" if policies.superpages.is_some() => {
                self.lacks("gap-tolerant superpages", |scheme, _| scheme.gap_tolerance.is_some())
            }
            "layout" if self.memory.layout.is_some() => self.lacks("pages by a layout", has_layout),
            "policy" if policies.script.is_some() => self.lacks("a scripted policy", has_script),
            "policy" | "layout" | "memory" | "memory-from" | "swap" | "fragmentation" | "age"
            | "faulty" | "zones" | "compaction" | "defrag" | "khugepaged" | "ksm" | "contents"
            | "perforation" | "segment" | "superpages" | "io-gap" | "hot-add" | "self-balloon" => {
                None
            }
            option => panic!("nothing is said of when the option {option} has an effect"),
        }
    }

    fn lacks(&self, what: &str, has: fn(&Scheme, &MemoryState) -> bool) -> Option<String> {
        let none = !self.schemes.iter().any(|scheme| has(scheme, self.memory));
        let whose = match self.whose {
            "" => String::new(),
            whose => format!("{whose} "),
        };
        none.then(|| format!("no {whose}scheme here has {what}"))
    }
}

fn has_layout(scheme: &Scheme, memory: &MemoryState) -> bool {
    let policy = (scheme.policy)(&memory.policy_options());
    policy.is_ok_and(|policy| policy.rule::<PageLayout>().is_some())
}

fn has_script(scheme: &Scheme, memory: &MemoryState) -> bool {
    let policy = (scheme.policy)(&memory.policy_options());
    policy.is_ok_and(|policy| policy.rule::<ScriptRule>().is_some())
}

fn maps_large(scheme: &Scheme, memory: &MemoryState) -> bool {
    (scheme.policy)(&memory.policy_options()).is_ok_and(|policy| policy.maps_large())
}

/// A note for each option that can change nothing.
pub(crate) fn notes_before(schemes: &[Composition], memory: &MemoryState) -> Vec<String> {
    let is_native = schemes.iter().all(|scheme| scheme.host.is_none());
    let all = MemoryOptions::keys().into_iter();
    let looked_at = all.filter(|Key { name, .. }| !is_native || !name.starts_with(HOST));
    let note = |Key { name, .. }: Key| {
        reason(&name, schemes, memory).map(|reason| format!("{name} has no effect: {reason}"))
    };
    let mut notes: Vec<String> = looked_at.filter_map(note).collect();
    if is_native && memory.host.is_some() {
        notes.push(format!("options of the host have no effect: {NO_HOST}"));
    }
    notes
}

/// Says what ideal schemes do without, where one is among these: they are what others are held
/// against, and run with the options of the others. (Of injected fragmentation another note says so.)
pub(crate) fn note_on_ideal(schemes: &[Composition], memory: &MemoryState) -> Option<String> {
    let MemoryState { past, background, .. } = memory;
    let has_ideal = schemes.iter().any(|scheme| scheme.own.ideal_memory);
    let ignored = [
        (past.ageing.is_some(), "age"),
        (past.faulty.is_some(), "faulty"),
        (past.zones != ZoneLayout::default(), "zones"),
        (past.compacted, "compaction"),
        (past.defrag != Defrag::Never, "defrag"),
        (background.ksm.is_some(), "ksm"),
    ];
    let ignored = ignored.iter().filter(|(given, _)| has_ideal && *given);
    let ignored: Vec<&str> = ignored.map(|(_, option)| *option).collect();
    (!ignored.is_empty()).then(|| format!("the ideal scheme runs without {}", ignored.join(", ")))
}

/// Names the pairs in which no hardware has anything of the guest's mechanism.
pub(crate) fn note_on_shadowed(schemes: &[Composition]) -> Option<String> {
    let has_mechanism = |scheme: &Composition| {
        let policy = (scheme.own.policy)(&Default::default());
        policy.is_ok_and(|policy| policy.hole_rule().is_some() || !policy.backers().is_empty())
    };
    let hidden = schemes.iter().filter(|scheme| scheme.is_shadowed() && has_mechanism(scheme));
    let names: Vec<String> = hidden.map(Composition::name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "{}: the hardware walks shadow tables, which hold ordinary pages only; the guest's scheme \
             decides where its memory lies, but no TLB or walker has anything of it",
            names.join(", ")
        )
    })
}

/// An option that starts work which a run may have no need of.
struct Started {
    option: &'static str,
    is_given: fn(&MemoryState) -> bool,
    /// Counters of which one is more than 0 where the work was done.
    done: &'static [&'static str],
    /// What did not happen.
    missing: &'static str,
}

const STARTED: [Started; 4] = [
    Started {
        option: "swap",
        is_given: |memory| memory.past.swap_bytes > 0,
        done: &["swap_outs"],
        missing: "memory never was so short that the program's had to be swapped out",
    },
    Started {
        option: "defrag",
        is_given: |memory| memory.past.defrag != Defrag::Never,
        done: &["compaction_blocks_scanned"],
        missing: "no page fault lacked a 2MB block for which to compact memory",
    },
    Started {
        option: "khugepaged",
        is_given: |memory| memory.background.khugepaged.is_some(),
        done: &[
            "khugepaged_pages_made_whole",
            "khugepaged_pages_made_perforated",
            "khugepaged_holes_patched",
        ],
        missing: "it made no page larger",
    },
    Started {
        option: "ksm",
        is_given: |memory| memory.background.ksm.is_some(),
        done: &["ksm_pages_merged"],
        missing: "it merged no pages",
    },
];

/// A note on the options of the program's own memory that came to nothing under every scheme; those
/// of which [`notes_before`] says so are left out.
pub(crate) fn note_after(
    schemes: &[Composition],
    memory: &MemoryState,
    counters: &[&Counters],
) -> Option<String> {
    let is_idle = |started: &&Started| {
        let was_done = |name: &&str| counters.iter().any(|counters| counters.get(name) > Some(0.0));
        (started.is_given)(memory)
            && reason(started.option, schemes, memory).is_none()
            && !started.done.iter().any(was_done)
    };
    let idle = STARTED.iter().filter(is_idle);
    let phrases: Vec<String> =
        idle.map(|started| format!("{} ({})", started.option, started.missing)).collect();
    (!phrases.is_empty()).then(|| format!("had no effect in this run: {}", phrases.join(", ")))
}

/// Says so where a scheme with 1GB pages never had one.
pub(crate) fn missing_huge_pages(scheme: &Composition, counters: &Counters) -> Option<String> {
    let policy = (scheme.own.policy)(&Default::default()).ok()?;
    policy.rule::<perforate_os::HugePageRule>()?;
    let always = policy.rule::<ScriptRule>().is_none();
    (always && counters.get("huge_pages") == Some(0.0)).then(|| {
        format!(
            "{}: there never was a 1GB page: no area that was touched holds an aligned one, or no \
             contiguous memory was left for it; it ran as thp",
            scheme.name()
        )
    })
}

/// Says so where a scheme with pages by a layout has none, or had not all of them.
pub(crate) fn missing_laid_out_pages(
    scheme: &Composition,
    memory: &MemoryState,
    counters: &Counters,
) -> Option<String> {
    if !has_layout(scheme.own, memory) {
        return None;
    }
    let name = scheme.name();
    if memory.policy_options().layout.is_none() {
        return Some(format!("{name}: all pages are of 4KB: no --layout says otherwise"));
    }
    let missing = counters.get("layout_missing").filter(|missing| *missing > 0.0)?;
    let pages = counters.get("layout_pages").unwrap_or(0.0);
    Some(format!(
        "{name}: of the larger pages that the layout wants {pages} were mapped; {missing} first \
         touches had a 4KB page instead, for want of contiguous memory"
    ))
}

#[cfg(test)]
mod tests {
    use perforate_config::Given;

    use super::*;

    /// Why an option changes nothing; the empty text if it may change something.
    fn idle(schemes: &str, options: &[(&str, &str)]) -> String {
        let given: Given = options.iter().copied().collect();
        let memory = given.grouped("host").read::<MemoryOptions>().unwrap().resolve().unwrap();
        let schemes = Composition::list(schemes).unwrap();
        let error = idle_option(options[0].0, &schemes, &memory);
        error.map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn guests_whose_mechanism_no_hardware_has() {
        let note = |names: &str| note_on_shadowed(&Composition::list(names).unwrap());
        let told =
            note("4k+shadow-4k,perforated+thp,perforated+shadow-thp,range+shadow-4k").unwrap();
        assert!(told.starts_with("perforated+shadow-thp, range+shadow-4k: the hardware"), "{told}");
        for guest in ["segment-l1", "gt-pde-process"] {
            assert!(note(&format!("{guest}+shadow-4k")).is_some(), "{guest}");
        }
        assert_eq!(note("4k+shadow-4k,thp+shadow-thp,1g+shadow-4k,segment+4k"), None);
    }

    /// Of every option it is known when it has an effect.
    #[test]
    fn no_option_is_left_out() {
        for Key { name, .. } in MemoryOptions::keys() {
            for schemes in ["4k", "ideal", "4k+4k"] {
                let schemes = Composition::list(schemes).unwrap();
                let idle = idle_option(&name, &schemes, &MemoryState::default());
                assert_eq!(idle, None, "{name} was not given");
            }
        }
    }

    #[test]
    fn options_that_no_scheme_here_listens_to() {
        let segments = "segment: has no effect: no scheme here has direct segments";
        let no_large = "has no effect: no scheme here has 2MB pages";
        for (schemes, option, value, expected) in [
            ("4k,thp", "segment", "min=16M", segments.to_owned()),
            ("4k,segment", "segment", "min=16M", String::new()),
            ("4k", "defrag", "always", format!("defrag: {no_large}")),
            ("4k,thp", "defrag", "always", String::new()),
            ("4k", "khugepaged", "default", format!("khugepaged: {no_large}")),
            ("ideal", "age", "weeks", String::new()),
            ("ideal", "swap", "1G", String::new()),
            ("4k", "host-memory", "32G", format!("host: memory: has no effect: {NO_HOST}")),
            ("4k+4k", "host-memory", "32G", String::new()),
            (
                "4k+thp",
                "host-segment",
                "min=16M",
                "host: segment: has no effect: no host's scheme here has direct segments".into(),
            ),
            (
                "perforated+thp",
                "segment",
                "min=16M",
                "segment: has no effect: no native or guest's scheme here has direct segments"
                    .into(),
            ),
            (
                "4k",
                "hot-add",
                "1G",
                "hot-add: has no effect: it needs modes or self-balloon".into(),
            ),
            ("segment", "modes", "big-memory", "modes: has no effect: big-memory wants".into()),
            ("segment+segment", "modes", "big-memory", String::new()),
            ("4k", "io-gap", "pc", "io-gap: has no effect: no GUEST+HOST and no scheme".into()),
            ("segment", "io-gap", "pc", String::new()),
            ("4k", "compaction", "background", "compaction: has no effect: memory has no".into()),
        ] {
            let found = idle(schemes, &[(option, value)]);
            assert!(found.starts_with(&expected), "{schemes} {option}: {found:?}");
            assert_eq!(found.is_empty(), expected.is_empty(), "{schemes} {option}: {found:?}");
        }
        let small = [("io-gap", "pc"), ("memory", "2G")];
        assert!(idle("segment", &small).ends_with("memory ends below the gap"));
        assert_eq!(idle("thp", &[("compaction", "background"), ("age", "weeks")]), "");
    }

    #[test]
    fn what_the_ideal_scheme_does_without_is_told() {
        let given: Given = [("age", "weeks"), ("defrag", "always")].into_iter().collect();
        let memory = given.read::<MemoryOptions>().unwrap().resolve().unwrap();
        let note = |schemes| note_on_ideal(&Composition::list(schemes).unwrap(), &memory);
        assert_eq!(note("4k,ideal").unwrap(), "the ideal scheme runs without age, defrag");
        assert_eq!(note("4k,thp"), None);
    }

    #[test]
    fn work_that_was_never_done_is_told_once_for_all() {
        let memory = MemoryOptions { swap: Some("1G".parse().unwrap()), ..Default::default() };
        let memory = MemoryOptions { defrag: Some(Defrag::Always), ..memory }.resolve().unwrap();
        let schemes = Composition::list("thp,4k").unwrap();
        let counters = |swapped: u64| {
            let figures = [("swap_outs", swapped), ("compaction_blocks_scanned", 0)];
            figures.into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect()
        };
        let (none, some): (Counters, Counters) = (counters(0), counters(1));
        let note = |found: &[&Counters]| note_after(&schemes, &memory, found).unwrap();
        assert!(note(&[&none, &none]).starts_with("had no effect in this run: swap (memory"));
        assert!(note(&[&none, &some]).starts_with("had no effect in this run: defrag (no page"));
        let plain = MemoryState::default();
        assert_eq!(note_after(&schemes, &plain, &[&none]), None, "nothing was asked for");
    }
}
