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
    "gtsm/fig3",
    "gtsm/fig7",
    "gtsm/fig14",
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
    "segments/shadow",
];
