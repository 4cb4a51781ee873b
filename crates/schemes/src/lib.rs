//! The schemes. Each folder is one mechanism: its operating-system half, its hardware half, and the
//! schemes that use both.
//!
//! A scheme combines an operating-system policy with a dimension (address translation from one
//! address space to the next), which the shared TLB pipeline asks for a translation after a TLB
//! miss. To add a scheme, write a folder and add its list to `GROUPS`. The command line, `perforate
//! list`, the oracle tests and the reports then include it.

mod coalescing;
mod composition;
mod error;
pub mod flat;
pub mod gap_tolerant;
mod mthp;
pub mod pages;
pub mod perforated;
mod range;
pub mod scripted;
pub mod segment;
pub mod shadow;

use perforate_config::{Changes, ConfigError, Options, options};
use perforate_mmu::{BitmapLoading, Coalescing, Dimension, TlbConfig};
use perforate_os::{Kernel, LaidOut, Policy, Setting};
use perforate_script::Script;
use perforate_types::{Counter, Counters, GapTolerance, SchemeFacts, SchemeRole};
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

pub use composition::Composition;
pub use error::SchemeError;
use gap_tolerant::{GapTolerant, SuperpageOptions, SuperpageRule};
use perforated::{Perforated, PerforationOptions};
use scripted::ScriptRule;
use segment::{EscapeFilterConfig, SegmentOptions, SegmentPolicy, SegmentRule};

/// The schemes of all mechanisms, in the order of reports.
const GROUPS: &[&[&Scheme]] = &[
    pages::BASE,
    coalescing::SCHEMES,
    mthp::SCHEMES,
    pages::LARGE,
    perforated::SCHEMES,
    scripted::SCHEMES,
    gap_tolerant::SCHEMES,
    segment::SCHEMES,
    range::SCHEMES,
    pages::BOUNDS,
    shadow::SCHEMES,
    flat::SCHEMES,
];

/// Adds the counters of all mechanisms that are missing in `out`, with value 0, so that all results
/// have equal sets of counters.
pub fn complete(out: &mut Counters) {
    for counter in counters() {
        if out.get(&counter.id).is_none() {
            out.set(counter.id, 0);
        }
    }
}

/// Every scheme that can run a program natively or in a guest, in the order of reports.
pub fn all() -> impl Iterator<Item = &'static Scheme> + Clone {
    registered().filter(|scheme| !scheme.is_for_hosts())
}

/// Every scheme that only hosts can have, under a guest with one of [`all`].
pub fn hosts_only() -> impl Iterator<Item = &'static Scheme> + Clone {
    registered().filter(|scheme| scheme.is_for_hosts())
}

fn registered() -> impl Iterator<Item = &'static Scheme> + Clone {
    GROUPS.iter().copied().flatten().copied()
}

/// Names of the schemes that are compared by default.
pub const DEFAULT: &str = "4k,thp,perforated,ideal";

/// Names of the schemes that are compared by default. `has_layout` and `has_script` are true if the
/// user gave a layout (page sizes of address intervals) or a policy script.
pub const fn default_schemes(has_layout: bool, has_script: bool) -> &'static str {
    match (has_layout, has_script) {
        (false, false) => DEFAULT,
        (true, false) => "4k,layout,thp,ideal",
        (false, true) => "4k,thp,scripted,ideal",
        (true, true) => "4k,layout,thp,scripted,ideal",
    }
}

/// Names of the scheme pairs that are compared by default in a virtual machine: the guest's schemes
/// over a host with 4KB pages, and over a host with 2MB pages. The arguments are those of
/// [`default_schemes`].
pub const fn default_pairs(has_layout: bool, has_script: bool) -> &'static str {
    match (has_layout, has_script) {
        (false, false) => "4k+4k,thp+4k,4k+thp,thp+thp",
        (true, false) => "4k+4k,layout+4k,thp+4k,4k+thp,layout+thp,thp+thp",
        (false, true) => "4k+4k,thp+4k,scripted+4k,4k+thp,thp+thp,scripted+thp",
        (true, true) => "4k+4k,layout+4k,thp+4k,scripted+4k,4k+thp,layout+thp,thp+thp,scripted+thp",
    }
}

