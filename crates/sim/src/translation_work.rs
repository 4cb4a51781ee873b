//! Check that a run needs enough address translation to distinguish schemes.

use perforate_records::TOO_LITTLE_WORK;
use perforate_types::{Counters, PageSize};

/// Misses of the second-level TLB per 1,000 instructions below which translation hardly matters. At
/// about 100 cycles per miss, they take 1 % of the time at one instruction per cycle.
const LEAST_MISSES: f64 = 0.1;

/// Returns a note on a run in which schemes can hardly differ, otherwise `None`. In such a run the
/// program touched less memory than the TLB covers, for example during its start, or missed rarely
/// under every scheme.
pub(crate) fn note(schemes: &[&Counters], tlb_entries: usize) -> Option<String> {
    let all = |name| schemes.iter().filter_map(move |counters| counters.get(name));
    let [touched_bytes, misses] =
        ["touched_bytes", "l2_tlb_mpki"].map(|name| all(name).fold(0.0, f64::max));
    let reach_bytes = tlb_entries as f64 * PageSize::Size4K.bytes() as f64;
    let why = if touched_bytes <= reach_bytes {
        format!(
            "the program touched {:.0} KB of data, and the L2 TLB has room for {:.0} KB in 4KB pages",
            touched_bytes / 1024.0,
            reach_bytes / 1024.0
        )
    } else if misses < LEAST_MISSES {
        format!(
            "the L2 TLB missed less than {LEAST_MISSES} times in 1000 instructions under every \
             scheme"
        )
    } else {
        return None;
    };
    Some(format!(
        "{TOO_LITTLE_WORK}: {why}. If it is only \
         the start of a program, --skip passes over it, --instructions runs more, and perforate \
         record --sample N/M takes windows of all of it"
    ))
}

#[cfg(test)]
mod tests {
    use perforate_types::CounterValue;

    use super::*;

    fn counters(touched_bytes: u64, misses: f64) -> Counters {
        let figures =
            [("touched_bytes", touched_bytes.into()), ("l2_tlb_mpki", CounterValue::Ratio(misses))];
        figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// A TLB of 1536 entries for 4KB pages covers 6144KB.
    #[test]
    fn what_fits_into_the_tlb_or_never_misses_tells_nothing() {
        let of = |touched, misses: [f64; 2]| {
            let [one, other] = misses.map(|misses| counters(touched, misses));
            note(&[&one, &other], 1536).unwrap_or_default()
        };
        assert!(of(6144 << 10, [5.0, 5.0]).contains("touched 6144 KB of data, and the L2 TLB has"));
        assert_eq!(of((6144 << 10) + 4096, [5.0, 0.0]), "");
        assert!(of(1 << 30, [0.09, 0.0]).contains("missed less than 0.1 times"));
        assert_eq!(of(1 << 30, [0.1, 0.0]), "");
    }

    #[test]
    fn the_note_says_why_and_what_to_do() {
        let rest = "If it is only the start of a program, --skip passes over it, --instructions runs \
                    more, and perforate record --sample N/M takes windows of all of it";
        let (few, rare) = (counters(4 << 10, 5.0), counters(1 << 30, 0.05));
        assert_eq!(
            note(&[&few], 16).unwrap(),
            format!(
                "there is too little translation work in this run to tell schemes apart: the program \
                 touched 4 KB of data, and the L2 TLB has room for 64 KB in 4KB pages. {rest}"
            )
        );
        assert_eq!(
            note(&[&rare], 16).unwrap(),
            format!(
                "there is too little translation work in this run to tell schemes apart: the L2 TLB \
                 missed less than 0.1 times in 1000 instructions under every scheme. {rest}"
            )
        );
        assert_eq!(note(&[&rare, &counters(1 << 30, 0.2)], 16), None, "one scheme missed");
    }
}
