//! Configurations: the bundled machines, and errors of impossible machines.

use crate::machine::config;
use perforate_timing::{Core, TimingConfig, WalkerAttachment};
use perforate_types::Unit;

const TABLE_II: &str = include_str!("../../../../machines/perforated-table2.toml");
const ICE_LAKE_SP: &str = include_str!("../../../../machines/ice-lake-sp.toml");
const SANDY_BRIDGE: &str = include_str!("../../../../machines/sandy-bridge-table6.toml");
const GTSM: &str = include_str!("../../../../machines/gtsm-table4.toml");
const ZEN_4: &str = include_str!("../../../../machines/zen4-genoa.toml");

/// The timing part of a machine file.
fn parse(text: &str) -> Result<TimingConfig, toml::de::Error> {
    let mut machine: toml::Table = toml::from_str(text)?;
    for other in ["name", "summary", "tlb", "walk_cache"] {
        machine.remove(other).expect("a machine file has it");
    }
    for other in ["virtualization", "operating_system", "energy", "processors", "plausible"] {
        machine.remove(other); // some have the default
    }
    machine.try_into()
}

#[test]
fn the_bundled_machines_are_valid_and_survive_a_round_trip() {
    for text in [TABLE_II, ICE_LAKE_SP, SANDY_BRIDGE, GTSM, ZEN_4] {
        let config = parse(text).unwrap();
        assert_eq!(config.validate(), Ok(()));
        let again: TimingConfig = toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
        assert_eq!(again, config);
    }
}

/// G Table 4: an entry takes 5 cycles besides its load, a gap-tolerant one 8. Elsewhere the paper's
/// figure holds where the file names none.
#[test]
fn a_gap_tolerant_entry_takes_three_cycles_more() {
    let gtsm = parse(GTSM).unwrap().walker;
    assert_eq!((gtsm.read_overhead_cycles, gtsm.selection_cycles), (5, 8 - 5));
    assert!(!TABLE_II.contains("selection_cycles"));
    assert_eq!(parse(TABLE_II).unwrap().walker.selection_cycles, 3);
    let text = error(|c| c.walker.selection_cycles = 2_000);
    assert_eq!(text, "walker.selection_cycles = 2000: expected 0 to 1000");
}

#[test]
fn unknown_keys_are_refused() {
    let text = TABLE_II.replace("walkers = 1 ", "walkers = 1\nwalker = 2 ");
    let error = parse(&text).unwrap_err().to_string();
    assert!(error.contains("unknown field `walker`"), "{error}");
}

fn error(change: impl Fn(&mut TimingConfig)) -> String {
    let mut config = config();
    change(&mut config);
    Core::new(&config, [1; Unit::COUNT]).expect_err("an impossible machine").to_string()
}

#[test]
fn errors_name_the_key_and_what_would_be_right() {
    assert_eq!(error(|c| c.core.width = 0), "core.width = 0: expected 1 to 64");
    assert_eq!(
        error(|c| c.core.frequency_ghz = f64::NAN),
        "core.frequency_ghz = NaN: expected 0.1 to 20"
    );
    assert_eq!(
        error(|c| c.branch_predictor.table_entries = 1000),
        "branch_predictor.table_entries = 1000: expected a power of two, such as 1024"
    );
    assert_eq!(
        error(|c| c.cache.l1d.size_bytes = 32_000),
        "cache.l1d.size_bytes = 32000: expected a multiple of 8 ways × 64-byte lines = 512 bytes"
    );
    assert_eq!(error(|c| c.cache.l2.mshrs = 0), "cache.l2.mshrs = 0: expected 1 to 1024");
    assert_eq!(
        error(|c| c.dram.row_bytes = 100),
        "dram.row_bytes = 100: expected a multiple of 64"
    );
    assert_eq!(
        error(|c| c.walker.attach = WalkerAttachment::Llc),
        "walker.attach = \"llc\": expected \"l1d\" or \"l2\", as there is no [cache.llc] section"
    );
}

/// Both ends of a range are in it.
#[test]
fn the_ends_of_ranges_are_allowed() {
    let accepts = |change: &dyn Fn(&mut TimingConfig)| {
        let mut config = config();
        change(&mut config);
        config.validate().is_ok()
    };
    for (ghz, is_allowed) in [(0.09, false), (0.1, true), (20.0, true), (20.1, false)] {
        assert_eq!(accepts(&|c| c.core.frequency_ghz = ghz), is_allowed, "{ghz}");
    }
    for (width, is_allowed) in [(0, false), (1, true), (64, true), (65, false)] {
        assert_eq!(accepts(&|c| c.core.retire_width = width), is_allowed, "{width}");
    }
}