/// Inputs for building a scheme's translation hardware: its page tables, and any unit that is
/// looked up in parallel with a TLB.
pub struct Hardware<'a> {
    /// The scheme whose hardware is built.
    pub scheme: &'a Scheme,
    /// The kernel that writes the page tables.
    pub kernel: &'a Kernel,
    /// Configuration of the machine's TLBs.
    pub tlb: &'a TlbConfig,
    /// Size and hash functions of the escape filters of direct segments.
    pub escape_filter: EscapeFilterConfig,
}

options! {
    /// Options of mechanisms' policies, for all compared schemes that have the mechanism. They
    /// override a scheme's own options.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct PolicyOptions, Setting {
        /// Policy for perforated pages, for example max-hole-share=25%,max-filter-bits=4; it overrides
        /// a perforated scheme's own options (see `perforate list perforation`).
        perforation: Option<Changes<PerforationOptions>>, System {
            is_rare: true,
            phrase: |it| it.perforation.as_ref().map(|options| format!("perforation: {options}")),
            idle: |_, setting| setting.lacks("perforated pages with options", |policy| {
                // Script policies have separate options.
                policy.hole_rule().is_some() && policy.rule::<ScriptRule>().is_none()
            }),
        };
        /// Policy for direct segments, for example min=16M,escapes=4 or base=0x…,limit=0x…; it overrides
        /// a segment scheme's own options (see `perforate list segment`).
        #[serde(skip_serializing_if = "Option::is_none")]
        segment: Option<Changes<SegmentOptions>>, System {
            is_rare: true,
            phrase: |it| it.segment.as_ref().map(|options| format!("segment: {options}")),
            idle: |_, setting| setting.lacks("direct segments", |policy| {
                policy.rule::<SegmentRule>().is_some()
            }),
        };
        /// Policy for gap-tolerant superpages, for example least-blocks=32 or from=4G,to=8G (see
        /// `perforate list superpages`).
        #[serde(skip_serializing_if = "Option::is_none")]
        superpages: Option<Changes<SuperpageOptions>>, System {
            is_rare: true,
            phrase: |it| it.superpages.as_ref().map(|options| format!("superpages: {options}")),
            idle: |_, setting| setting.lacks("gap-tolerant superpages", |policy| {
                policy.rule::<SuperpageRule>().is_some()
            }),
        };
        /// Policy of page sizes as a script in the language Rhai, for the schemes scripted and
        /// perforated-scripted: a file, or one of those that come with the program (see `perforate list
        /// policies` and docs/policies.md).
        #[serde(rename = "policy", deserialize_with = "script")]
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<String>")]
        script: Option<Script>, System {
            name: "policy",
            is_rare: true,
            form: "NAME|FILE",
            brief: "A script that chooses page sizes, for the scheme scripted",
            phrase: |it| it.script.as_ref().map(|script| format!("policy {}", script.name())),
            idle: |_, setting| setting.lacks("a scripted policy", |policy| {
                policy.rule::<ScriptRule>().is_some()
            }),
        };
    } and {
        /// Page sizes of parts of the program's memory; `None` without a layout.
        #[serde(skip)]
        layout: Option<LaidOut>;
        /// True if memory is fragmented by the history of a machine that has run for a while, not
        /// by fragmentation generated before the run. Policies then perforate only 2MB blocks with
        /// few holes, as an operating system would.
        #[serde(skip)]
        has_aged_blocks: bool;
    }
}

fn script<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Script>, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    name.map(|name| scripted::load(&name)).transpose().map_err(D::Error::custom)
}

