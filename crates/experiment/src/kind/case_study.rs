//! What case studies share: settings, what they do to a system and read from it, random numbers that
//! are the same for every subject, and a closed form.

use std::collections::BTreeMap;
use std::path::Path;

use perforate_os::{KhugepagedConfig, Work};
use perforate_sim::{Machine, SimError, System};
use perforate_trace::WorkloadSpec;
use perforate_types::Counters;

use super::simulation::hash_of_file;
use super::{Setting, Settings};

/// Bytes of a page, and pages of a 2MB region.
pub const PAGE_BYTES: u64 = 4096;
pub const REGION_PAGES: u64 = 512;

/// Whether the oracle checks.
pub const CHECK: Setting = Setting {
    key: "check",
    meaning: "whether every translation is compared with the oracle: true or false",
    default: Some("false"),
};

/// Reads [`CHECK`].
pub fn is_checked(settings: &Settings) -> Result<bool, String> {
    settings.value(CHECK.key, false)
}

/// Other values for keys of the machine file.
pub const MACHINE_KEYS: Setting = Setting {
    key: "machine.",
    meaning: "another value for a key of the machine file, as machine.walker.walkers",
    default: None,
};

/// The machine that the setting `machine` names, with other values for some of its keys.
pub fn machine(settings: &Settings, default: &str) -> Result<Machine, String> {
    let name = settings.text("machine").unwrap_or(default);
    Machine::load_with(name, settings.below("machine.")).map_err(|error| error.to_string())
}

/// What the machine file says, and for each of these settings that names a file what it holds.
pub fn inputs(settings: &Settings, default: &str, keys: &[&str]) -> Result<Vec<String>, String> {
    let name = settings.text("machine").unwrap_or(default);
    let mut inputs = files(settings, keys)?;
    inputs.push(Machine::text(name).map_err(|error| error.to_string())?);
    Ok(inputs)
}

/// For each of these settings that names a file, what the file holds.
pub fn files(settings: &Settings, keys: &[&str]) -> Result<Vec<String>, String> {
    let paths = keys.iter().filter_map(|key| settings.text(key)).map(Path::new);
    paths.filter(|path| path.is_file()).map(hash_of_file).collect()
}

/// A count from `least` to `most`.
pub fn bounded(
    settings: &Settings,
    key: &str,
    default: u64,
    (least, most): (u64, u64),
) -> Result<u64, String> {
    let count = settings.count(key, default)?;
    if !(least..=most).contains(&count) {
        return Err(format!("setting {key:?} is a number from {least} to {most}, not {count}"));
    }
    Ok(count)
}

/// The same numbers for every subject, from a seed (splitmix64).
pub struct Random(pub u64);

impl Random {
    /// A number from 0 up to 1, evenly.
    pub fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A whole number below `bound`, evenly.
    pub fn below(&mut self, bound: u64) -> u64 {
        (self.fraction() * bound as f64) as u64
    }
}

/// Settings that are parameters of the workload of a case study, by their keys: its name, a point
/// and the name of a parameter.
pub const fn workload_setting(key: &'static str) -> Setting {
    let meaning = "a parameter of the workload, as `perforate list workloads` has them";
    Setting { key, meaning, default: None }
}

/// The workload of this name with the parameters that settings give, or else these.
pub fn workload(
    settings: &Settings,
    name: &str,
    defaults: &[(&str, &str)],
) -> Result<WorkloadSpec, String> {
    let prefix = format!("{name}.");
    let mut given: BTreeMap<&str, &str> = defaults.iter().copied().collect();
    given.extend(settings.below(&prefix));
    let parameters = given.iter().filter(|(_, text)| **text != "false").map(|(key, text)| {
        if *text == "true" { (*key).to_owned() } else { format!("{key}={text}") }
    });
    let parameters = parameters.collect::<Vec<_>>().join(",");
    let text = if parameters.is_empty() { name.into() } else { format!("{name}:{parameters}") };
    WorkloadSpec::parse(&text).map_err(|error| error.to_string())
}

