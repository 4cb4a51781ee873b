//! Grid of the holes in one 2MB page: 32 × 16 sub-pages of 4KB in eight regions of 256KB.

use perforate_records::Region;
use serde_json::{Value, json};

use super::filled;

/// Returns the chart of the holes of one perforated page. Each 256KB region takes two rows, with a gap before
/// the next region.
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