impl PolicyOptions {
    /// Checks the options that the user gave for each mechanism, without those of the schemes.
    /// Combinations with a scheme's own options are checked when its policy is built.
    ///
    /// # Errors
    /// Error of the first option that is wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        fn check<T: Clone, P>(
            changes: Option<&Changes<T>>,
            key: &str,
            make: fn(T) -> Result<P, ConfigError>,
        ) -> Result<(), ConfigError> {
            let policy = changes.map(|changes| make(changes.values().clone())).transpose();
            policy.map(|_| ()).map_err(|error| error.under(key))
        }
        check(self.perforation.as_ref(), "perforation", Perforated::new)?;
        check(self.segment.as_ref(), "segment", SegmentPolicy::new)?;
        check(self.superpages.as_ref(), "superpages", GapTolerant::new)
    }
}

/// Counters of all mechanisms in this crate, without duplicates.
pub fn counters() -> Vec<Counter> {
    let mut found: Vec<Counter> = Vec::new();
    for counter in registered().flat_map(|scheme| (scheme.counters)()) {
        if found.iter().all(|known| known.id != counter.id) {
            found.push(counter);
        }
    }
    found
}

/// Function that builds a scheme's page tables, and any unit that is looked up in parallel with the
/// TLBs.
pub type MakeDimension = fn(&Hardware<'_>) -> Box<dyn Dimension>;

/// Function that builds an operating-system policy from a scheme's options, overridden by the given
/// options.
pub type MakePolicy = fn(&PolicyOptions) -> Result<Box<dyn Policy>, ConfigError>;

/// One scheme: an operating-system policy and the translation hardware.
pub struct Scheme {
    /// Name of the scheme on the command line and in results files.
    pub name: &'static str,
    /// Description of the scheme in one line.
    pub summary: &'static str,
    /// Paper and section that proposes the scheme, or the system that it models.
    pub source: &'static str,
    /// Alternative names of the scheme, as used for curves of experiments.
    pub other_names: &'static [&'static str],
    /// Colour of the scheme in reports: a name in `report/src/palette.rs` that states its meaning.
    pub colour: &'static str,
    /// Counters of the scheme's mechanism, in addition to those of every scheme.
    pub counters: fn() -> Vec<Counter>,
    /// True if the scheme always runs on unfragmented memory, whatever the options.
    pub ideal_memory: bool,
    /// True if translation takes no time, including that of a guest over any host.
    pub free_translation: bool,
    /// True for a hypervisor that keeps shadow tables (D §II.A), so that the hardware walks one set
    /// of tables, without nested translation. The hardware does not see the guest's scheme.
    pub shadow_paging: bool,
    /// True for a hypervisor with a flat table instead of a nested page table (D §X).
    pub flat_table: bool,
    /// Reason why the scheme cannot be a guest's or host's scheme; `None` if it can. The reason does
    /// not apply to guests under shadow tables, which hide the guest's scheme from the hardware.
    pub native_only: Option<&'static str>,
    /// True if level-2 nodes are pairs of frames, node and shadow node (P §IV.B).
    pub shadow_directories: bool,
    /// Mode of gap-tolerant page-directory entries (G §3.7); `None` without such entries.
    pub gap_tolerance: Option<GapTolerance>,
    /// Loading policy for the bitmaps of pages with holes; `None` without such pages.
    pub bitmap_loading: Option<BitmapLoading>,
    /// Coalescing of 4KB pages in the second-level TLB; `None` for the machine file's setting.
    pub coalescing: Option<Coalescing>,
    /// Builds the operating system's policy.
    pub policy: MakePolicy,
    /// Builds the page tables and other translation hardware.
    pub dimension: MakeDimension,
}

impl Scheme {
    /// True if only hosts can have the scheme.
    fn is_for_hosts(&self) -> bool {
        self.shadow_paging || self.flat_table
    }

