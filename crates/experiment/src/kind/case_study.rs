//! What case studies share: settings, random numbers that are the same for every subject, the
//! events they send, and a closed form.

use std::path::Path;

use perforate_sim::Machine;
use perforate_types::{Backing, Permissions, ProcessId, ProgramEvent, ThreadId, VirtualAddress};

use super::simulation::hash_of_file;
use super::{Setting, Settings};

/// Bytes of a page, and pages of a 2MB region.
pub const PAGE_BYTES: u64 = 4096;
pub const REGION_PAGES: u64 = 512;
const REGION_BYTES: u64 = REGION_PAGES * PAGE_BYTES;

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

/// A heap in 2MB regions, `least` to `most` bytes.
pub fn heap_regions(
    settings: &Settings,
    default: &str,
    (least, most): (u64, u64),
) -> Result<u64, String> {
    let bytes = settings.size("heap", default)?;
    if !(least..=most).contains(&bytes) || !bytes.is_multiple_of(REGION_BYTES) {
        let text = settings.text("heap").unwrap_or(default);
        let (least, most) = (least >> 20, most >> 30);
        return Err(format!("heap is {least}M to {most}G in steps of 2M, not {text:?}"));
    }
    Ok(bytes / REGION_BYTES)
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

/// Process `process` runs now.
pub fn switch(process: u16) -> ProgramEvent {
    ProgramEvent::Switch { process: ProcessId(process), thread: ThreadId(0) }
}

/// Anonymous memory that is mapped in full at once.
pub fn map_populated(start: u64, length: u64, shared: bool) -> ProgramEvent {
    ProgramEvent::Map {
        start: VirtualAddress::new(start),
        length,
        permissions: Permissions::READ_WRITE,
        accessible: true,
        backing: Backing::Anonymous,
        shared,
        populate: true,
    }
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
    fn settings_have_bounds() {
        let regions = |text: &str| heap_regions(&settings("heap", text), "1G", (2 << 20, 4 << 30));
        assert_eq!((regions("64M"), regions("4G")), (Ok(32), Ok(2048)));
        assert_eq!(heap_regions(&Settings::default(), "1G", (2 << 20, 4 << 30)), Ok(512));
        for wrong in ["3M", "0", "5G", "lots"] {
            assert!(regions(wrong).unwrap_err().contains("heap"), "{wrong}");
        }
        let count = |text: &str| bounded(&settings("reads", text), "reads", 5, (1, 9000));
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
