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
    "perforated/fragmentation",
    "perforated/sharing",
    "segments/fig13",
    "segments/filter-size",
    "segments/page-sharing",
];
