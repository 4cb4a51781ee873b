//! The experiments that come with the program.

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../experiments/", $name, ".toml")))),*]
    };
}

/// Name and text of each file, in the order in which `perforate experiment all` shows them.
pub const FILES: &[(&str, &str)] = files![
    "perforated/fig7",
    "perforated/fig8",
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
    "perforated/merging",
    "perforated/table1",
    "perforated/bloat",
    "perforated/fragmentation",
    "perforated/sharing",
    "segments/fig13",
    "segments/filter-size",
    "segments/page-sharing",
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
    "segments/shadow",
];
