//! What becomes of bloat when keys are deleted and their memory is given back, when khugepaged
//! makes large pages again, and with an allocator that leaves no page untouched.

use perforate_sim::{Machine, Scheme, SimError};

use crate::options::Options;
use crate::study::{Figures, Study};
use crate::table::{self, spread};

/// Shares of the keys that stay.
const LIVE: [f64; 4] = [1.0, 0.75, 0.5, 0.25];
/// Reads of a run at most: fewer than in the first table, as there are many runs.
const MOST_READS: u64 = 50_000;
/// Columns, one for each share.
const WIDTHS: [usize; LIVE.len()] = [14; LIVE.len()];

/// One row: a scheme and what else is different in it.
struct Case {
    label: &'static str,
    scheme: &'static str,
    /// Whether khugepaged runs, and with which `max_ptes_none`.
    max_ptes_none: Option<u64>,
    /// Whether the allocator leaves out the additional page of large extents.
    without_padding: bool,
}

const CASES: [Case; 7] = [
    Case::of("4k", "4k"),
    Case::of("thp", "thp"),
    Case { without_padding: true, ..Case::of("thp, --padding no", "thp") },
    Case { max_ptes_none: Some(0), ..Case::of("thp, khugepaged, max_ptes_none 0", "thp") },
    Case { max_ptes_none: Some(511), ..Case::of("thp, khugepaged, max_ptes_none 511", "thp") },
    Case::of("perforated-reserve", "perforated-reserve"),
    Case {
        max_ptes_none: Some(511),
        ..Case::of("perforated-reserve, khugepaged 511", "perforated-reserve")
    },
];

impl Case {
    const fn of(label: &'static str, scheme: &'static str) -> Self {
        Self { label, scheme, max_ptes_none: None, without_padding: false }
    }

    /// All seeds with this share of keys left.
    fn runs(
        &self,
        machine: &Machine,
        options: &Options,
        live: f64,
    ) -> Result<Vec<Figures>, SimError> {
        let keys = options.deletion_keys;
        let study = Study {
            keys,
            value_bytes: options.value_bytes,
            padding: options.padding && !self.without_padding,
            live_keys: ((keys as f64 * live).round() as u64).max(1),
            reads: options.reads.min(MOST_READS),
            max_ptes_none: self.max_ptes_none,
        };
        let run = |seed| {
            crate::progress(&format!("{}, {:.0}% live, seed {seed}", self.label, live * 100.0));
            study.run(machine, Scheme::find(self.scheme)?, seed)
        };
        (1..=options.seeds).map(run).collect()
    }
}

/// Prints bloat and TLB misses by the share of live keys.
///
/// # Errors
/// Out of memory.
pub fn print(machine: &Machine, options: &Options) -> Result<(), SimError> {
    let mut rows = Vec::new();
    for case in &CASES {
        let runs = LIVE.map(|live| case.runs(machine, options, live));
        rows.push(runs.into_iter().collect::<Result<Vec<_>, _>>()?);
    }
    crate::progress("");
    let keys = options.deletion_keys;
    println!("\nDeletions: by the share of {keys} keys that is left; khugepaged runs after them");
    println!("until it finds nothing more to do");
    print_table("bloat over touched, %", 1, &rows, Figures::bloat_percent);
    let misses = |figures: &Figures| figures.misses + figures.bitmap_reads;
    print_table("L2 TLB misses of a read, bitmaps too", 2, &rows, misses);
    Ok(())
}

/// Prints one figure of all cases: rows of shares of runs.
fn print_table(
    what: &str,
    decimals: usize,
    rows: &[Vec<Vec<Figures>>],
    figure: impl Fn(&Figures) -> f64,
) {
    table::row(what, &WIDTHS, &LIVE.map(|live| format!("{:.0}%", live * 100.0)));
    for (case, shares) in CASES.iter().zip(rows) {
        let cells: Vec<String> =
            shares.iter().map(|runs| spread(runs.iter().map(&figure), decimals)).collect();
        table::row(&format!("  {}", case.label), &WIDTHS, &cells);
    }
}
