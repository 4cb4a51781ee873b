//! Detection of options without effect: before a run from its schemes, after it from its counters.

use perforate_config::{ConfigError, Row, Table};
use perforate_os::{KernelConfig, PageLayout, Setting};
use perforate_schemes::scripted::ScriptRule;
use perforate_schemes::segment;
use perforate_types::Counters;

use crate::memory::GuestOptions;
use crate::{Composition, MemoryOptions, MemoryState, Scheme};

/// Prefix of the names of options for the host.
const HOST: &str = "host-";
/// Reason why options of the host's memory have no effect in a native run, for error messages.
const NO_HOST: &str = "no GUEST+HOST is compared";

impl MemoryOptions {
    /// Checks that each of these options has an effect under these schemes. `memory` is the memory
    /// that these options describe.
    ///
    /// # Errors
    /// The first option without effect, with the reason.
    pub fn check_effects(
        &self,
        schemes: &[Composition],
        memory: &MemoryState,
    ) -> Result<(), ConfigError> {
        let of_host = self.host.as_ref().filter(|_| is_native(schemes));
        let (name, reason) = match idle(schemes, memory).into_iter().next() {
            Some(found) => found,
            None => match of_host.and_then(|host| host.first_set()) {
                Some(option) => (format!("{HOST}{option}"), NO_HOST.into()),
                None => return Ok(()),
            },
        };
        let error = ConfigError::new(format!("has no effect: {reason}"));
        Err(match name.strip_prefix(HOST) {
            Some(option) => error.under(option).under("host"),
            None => error.under(name),
        })
    }

    /// Returns the name of the first of these memory options that differs from its default; `None`
    /// if none does.
    fn first_set(&self) -> Option<String> {
        let size = self.size.set_rows().map(Row::option);
        let kernel = self.kernel.set_rows().map(Row::option);
        let policies = self.policies.set_rows().map(Row::option);
        size.chain(kernel).chain(policies).next()
    }
}

fn is_native(schemes: &[Composition]) -> bool {
    schemes.iter().all(|scheme| scheme.host.is_none())
}

/// Returns the options without effect under these schemes, as pairs of name and reason. Names of
/// options for the host begin with `host-`.
fn idle(schemes: &[Composition], memory: &MemoryState) -> Vec<(String, String)> {
    let is_virtual = !is_native(schemes);
    let own: Vec<&Scheme> = schemes.iter().map(|scheme| scheme.own).collect();
    let suits = |modes: &crate::ModeSwitching| schemes.iter().any(|scheme| modes.suits(scheme));
    let setting = Setting {
        policies: policies(&own, memory),
        side: if is_virtual { "native or guest's " } else { "" },
        is_virtual,
        has_segments: own.iter().any(|scheme| segment::is_used_by(scheme)),
        switches_modes: memory.modes.as_ref().is_some_and(suits),
    };
    let guest = GuestOptions {
        layout: memory.layout.as_ref().map(|layout| layout.name.clone()),
        modes: memory.modes,
    };
    let mut found = memory.kernel.idle(&setting);
    found.extend(memory.policies.idle(&setting));
    found.extend(guest.idle(&setting));
    let named = |prefix: &'static str| {
        move |(name, reason): (String, String)| (format!("{prefix}{name}"), reason)
    };
    if let (true, Some(memory)) = (is_virtual, &memory.host) {
        let hosts: Vec<&Scheme> = schemes.iter().filter_map(|scheme| scheme.host).collect();
        let setting = Setting { policies: policies(&hosts, memory), side: "host's ", ..setting };
        found.extend(memory.kernel.idle(&setting).into_iter().map(named(HOST)));
        found.extend(memory.policies.idle(&setting).into_iter().map(named(HOST)));
    }
    found
}

/// Returns the kernel policies that these schemes have in this memory.
fn policies(schemes: &[&Scheme], memory: &MemoryState) -> Vec<Box<dyn perforate_os::Policy>> {
    let options = memory.policy_options();
    schemes.iter().filter_map(|scheme| (scheme.policy)(&options).ok()).collect()
}

