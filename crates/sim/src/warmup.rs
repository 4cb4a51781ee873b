//! End of the warm-up: detection, and notes on runs that had not settled.

mod mser;
mod slices;

pub(crate) use slices::{Slices, Steadiness};

/// Smallest relative change of a statistic that a note mentions: 1 %.
const LEAST_CHANGE: f64 = 0.01;

/// Returns the name of the statistic from which the end of the warm-up is detected.
pub(crate) fn figure_name(has_clock: bool) -> &'static str {
    if has_clock { "cycles per instruction" } else { "L2 TLB misses per instruction" }
}

/// Returns the number of instructions after which all runs are steady; `None` if some run is not.
pub(crate) fn settled_after(courses: &[Steadiness]) -> Option<u64> {
    let after = |course: &Steadiness| match course {
        Steadiness::Steady { after, .. } => Some(*after),
        Steadiness::Short | Steadiness::Unsteady { .. } => None,
    };
    courses.iter().map(after).collect::<Option<Vec<u64>>>()?.into_iter().max()
}

/// Returns a note on a measured part that begins with a transient or never settles. It names the
/// scheme with the largest change. `None` if all changes are small.
pub(crate) fn note(
    warmup: u64,
    figure: &str,
    courses: &[(String, Steadiness)],
    suggested: Option<u64>,
) -> Option<String> {
    let change = |course: &Steadiness| match course {
        Steadiness::Steady { change, .. } | Steadiness::Unsteady { change } => *change,
        Steadiness::Short => 0.0,
    };
    let least = |course: &Steadiness| change(course).abs() >= LEAST_CHANGE;
    let size = |course: &Steadiness| change(course).abs();
    let worst = |is_kind: fn(&Steadiness) -> bool| {
        let kind = courses.iter().filter(|(_, course)| is_kind(course) && least(course));
        kind.max_by(|one, other| size(&one.1).total_cmp(&size(&other.1)))
    };
    if let Some((scheme, course)) = worst(|course| matches!(course, Steadiness::Unsteady { .. })) {
        return Some(format!(
            "{figure} of {scheme} change until the end of the measured part: its last pieces differ \
             from the mean by {:+.1} %; run more instructions, or begin later (--instructions, --skip), \
             for figures of a steady state",
            change(course) * 100.0
        ));
    }
    let (scheme, course) = worst(|course| matches!(course, Steadiness::Steady { .. }))?;
    let suggested = suggested?;
    Some(format!(
        "the first {} instructions after the warm-up differ from the rest: without them, {figure} \
         of {scheme} change by {:+.1} %; try a warmup of {suggested}",
        suggested - warmup,
        change(course) * 100.0
    ))
}

/// Returns a note on a warm-up whose length the run had to detect. `detected` is false if no steady
/// state was found, so that the default length was used.
pub(crate) fn detection_note(warmup: u64, figure: &str, detected: bool) -> String {
    if detected {
        return format!(
            "warm-up: {warmup} instructions, after which {figure} have settled under every scheme"
        );
    }
    format!(
        "warm-up: a fifth, {warmup} instructions: {figure} do not settle under every scheme, or the \
         run is too short to tell; run more instructions, or name a warm-up (--warmup)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn courses(courses: &[Steadiness]) -> Vec<(String, Steadiness)> {
        let names = ["4k", "thp", "ideal"];
        names.iter().map(|name| name.to_string()).zip(courses.iter().copied()).collect()
    }

    #[test]
    fn the_longest_transient_of_all_schemes_counts() {
        let steady = |after, change| Steadiness::Steady { after, change };
        let found = [steady(0, 0.0), steady(500, -0.04), steady(300, -0.06)];
        assert_eq!(settled_after(&found), Some(500));
        let note = note(1000, figure_name(true), &courses(&found), Some(1500)).unwrap();
        assert_eq!(
            note,
            "the first 500 instructions after the warm-up differ from the rest: without them, \
             cycles per instruction of ideal change by -6.0 %; try a warmup of 1500"
        );
    }

    #[test]
    fn small_changes_have_no_note_and_unsteady_runs_have_one() {
        let small = [Steadiness::Steady { after: 500, change: 0.009 }, Steadiness::Short];
        assert_eq!(note(0, "x", &courses(&small), None), None);
        assert_eq!(settled_after(&small), None, "too short to tell");
        let unsteady =
            [Steadiness::Steady { after: 0, change: 0.0 }, Steadiness::Unsteady { change: 0.2 }];
        assert_eq!(settled_after(&unsteady), None);
        let note = note(0, figure_name(false), &courses(&unsteady), None).unwrap();
        assert!(
            note.starts_with("L2 TLB misses per instruction of thp change until the end"),
            "{note}"
        );
    }

    /// The note is on the scheme with the largest change of at least 1 %, in either direction; a run that
    /// never settles has another.
    #[test]
    fn the_largest_change_is_noted() {
        let steady = |change| Steadiness::Steady { after: 10, change };
        let of = |found: &[Steadiness], suggested| {
            note(1_000, figure_name(true), &courses(found), suggested)
        };
        let expected = |scheme: &str, change: &str| {
            format!(
                "the first 10 instructions after the warm-up differ from the rest: without them, \
                 cycles per instruction of {scheme} change by {change} %; try a warmup of 1010"
            )
        };
        assert_eq!(of(&[steady(0.01)], Some(1_010)), Some(expected("4k", "+1.0")));
        assert_eq!(of(&[steady(-0.01)], Some(1_010)), Some(expected("4k", "-1.0")));
        assert_eq!(of(&[steady(0.0099), steady(-0.0099)], Some(1_010)), None);
        let largest = of(&[steady(0.02), steady(-0.03), steady(0.01)], Some(1_010));
        assert_eq!(largest, Some(expected("thp", "-3.0")));
        assert_eq!(of(&[steady(0.02)], None), None, "nothing can be suggested");
        // A run that is too short to tell has no change, however many others have one.
        assert_eq!(of(&[Steadiness::Short; 3], Some(1_010)), None);
        let beside_short = of(&[Steadiness::Short, steady(0.01)], Some(1_010));
        assert_eq!(beside_short, Some(expected("thp", "+1.0")));
        let unsteady = |change| Steadiness::Unsteady { change };
        let found = of(&[steady(0.5), unsteady(-0.02), unsteady(0.015)], Some(1_010));
        assert_eq!(
            found.unwrap(),
            "cycles per instruction of thp change until the end of the measured part: its last \
             pieces differ from the mean by -2.0 %; run more instructions, or begin later \
             (--instructions, --skip), for figures of a steady state"
        );
        let little = of(&[steady(0.5), unsteady(0.0099)], Some(1_010));
        assert_eq!(little, Some(expected("4k", "+50.0")));
    }

    #[test]
    fn detection_is_noted_either_way() {
        assert_eq!(
            detection_note(7, "misses", true),
            "warm-up: 7 instructions, after which misses have settled under every scheme"
        );
        assert_eq!(
            detection_note(7, "misses", false),
            "warm-up: a fifth, 7 instructions: misses do not settle under every scheme, or the run is \
             too short to tell; run more instructions, or name a warm-up (--warmup)"
        );
    }
}
