//! Policies as scripts. A script (`--policy`) chooses the operating system's page sizes, on
//! ordinary page tables or on page tables with perforated pages.
//!
//! - `policy`: passes the kernel's questions to the script.
//! - `bundled`: scripts that are part of the program.

mod bundled;
mod policy;

use perforate_os::Policy;
use perforate_types::registered;

use crate::{PolicyOptions, Scheme, pages, perforated};
pub use bundled::{bundled, load};
pub use perforate_script::{Script, ScriptError};
pub use policy::ScriptRule;
use policy::{SCRIPTED as FIGURES, Scripted, Tables};

/// Schemes whose policy is a script.
pub(crate) const SCHEMES: &[&Scheme] = &[&SCRIPTED, &PERFORATED_SCRIPTED];

/// Scheme with a script policy on ordinary page tables.
const SCRIPTED: Scheme = Scheme {
    name: "scripted",
    summary: "4KB, 2MB and 1GB pages as the script of --policy chooses; without one, as thp",
    source: "Linux's thp_vma_allowable_orders(), and proposals to have BPF answer it",
    other_names: &[],
    colour: "scripted",
    counters: || registered(FIGURES),
    policy: |options| Ok(scripted(options, "thp", Tables::Ordinary)),
    ..pages::TRANSPARENT_LARGE_PAGES
};

/// Scheme with a script policy on page tables with perforated pages.
const PERFORATED_SCRIPTED: Scheme = Scheme {
    name: "perforated-scripted",
    summary: "perforated pages as the script of --policy chooses; without one, as perforated",
    source: "P §IV, with the operating system's part in a script",
    counters: || registered(FIGURES),
    policy: |options| Ok(scripted(options, "perforated", Tables::Perforated)),
    ..perforated::PERFORATED
};

/// Makes a policy from the script that `options` name, or by default from the bundled script
/// `default`.
fn scripted(options: &PolicyOptions, default: &str, tables: Tables) -> Box<dyn Policy> {
    let script = options.script.clone();
    let script = script.unwrap_or_else(|| bundled::find(default).expect("it is bundled"));
    Box::new(Scripted::new(script, tables, options.has_aged_blocks))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The two script policies have different names in reports and traces.
    #[test]
    fn a_policy_is_named_after_its_scheme_and_its_script() {
        let policies = [SCRIPTED, PERFORATED_SCRIPTED]
            .map(|scheme| (scheme.policy)(&PolicyOptions::default()).unwrap());
        let names = policies.each_ref().map(|policy| policy.name());
        assert_eq!(names, ["scripted", "perforated-scripted"]);
        let described = policies.each_ref().map(|policy| policy.describe());
        assert_eq!(described, ["scripted:thp", "perforated-scripted:perforated"]);
    }
}