fn has_layout(scheme: &Scheme, memory: &MemoryState) -> bool {
    let policy = (scheme.policy)(&memory.policy_options());
    policy.is_ok_and(|policy| policy.rule::<PageLayout>().is_some())
}

/// Returns a note for each option without effect under these schemes.
pub(crate) fn notes_before(schemes: &[Composition], memory: &MemoryState) -> Vec<String> {
    let note = |(name, reason): (String, String)| format!("{name} has no effect: {reason}");
    let mut notes: Vec<String> = idle(schemes, memory).into_iter().map(note).collect();
    if is_native(schemes) && memory.host.is_some() {
        notes.push(format!("options of the host have no effect: {NO_HOST}"));
    }
    notes
}

/// Returns a note on options that the ideal scheme ignores; `None` if there are none. Another note
/// covers the option `fragmentation`.
pub(crate) fn note_on_ideal(schemes: &[Composition], memory: &MemoryState) -> Option<String> {
    if !schemes.iter().any(|scheme| scheme.own.ideal_memory) {
        return None;
    }
    let ignored = memory.kernel.set_rows().filter(|row| row.ideal_ignores);
    let names = ignored.map(|row| row.name).filter(|name| *name != "fragmentation");
    let names: Vec<&str> = names.collect();
    (!names.is_empty()).then(|| format!("the ideal scheme runs without {}", names.join(", ")))
}

/// Returns a note on pairs of guest and host in which shadow paging hides the guest's mechanism
/// from the hardware; `None` if there are none.
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

/// Returns a note on options of the program's memory that caused no work under any scheme; `None`
/// if there are none. Omits options that [`notes_before`] covers.
pub(crate) fn note_after(
    schemes: &[Composition],
    memory: &MemoryState,
    counters: &[&Counters],
) -> Option<String> {
    let known_before = idle(schemes, memory);
    let was_done = |name: &&str| counters.iter().any(|counters| counters.get(name) > Some(0.0));
    let phrase = |row: &Row<KernelConfig>| {
        let work = row.work?;
        let is_known = known_before.iter().any(|(name, _)| *name == row.option());
        let is_idle = !is_known && !work.counters.iter().any(was_done);
        is_idle.then(|| format!("{} ({})", row.name, work.missing))
    };
    let phrases: Vec<String> = memory.kernel.set_rows().filter_map(phrase).collect();
    (!phrases.is_empty()).then(|| format!("had no effect in this run: {}", phrases.join(", ")))
}

/// Returns a note on a scheme with 1GB pages that never mapped one; `None` for other schemes.
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

/// Checks that schemes with page sizes from a layout have one: without it, all their pages would be of 4KB,
/// and their figures those of another scheme. A host never has a layout. `--scheme all` names the scheme with the
/// rest, for which a note is enough.
///
/// # Errors
/// The first scheme without a layout.
pub(crate) fn check_layouts(
    schemes: &[Composition],
    memory: &MemoryState,
) -> Result<(), ConfigError> {
    let names = |name: &str| schemes.iter().any(|scheme| scheme.name() == name);
    let are_all = perforate_schemes::all().all(|scheme| names(scheme.name));
    let has_none = memory.policy_options().layout.is_none() && !are_all;
    for scheme in schemes {
        let problem = if has_none && has_layout(scheme.own, memory) {
            "its page sizes are those of --layout; expected --layout FILE (docs/layouts.md), or another scheme"
        } else if scheme.host.is_some_and(|host| has_layout(host, memory)) {
            "a host's memory has no layout of page sizes; expected another host scheme"
        } else {
            continue;
        };
        return Err(ConfigError::new(format!("{}: {problem}", scheme.name())).under("scheme"));
    }
    Ok(())
}