/// Lets khugepaged scan everything until a scan changes nothing.
pub fn promote(system: &mut System, knobs: KhugepagedConfig) -> Result<(), SimError> {
    let knobs = KhugepagedConfig { pages_to_scan: u64::MAX, ..knobs };
    system.change(|kernel, _| kernel.set_khugepaged(knobs))?;
    loop {
        let patched = system.kernel().work().subpages_patched;
        let pass = system.change(|kernel, updates| Ok(kernel.khugepaged_pass(updates)))?;
        let promoted = pass.regions_collapsed + pass.regions_perforated;
        if promoted == 0 && system.kernel().work().subpages_patched == patched {
            return Ok(());
        }
    }
}

/// What the operating system did since counts began takes so many cycles.
pub fn system_cycles(machine: &Machine, system: &System) -> u64 {
    cycles(machine, &system.work())
}

/// What work of the operating system takes, in cycles.
pub fn cycles(machine: &Machine, work: &Work) -> u64 {
    machine.operating_system.cycles(work, machine.core.frequency_ghz).total()
}

/// All counters of a system.
pub fn counters(system: &System) -> Counters {
    let mut counters = Counters::default();
    system.record(1, &mut counters);
    counters
}

/// The figure of this name.
pub fn counter(counters: &Counters, name: &str) -> f64 {
    counters.get(name).unwrap_or_else(|| panic!("{name} is a counter"))
}

/// How many of `places` different places `throws` even throws hit on average:
/// n·(1 − (1 − 1/n)^k).
pub fn places_hit(places: f64, throws: f64) -> f64 {
    -places * ((-1.0 / places).ln_1p() * throws).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(key: &str, text: &str) -> Settings {
        Settings([(key.into(), text.into())].into())
    }

    #[test]
    fn workloads_are_made_of_settings() {
        let settings = |texts: &[(&str, &str)]| {
            Settings(texts.iter().map(|(key, text)| ((*key).into(), (*text).into())).collect())
        };
        let text = |texts: &[(&str, &str)]| {
            workload(&settings(texts), "store", &[("reads", "5")]).map(|spec| spec.to_string())
        };
        let with = |more: &str| format!("store:keys=500k,value=16K{more}");
        assert_eq!(text(&[("check", "true")]), Ok(with(",live=100%,page-reads=0,reads=5")));
        let given = [("store.live", "50%"), ("store.reads", "7"), ("store.compact", "true")];
        assert_eq!(text(&given), Ok(with(",compact,live=50%,page-reads=0,reads=7")));
        let problem = text(&[("store.keys", "0")]).unwrap_err();
        assert!(problem.contains("keys=0"), "{problem}");
    }

    #[test]
    fn counts_have_bounds() {
        let count = |text: &str| bounded(&settings("takers", text), "takers", 5, (1, 9000));
        assert_eq!((count("7"), count("9k")), (Ok(7), Ok(9000)));
        for wrong in ["0", "9001"] {
            assert!(count(wrong).unwrap_err().contains("from 1 to 9000"), "{wrong}");
        }
    }

    #[test]
    fn files_count_by_what_they_hold() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.trace");
        let settings = settings("workload", path.to_str().unwrap());
        let of = |text: &str| {
            std::fs::write(&path, text).unwrap();
            files(&settings, &["workload", "machine"]).unwrap()
        };
        assert_eq!(of("one").len(), 1);
        assert_eq!(of("one"), of("one"));
        assert_ne!(of("one"), of("two"));
        assert_eq!(files(&settings, &["machine"]), Ok(vec![]));
        let with_machine = inputs(&settings, Machine::DEFAULT, &["workload"]).unwrap();
        assert_eq!((with_machine.len(), &with_machine[..1]), (2, &of("two")[..]));
        assert!(with_machine[1].contains("[tlb"), "{with_machine:?}");
    }

    /// Two throws on two places: one place half of the time, else both.
    #[test]
    fn places_by_hand() {
        assert!((places_hit(2.0, 2.0) - 1.5).abs() < 1e-12);
        assert!((places_hit(1.0, 7.0) - 1.0).abs() < 1e-12);
    }
}
