//! What becomes of bloat when keys are deleted and their memory is given back, when khugepaged
//! makes large pages again, and with an allocator that leaves no page untouched.

use perforate_sim::{Machine, Scheme, SimError};

use crate::options::Options;
use crate::study::{Figures, Study};
use crate::table::{self, spread};

/// Shares of the keys that stay.
const LIVE: [f64; 4] = [1.0, 0.75, 0.5, 0.25];
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

    /// Bloat with this share of keys left, for all seeds.
    fn bloat(&self, machine: &Machine, options: &Options, live: f64) -> Result<String, SimError> {
        let keys = options.deletion_keys;
        let study = Study {
            keys,
            value_bytes: options.value_bytes,
            padding: options.padding && !self.without_padding,
            live_keys: ((keys as f64 * live).round() as u64).max(1),
            reads: 0,
            max_ptes_none: self.max_ptes_none,
        };
        let mut runs = Vec::new();
        for seed in 1..=options.seeds {
            crate::progress(&format!("{}, {:.0}% live, seed {seed}", self.label, live * 100.0));
            runs.push(study.run(machine, Scheme::find(self.scheme)?, seed)?);
        }
        Ok(spread(runs.iter().map(Figures::bloat_percent), 1))
    }
}

/// Prints bloat by the share of live keys.
///
/// # Errors
/// Out of memory.
pub fn print(machine: &Machine, options: &Options) -> Result<(), SimError> {
    let keys = options.deletion_keys;
    let mut rows = Vec::new();
    for case in &CASES {
        let cells = LIVE.map(|live| case.bloat(machine, options, live));
        rows.push((case.label, cells.into_iter().collect::<Result<Vec<_>, _>>()?));
    }
    crate::progress("");
    println!("\nBloat over touched, %, by the share of {keys} keys that is left after deletions;");
    println!("khugepaged then runs until it finds nothing more to do");
    let heads = LIVE.map(|live| format!("{:.0}%", live * 100.0));
    table::row("", &WIDTHS, &heads);
    for (label, cells) in rows {
        table::row(label, &WIDTHS, &cells);
    }
    Ok(())
}
