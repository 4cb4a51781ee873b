//! The paper's figures beside ours, and what becomes of each claim.

use crate::options::Options;
use crate::study::Figures;
use crate::table::{self, median, spread};
use crate::{GIGABYTE, SCHEMES};

/// Keys of the paper's store.
const PAPER_KEYS: f64 = 4e6;
const WIDTHS: [usize; 2] = [15, 30];
/// Two figures no further apart than this are called the same.
const SAME: f64 = 0.05;

/// Figures of one seed under each scheme, in the order of [`SCHEMES`].
type Seed<'a> = [&'a Figures; SCHEMES.len()];

struct Claim {
    what: &'static str,
    paper: f64,
    decimals: usize,
    /// Ours, with the number of live keys.
    figure: fn(&Seed<'_>, f64) -> f64,
}

/// Bytes as gigabytes of the paper's number of keys.
fn scaled(bytes: f64, keys: f64) -> f64 {
    bytes / keys * PAPER_KEYS / GIGABYTE
}

const LARGE_MEMORY: Claim = Claim {
    what: "P-C2 memory with 2MB pages, GB",
    paper: 92.9,
    decimals: 1,
    figure: |[_, large, _], keys| scaled(large.mapped_bytes, keys),
};
const BASE_MEMORY: Claim = Claim {
    what: "P-C2 memory with 4KB pages, GB",
    paper: 77.7,
    decimals: 1,
    figure: |[base, _, _], keys| scaled(base.mapped_bytes, keys),
};
const BLOAT: Claim = Claim {
    what: "P-C2 2MB over 4KB, %",
    paper: (92.9 / 77.7 - 1.0) * 100.0,
    decimals: 1,
    figure: |[base, large, _], _| (large.mapped_bytes / base.mapped_bytes - 1.0) * 100.0,
};
const MEASURED_MISSES: Claim = Claim {
    what: "P-C2 MPKI, 2MB to 4KB (hardware)",
    paper: 1.00 / 1.83,
    decimals: 2,
    figure: |[base, large, _], _| large.misses / base.misses,
};
const SIMULATED_MISSES: Claim = Claim {
    what: "P-C3 MPKI, 2MB to 4KB (simulated)",
    paper: 1.05 / 1.75,
    decimals: 2,
    figure: |[base, large, _], _| large.misses / base.misses,
};
const PERFORATED_MISSES: Claim = Claim {
    what: "P-C3 MPKI, perforated to 4KB: pages",
    paper: 1.45 / 1.75,
    decimals: 2,
    figure: |[base, _, perforated], _| perforated.misses / base.misses,
};
const PERFORATED_READS: Claim = Claim {
    what: "  pages and bitmap entries",
    paper: 1.45 / 1.75,
    decimals: 2,
    figure: |[base, _, perforated], _| (perforated.misses + perforated.bitmap_reads) / base.misses,
};
const PERFORATED_BLOAT: Claim = Claim {
    what: "P-C3 bloat of perforated pages, %",
    paper: 0.0,
    decimals: 1,
    figure: |[_, _, perforated], _| perforated.bloat_percent(),
};

const CLAIMS: [&Claim; 8] = [
    &LARGE_MEMORY,
    &BASE_MEMORY,
    &BLOAT,
    &MEASURED_MISSES,
    &SIMULATED_MISSES,
    &PERFORATED_MISSES,
    &PERFORATED_READS,
    &PERFORATED_BLOAT,
];

impl Claim {
    fn values(&self, figures: &[Vec<Figures>; SCHEMES.len()], live_keys: u64) -> Vec<f64> {
        let [base, large, perforated] = figures;
        let seeds = base.iter().zip(large).zip(perforated);
        let seeds = seeds.map(|((base, large), perforated)| [base, large, perforated]);
        seeds.map(|seed| (self.figure)(&seed, live_keys as f64)).collect()
    }

    fn median(&self, figures: &[Vec<Figures>; SCHEMES.len()], live_keys: u64) -> f64 {
        median(self.values(figures, live_keys).into_iter())
    }
}

/// Prints the paper's figures beside ours. Memory is scaled to the paper's number of keys, MPKI
/// is compared as a ratio: nothing here counts instructions.
pub fn print(figures: &[Vec<Figures>; SCHEMES.len()], live_keys: u64) {
    println!("\nPaper and ours; memory scaled to 4 M keys, MPKI in proportion to 4KB pages");
    table::row("", &WIDTHS, &["paper", "ours"].map(String::from));
    for claim in CLAIMS {
        let ours = spread(claim.values(figures, live_keys).into_iter(), claim.decimals);
        let paper = format!("{:.*}", claim.decimals, claim.paper);
        table::row(claim.what, &WIDTHS, &[paper, ours]);
    }
}

/// What can be said of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Reproduced,
    SameDirection,
    Not,
}

