//! The experiments that come with the program.

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../experiments/", $name, ".toml")))),*]
    };
}

/// Name and text of each file, in the order in which `perforate experiment all` shows them.
pub const FILES: &[(&str, &str)] = files![
    "perforated/table1",
    "perforated/bloat",
    "perforated/merging",
    "perforated/fragmentation",
    "perforated/sharing",
    "perforated/motivation",
    "perforated/entries",
    "perforated/storage",
    "perforated/fig7",
    "perforated/fig8",
    "perforated/fig9",
    "perforated/fig9-programs",
    "perforated/fig10",
    "perforated/fig11",
    "gtsm/table1",
    "gtsm/fig2",
    "gtsm/fig3",
    "gtsm/fig7",
    "gtsm/pairing",
    "gtsm/table5",
    "gtsm/fig11",
    "gtsm/fig12",
    "gtsm/fig13",
    "gtsm/one-walker",
    "gtsm/fig14",
    "gtsm/fig15",
    "gtsm/fig16",
    "gtsm/fig17",
    "gtsm/fig18",
    "gtsm/usable-memory",
    "gtsm/faulty-coverage",
    "gtsm/faulty-speed",
    "segments/table1",
    "segments/table2",
    "segments/walks",
    "segments/table3",
    "segments/table4",
    "segments/fig11",
    "segments/fig12",
    "segments/scaled",
    "segments/breakdown",
    "segments/energy",
    "segments/fig13",
    "segments/filter-size",
    "segments/shadow",
    "segments/page-sharing",
    "all-schemes",
    "all-schemes-virtual",
];
