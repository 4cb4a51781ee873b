//! The experiments that come with the program.

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../experiments/", $name, ".toml")))),*]
    };
}

/// Name and text of each file, in the order in which `perforate experiment all` shows them.
pub const FILES: &[(&str, &str)] = files![
    "perforated/motivation",
    "perforated/entries",
    "perforated/storage",
    "perforated/fig7",
    "perforated/fig8",
    "perforated/fig9",
    "perforated/fig9-programs",
    "perforated/fig10",
    "perforated/fig11",
    "gtsm/fig3",
    "gtsm/fig7",
    "gtsm/fig14",
    "gtsm/usable-memory",
    "gtsm/faulty-coverage",
    "gtsm/faulty-speed",
    "perforated/merging",
    "perforated/table1",
    "perforated/bloat",
    "perforated/fragmentation",
    "perforated/sharing",
    "segments/fig13",
    "segments/filter-size",
    "segments/page-sharing",
    "all-schemes",
    "all-schemes-virtual",
];