impl Verdict {
    /// `paper` and `ours` are to be compared with `neutral`, where there would be no effect.
    fn of(paper: f64, ours: f64, neutral: f64) -> Self {
        if (ours - paper).abs() <= SAME * paper.abs() {
            Self::Reproduced
        } else if (ours - neutral) * (paper - neutral) > 0.0 {
            Self::SameDirection
        } else {
            Self::Not
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced (within 5 %)",
            Self::SameDirection => "same direction, not the same size",
            Self::Not => "not reproduced",
        }
    }
}

/// Whether perforated pages miss more than 2MB pages and less than 4KB pages.
fn order(figures: &[Vec<Figures>; SCHEMES.len()], live_keys: u64) -> &'static str {
    let large = SIMULATED_MISSES.median(figures, live_keys);
    let perforated = PERFORATED_READS.median(figures, live_keys);
    if large < perforated && perforated < 1.0 { "reproduced" } else { "not reproduced" }
}

/// Prints one line for each claim, and why.
pub fn print_verdicts(figures: &[Vec<Figures>; SCHEMES.len()], options: &Options, live_keys: u64) {
    let verdict = |claim: &Claim, neutral: f64| {
        Verdict::of(claim.paper, claim.median(figures, live_keys), neutral).text()
    };
    println!("\nClaims, at {} keys:", options.keys);
    println!("- P-C2 bloat of 2MB pages: {}. Memory with 2MB pages:", verdict(&BLOAT, 0.0));
    println!("  {}. A value of 16KB with its header gets the class of 20KB and", {
        verdict(&LARGE_MEMORY, 0.0)
    });
    println!(
        "  an extent of 24KB, of which 5 pages are touched wherever in the first it begins. The"
    );
    println!(
        "  paper names no cause. Redis of 2020 came with this allocator; GB are taken to be 2^30."
    );
    println!("- P-C2 MPKI on hardware: {}.", verdict(&MEASURED_MISSES, 1.0));
    println!(
        "  The paper's machine ran server and network code, which misses with both page sizes."
    );
    println!("- P-C2 1.29 times the requests: not attempted; the store is not timed.");
    println!("- P-C3 MPKI of 2MB pages: {}. With fewer keys", { verdict(&SIMULATED_MISSES, 1.0) });
    println!(
        "  2MB pages reach further; --keys 4M has the paper's size. Our reads touch nothing but"
    );
    println!("  the store, the paper's trace has all that the server does.");
    println!("- P-C3 MPKI of perforated pages between those of the others: {}.", {
        order(figures, live_keys)
    });
    println!("  Pages alone: {}.", verdict(&PERFORATED_MISSES, 1.0));
    println!("  With bitmap entries: {}.", verdict(&PERFORATED_READS, 1.0));
    println!(
        "  The paper does not say what it counts. One sub-page of six is a hole, so all filter"
    );
    println!("  bits are set and a value needs one of 16 bitmap entries of its page (128KB each).");
    let bloat = PERFORATED_BLOAT.median(figures, live_keys);
    let without = if bloat.abs() < SAME { "reproduced" } else { "not reproduced" };
    println!("- P-C3 perforated pages without bloat: {without}. The price (P §VI): nearly each");
    println!(
        "  first touch patches a hole and interrupts the other processors. Reserved frames are"
    );
    println!("  out of free memory until it is short.");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_by_hand() {
        assert_eq!(Verdict::of(0.60, 0.58, 1.0), Verdict::Reproduced);
        assert_eq!(Verdict::of(0.60, 0.40, 1.0), Verdict::SameDirection);
        assert_eq!(Verdict::of(0.60, 1.10, 1.0), Verdict::Not);
        assert_eq!(Verdict::of(19.6, 30.0, 0.0), Verdict::SameDirection);
        assert_eq!(Verdict::of(19.6, -1.0, 0.0), Verdict::Not);
    }

    #[test]
    fn claims_by_hand() {
        let figures = |mapped_bytes, misses, bitmap_reads| Figures {
            requested_bytes: 0.0,
            mapped_bytes,
            touched_bytes: 100.0,
            reserved_bytes: 0.0,
            table_bytes: 0.0,
            misses,
            bitmap_reads,
            shootdowns: 0.0,
            system_cycles: 0.0,
        };
        let all = [
            vec![figures(100.0, 8.0, 0.0)],
            vec![figures(120.0, 2.0, 0.0)],
            vec![figures(100.0, 3.0, 1.0)],
        ];
        assert!((BLOAT.median(&all, 1) - 20.0).abs() < 1e-9);
        assert!((SIMULATED_MISSES.median(&all, 1) - 0.25).abs() < 1e-9);
        assert!((PERFORATED_MISSES.median(&all, 1) - 0.375).abs() < 1e-9);
        assert!((PERFORATED_READS.median(&all, 1) - 0.5).abs() < 1e-9);
        // 100 bytes for 2 keys: 200 MB of 4 million.
        assert!((BASE_MEMORY.median(&all, 2) - 2e8 / GIGABYTE).abs() < 1e-9);
    }
}
