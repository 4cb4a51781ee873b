//! The holes of one 2MB page as a grid: 32 × 16 sub-pages of 4KB, eight regions of 256KB.

use perforate_records::Region;
use serde_json::{Value, json};

use super::filled;

/// Each region of the filter is two lines of the grid, with some space before the next.
pub(crate) fn holes(region: &Region) -> Value {
    let letter = |index| match (region.is_hole(index), region.is_allocated_hole(index)) {
        (false, _) => 'i',
        (true, true) => 'a',
        (true, false) => 'u',
    };
    let letters: String = (0..512).map(letter).collect();
    let filter = (0..8).map(|index| json!({"index": index, "set": region.filter >> index & 1}));
    let filter = filter.collect();
    filled(include_str!("spec/holes.json"), &[("$filter", filter), ("$letters", letters.into())])
}