/// Returns a note on a scheme with page sizes from a layout, if it had no layout or could not map all its pages;
/// otherwise `None`.
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
    use super::*;
    use crate::MemorySnapshot;

    fn read(options: &[(&str, &str)]) -> (MemoryOptions, MemoryState) {
        let options = MemoryOptions::read(options.iter().copied().collect()).unwrap();
        let memory = options.resolve(&MemorySnapshot::load).unwrap();
        (options, memory)
    }

    /// Returns the reasons why the options have no effect; empty if they may have one.
    fn idle(schemes: &str, options: &[(&str, &str)]) -> String {
        let (options, memory) = read(options);
        let checked = options.check_effects(&Composition::list(schemes).unwrap(), &memory);
        checked.err().map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn guests_whose_mechanism_no_hardware_has() {
        let note = |names: &str| note_on_shadowed(&Composition::list(names).unwrap());
        let text =
            note("4k+shadow-4k,perforated+thp,perforated+shadow-thp,range+shadow-4k").unwrap();
        assert!(text.starts_with("perforated+shadow-thp, range+shadow-4k: the hardware"), "{text}");
        for guest in ["segment-l1", "gt-pde-process"] {
            assert!(note(&format!("{guest}+shadow-4k")).is_some(), "{guest}");
        }
        assert_eq!(note("4k+shadow-4k,thp+shadow-thp,1g+shadow-4k,segment+4k"), None);
    }

    #[test]
    fn options_that_are_not_given_are_not_idle() {
        for schemes in ["4k", "ideal", "4k+4k"] {
            assert_eq!(idle(schemes, &[]), "", "{schemes}");
        }
    }

    #[test]
    fn options_that_no_scheme_here_uses() {
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
        // The gap of a PC begins at 3GB.
        for (memory, is_below) in [("2G", true), ("3G", true), ("3074M", false)] {
            let found = idle("segment", &[("io-gap", "pc"), ("memory", memory)]);
            assert_eq!(found.ends_with("memory ends below the gap"), is_below, "{memory}: {found}");
        }
        assert_eq!(idle("thp", &[("compaction", "background"), ("age", "weeks")]), "");
    }

    #[test]
    fn options_that_the_ideal_scheme_ignores_are_noted() {
        let (_, memory) = read(&[("age", "weeks"), ("defrag", "always")]);
        let note = |schemes| note_on_ideal(&Composition::list(schemes).unwrap(), &memory);
        assert_eq!(note("4k,ideal").unwrap(), "the ideal scheme runs without age, defrag");
        assert_eq!(note("4k,thp"), None);
    }

    #[test]
    fn options_that_caused_no_work_are_noted_once() {
        let (_, memory) = read(&[("swap", "1G"), ("defrag", "always")]);
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

    /// Each kind of option of a host is named in a native run; those of a host without options are not.
    #[test]
    fn options_of_a_host_need_a_host() {
        for (option, value) in [
            ("host-memory", "32G"),
            ("host-swap", "1G"),
            ("host-perforation", "max-hole-share=5%"),
            ("host-fragmentation", "portion=5%,holes=5%,clustered"),
        ] {
            let name = option.strip_prefix("host-").unwrap();
            let expected = format!("host: {name}: has no effect: no GUEST+HOST is compared");
            assert_eq!(idle("4k,thp", &[(option, value)]), expected);
            let (_, memory) = read(&[(option, value)]);
            let notes = notes_before(&Composition::list("4k").unwrap(), &memory);
            assert_eq!(notes, ["options of the host have no effect: no GUEST+HOST is compared"]);
            let notes =
                notes_before(&Composition::list("4k,perforated+perforated").unwrap(), &memory);
            assert_eq!(notes, [""; 0]);
        }
        let (_, memory) = read(&[("host-segment", "min=16M"), ("host-memory", "32G")]);
        let notes = notes_before(&Composition::list("segment+thp").unwrap(), &memory);
        let expected = "host-segment has no effect: no host's scheme here has direct segments";
        assert_eq!(notes, [expected]);
        assert_eq!(notes_before(&Composition::list("4k+segment").unwrap(), &memory), [""; 0]);
    }

    #[test]
    fn a_scheme_of_laid_out_pages_needs_a_layout() {
        let mut memory = MemoryState::default();
        let problem = |names: &str, memory: &MemoryState| {
            let found = check_layouts(&Composition::list(names).unwrap(), memory);
            found.err().map(|error| error.to_string())
        };
        let expected = "scheme: layout: its page sizes are those of --layout; expected --layout FILE \
                        (docs/layouts.md), or another scheme";
        assert_eq!(problem("4k,layout", &memory).as_deref(), Some(expected));
        assert!(problem("layout+thp", &memory).unwrap().starts_with("scheme: layout+thp: its"));
        assert_eq!(problem("4k,thp+4k,scripted", &memory), None);
        assert_eq!(problem("all", &memory), None);
        memory.policies.layout = Some(perforate_os::LaidOut {
            layout: PageLayout::new(Vec::new()),
            ..Default::default()
        });
        assert_eq!(problem("layout,layout+thp", &memory), None);
        let expected = "scheme: 4k+layout: a host's memory has no layout of page sizes; expected another \
                        host scheme";
        assert_eq!(problem("4k+layout", &memory).as_deref(), Some(expected));
    }

    #[test]
    fn the_ideal_scheme_has_a_note_only_on_what_it_lacks() {
        let note = |schemes: &str, options: &[(&str, &str)]| {
            note_on_ideal(&Composition::list(schemes).unwrap(), &read(options).1)
        };
        let fragmented = ("fragmentation", "portion=5%,holes=5%,clustered");
        assert_eq!(note("ideal", &[fragmented]), None, "another note is on it");
        assert_eq!(note("ideal", &[("memory", "1G")]), None);
        let both = note("4k,ideal", &[fragmented, ("faulty", "uniform=1%")]).unwrap();
        assert_eq!(both, "the ideal scheme runs without faulty");
    }

    #[test]
    fn schemes_of_large_pages_say_that_they_had_none() {
        let counters = |names: &[(&str, u64)]| -> Counters {
            names.iter().map(|(name, count)| ((*name).to_owned(), (*count).into())).collect()
        };
        let huge = |scheme: &str, pages| {
            let scheme = Composition::find(scheme).unwrap();
            missing_huge_pages(&scheme, &counters(&[("huge_pages", pages)]))
        };
        let expected = "1g: there never was a 1GB page: no area that was touched holds an aligned \
                        one, or no contiguous memory was left for it; it ran as thp";
        assert_eq!(huge("1g", 0).as_deref(), Some(expected));
        assert!(huge("1g+thp", 0).unwrap().starts_with("1g+thp: there never"));
        for (scheme, pages) in [("1g", 1), ("thp", 0), ("thp+1g", 0), ("scripted", 0)] {
            assert_eq!(huge(scheme, pages), None, "{scheme}");
        }
        let laid_out = |scheme: &str, memory: &MemoryState, pages, missing| {
            let scheme = Composition::find(scheme).unwrap();
            let counters = counters(&[("layout_pages", pages), ("layout_missing", missing)]);
            missing_laid_out_pages(&scheme, memory, &counters)
        };
        let mut memory = MemoryState::default();
        assert_eq!(laid_out("thp", &memory, 0, 5), None);
        let none = "layout: all pages are of 4KB: no --layout says otherwise";
        assert_eq!(laid_out("layout", &memory, 0, 0).as_deref(), Some(none));
        memory.policies.layout = Some(perforate_os::LaidOut {
            layout: PageLayout::new(Vec::new()),
            name: "x.csv".into(),
        });
        assert_eq!(laid_out("layout", &memory, 3, 0), None);
        assert_eq!(
            laid_out("layout", &memory, 3, 2).unwrap(),
            "layout: of the larger pages that the layout wants 3 were mapped; 2 first touches had a \
             4KB page instead, for want of contiguous memory"
        );
    }
}
