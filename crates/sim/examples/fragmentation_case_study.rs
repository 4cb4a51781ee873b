//! How much of a request for 2GB gets 2MB pages on a 12GB machine after a build (P §III.C, claims
//! P-C5): at once, after background compaction, and how much more as perforated pages.
//!
//! `cargo run --release -p perforate-sim --example fragmentation_case_study`
//!
//! Nothing is fitted: the workload that ages memory (`crates/os/src/ageing.rs`) is ours, as the
//! paper names only "compiling the Linux kernel until free memory was depleted".

use perforate_os::{Ageing, Defrag, KernelConfig, OsError};
use perforate_sim::{Request, RequestShares};

const MEMORY_BYTES: u64 = 12 << 30;
const REQUEST_BYTES: u64 = 2 << 30;
const SEEDS: std::ops::RangeInclusive<u64> = 1..=5;
/// The policy of P §III.C: less than 25 % of a block stays, in at most 4 of its 8 regions.
const SELECTIVE: &str = "perforated:max-hole-share=25%,max-filter-bits=4";

fn main() -> Result<(), OsError> {
    println!("Requests of 2GB on 12GB after `kernel-build`; median (least–most) of 5 seeds\n");
    println!("{:<45} {:>13} {:>38}", "share of the request", "P §III.C", "ours");
    // (what, ageing, compaction before, policy, compaction in faults, paper's large + perforated)
    let full = "kernel-build";
    let calmer = "kernel-build,free=50%";
    let cases: [(&str, &str, bool, &str, Defrag, &str); 7] = [
        ("first run, at once, conventional", full, false, "thp", Defrag::Never, "2.5 %"),
        ("  perforated too, nothing moved", full, false, SELECTIVE, Defrag::Never, "–"),
        ("after background compaction, conventional", full, true, "thp", Defrag::Never, "22 %"),
        ("  perforated too", full, true, SELECTIVE, Defrag::Never, "22 % + 18 %"),
        ("  conventional, direct compaction too", full, true, "thp", Defrag::Always, "–"),
        (
            "second run (half free), at once, conventional",
            calmer,
            false,
            "thp",
            Defrag::Never,
            "49 %",
        ),
        ("  perforated too, nothing moved", calmer, false, SELECTIVE, Defrag::Never, "49 % + 50 %"),
    ];
    for (what, ageing, compacted, policy, defrag, paper) in cases {
        let mut shares = Vec::new();
        for seed in SEEDS {
            shares.push(request(ageing, compacted, policy, defrag, seed)?);
        }
        let large = spread(shares.iter().map(|shares| shares.large));
        let ours = match policy {
            "thp" => large,
            _ => format!("{large} + {}", spread(shares.iter().map(|shares| shares.perforated))),
        };
        println!("{what:<45} {paper:>13} {ours:>38}");
    }
    println!(
        "\nChoices of ours: what a build allocates and frees and in which order; how much page \
         cache\nwas dropped before the second run; 2MB blocks in which nothing stays are emptied \
         whole, as\nLinux's compaction would, but page cache is never pinned: see the README."
    );
    Ok(())
}

/// Median and range in percent.
fn spread(values: impl Iterator<Item = f64>) -> String {
    let mut values: Vec<f64> = values.map(|value| 100.0 * value).collect();
    values.sort_by(f64::total_cmp);
    let (least, most) = (values[0], values[values.len() - 1]);
    format!("{:.1} % ({least:.1}–{most:.1})", values[values.len() / 2])
}

/// Ages a machine and touches 2GB on it.
fn request(
    ageing: &str,
    compacted: bool,
    policy: &str,
    defrag: Defrag,
    seed: u64,
) -> Result<RequestShares, OsError> {
    let ageing = Some(ageing.parse::<Ageing>()?);
    let memory = KernelConfig { seed, ageing, ..KernelConfig::new(MEMORY_BYTES) };
    Request { bytes: REQUEST_BYTES, policy: policy.into(), compacted, defrag }.serve(memory)
}
