//! Labels of counters agree with the names of their parts in charts.

/// A chart shows a counter by the name of its part, a table by its label. Both must have the same
/// name.
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
    assert_eq!(parts, 16);
}