    /// Finds a scheme by its name, among those that can run a program.
    ///
    /// # Errors
    /// [`SchemeError::Unknown`], with similar or all names.
    pub fn find(name: &str) -> Result<&'static Self, SchemeError> {
        Self::find_among(all(), name)
    }

    /// Finds a scheme for a host by its name, including schemes that only hosts can have.
    ///
    /// # Errors
    /// [`SchemeError::Unknown`], with similar or all names.
    pub fn find_for_host(name: &str) -> Result<&'static Self, SchemeError> {
        Self::find_among(registered(), name)
    }

    fn find_among(
        mut schemes: impl Iterator<Item = &'static Self> + Clone,
        name: &str,
    ) -> Result<&'static Self, SchemeError> {
        let known = schemes.clone();
        schemes.find(|scheme| scheme.name == name).ok_or_else(|| {
            let known: Vec<&str> = known.map(|scheme| scheme.name).chain(["all"]).collect();
            let suggestion = match name {
                "all" => "for every scheme, write all alone".into(),
                _ => perforate_config::suggestion(name, &known),
            };
            SchemeError::Unknown { name: name.into(), suggestion }
        })
    }

    /// Facts about the scheme that reports need: names, colour, Linux setting, and role in comparisons (such
    /// as baseline or upper bound).
    pub fn facts(&self) -> SchemeFacts {
        let is = |scheme: &Self| self.name == scheme.name;
        let role = match () {
            () if is(&pages::BASE_PAGES) => SchemeRole::Base,
            () if is(&pages::TRANSPARENT_LARGE_PAGES) => SchemeRole::Conventional,
            () if is(&perforated::PERFORATED) => SchemeRole::Proposal,
            () if self.free_translation => SchemeRole::Free,
            () if self.ideal_memory => SchemeRole::Ideal,
            () if self.shadow_directories => SchemeRole::Variant,
            () => SchemeRole::Other,
        };
        SchemeFacts {
            name: self.name.into(),
            other_names: self.other_names.iter().map(|&name| name.into()).collect(),
            colour: self.colour.into(),
            role,
            setting: pages::setting(self.name)
                .map(Into::into)
                .or_else(|| mthp::setting(self.name).map(Into::into)),
        }
    }

    /// Name and options of the scheme's policy, as in results files.
    pub fn describe_policy(&self, options: &PolicyOptions) -> String {
        let policy = (self.policy)(options);
        policy.map_or_else(|error| error.to_string(), |policy| policy.describe())
    }
}

/// Builds a policy from a scheme's `own` options, overridden by `changes`. Errors name the option
/// `key`.
fn with_changes<T: Options, P: Policy + 'static>(
    key: &str,
    changes: Option<&Changes<T>>,
    own: T,
    make: fn(T) -> Result<P, ConfigError>,
) -> Result<Box<dyn Policy>, ConfigError> {
    let options = match changes {
        Some(changes) => changes.over(&own),
        None => Ok(own),
    };
    let policy = options.and_then(make).map_err(|error| error.under(key))?;
    Ok(Box::new(policy))
}

