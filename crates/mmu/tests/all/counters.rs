//! What counters are called.

/// Charts and tables show the same counter: by the name of its part, and by its own label.
#[test]
fn a_purpose_has_one_name_in_charts_and_tables() {
    let mut parts = 0;
    for counter in perforate_mmu::counters() {
        let Some(part) = &counter.part else { continue };
        if ["walk_references", "bitmap_references"].contains(&part.whole) {
            assert_eq!(counter.label, format!("{} references", part.label));
            parts += 1;
        }
    }
    assert_eq!(parts, 14);
}