/// Lists the options of a policy as `NAME=FORM [DEFAULT]`, for tests. Each option must have a help
/// text.
#[cfg(test)]
fn listed<T: Options>() -> Vec<String> {
    let line = |key: perforate_config::Key| {
        assert!(!key.help.is_empty(), "{}", key.name);
        format!("{}={} [{}]", key.name, key.form, key.default)
    };
    perforate_config::keys::<T>().into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_defaults_exist() {
        let all: Vec<_> = registered().collect();
        for (index, scheme) in all.iter().enumerate() {
            assert!(all[index + 1..].iter().all(|other| other.name != scheme.name));
            assert!(!scheme.summary.is_empty() && !scheme.source.is_empty());
        }
        assert_eq!(Composition::list(DEFAULT).unwrap().len(), 4);
    }

    #[test]
    fn schemes_have_the_roles_that_reports_give_them() {
        for (name, role) in [
            ("4k", SchemeRole::Base),
            ("thp", SchemeRole::Conventional),
            ("perforated", SchemeRole::Proposal),
            ("perforated-naive", SchemeRole::Variant),
            ("ideal", SchemeRole::Ideal),
            ("free", SchemeRole::Free),
            ("segment", SchemeRole::Other),
        ] {
            assert_eq!(Scheme::find(name).unwrap().facts().role, role, "{name}");
        }
    }

    #[test]
    fn options_of_a_run_win_over_those_of_a_scheme() {
        let perforation = perforate_config::read("holes=lazy,max-hole-share=50%").unwrap();
        let segment = perforate_config::read("escapes=4").unwrap();
        let options = PolicyOptions { perforation, segment, ..PolicyOptions::default() };
        for (name, plain, changed) in [
            ("thp", "thp", "thp"),
            (
                "perforated-selective",
                "perforated:max-hole-share=25%,max-filter-bits=4",
                "perforated:max-hole-share=50%,max-filter-bits=4,holes=lazy",
            ),
            ("perforated", "perforated", "perforated:max-hole-share=50%,holes=lazy"),
            (
                "perforated-lazy",
                "perforated:holes=lazy",
                "perforated:max-hole-share=50%,holes=lazy",
            ),
            ("segment-thp", "segment:pages=2m", "segment:pages=2m,escapes=4"),
            ("gt-pde-4m", "gap-tolerant", "gap-tolerant"),
        ] {
            let scheme = Scheme::find(name).unwrap();
            assert_eq!(scheme.describe_policy(&PolicyOptions::default()), plain);
            assert_eq!(scheme.describe_policy(&options), changed);
        }
    }

    #[test]
    fn contradicting_options_are_refused() {
        let perforation = perforate_config::read("demote-above=10%").unwrap();
        let options = PolicyOptions { perforation, ..PolicyOptions::default() };
        let error = (Scheme::find("perforated-selective").unwrap().policy)(&options).err().unwrap();
        assert_eq!(
            error.to_string(),
            "perforation: demote-above=10% is less than max-hole-share=25%: pages could be made \
             that are to be demoted"
        );
    }

    /// Options that are wrong by themselves are named before a scheme is made, the first mechanism first.
    #[test]
    fn wrong_options_are_named_with_their_mechanism() {
        assert_eq!(PolicyOptions::default().check(), Ok(()));
        let wrong = || PolicyOptions {
            perforation: perforate_config::read("hole-cost=-1").unwrap(),
            segment: perforate_config::read("limit=0x2000").unwrap(),
            superpages: perforate_config::read("from=1G,to=1G").unwrap(),
            ..PolicyOptions::default()
        };
        let texts = [
            wrong(),
            PolicyOptions { perforation: None, ..wrong() },
            PolicyOptions { perforation: None, segment: None, ..wrong() },
        ]
        .map(|options| options.check().unwrap_err().to_string());
        assert_eq!(
            texts,
            [
                "perforation: hole-cost: is a number of frame copies from 0 on, not -1",
                "segment: limit needs base, the first byte of the segment",
                "superpages: to: is more than from: no slice lies between them",
            ]
        );
    }

    #[test]
    fn unknown_schemes_are_told_with_similar_ones() {
        for (name, text) in [
            ("tph", "no scheme \"tph\"; did you mean thp?"),
            ("perforated-lasy", "no scheme \"perforated-lasy\"; did you mean perforated-lazy?"),
            ("alll", "no scheme \"alll\"; did you mean all?"),
        ] {
            assert_eq!(Scheme::find(name).err().unwrap().to_string(), text);
        }
        // Only hosts have shadow paging.
        assert!(Scheme::find("shadow-4k").is_err() && Scheme::find_for_host("shadow-4k").is_ok());
    }
}
