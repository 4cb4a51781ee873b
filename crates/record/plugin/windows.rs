//! Adaptive sampling: windows of one length that cover a program of unknown length.
//!
//! At first, everything is recorded, as windows without gaps. Once there are twice as many windows as
//! are to be kept, every second window is dropped and the distance doubles; and so on. Windows are
//! numbered in the order of recording, and their positions count window lengths from the start. Window
//! `number` is recorded at level 0 while everything is recorded, and at level L while one of 2^L
//! windows is. At the end, the windows at multiples of 2^L of the last level are kept: between `kept`
//! and twice as many. Shared by the recorder and the plugin.

/// Maximum level of windows; at level L, one of 2^L windows is recorded. No program is long enough for more.
const MAX_LEVEL: u64 = 40;

/// Level L of window `number` of a recording that keeps at least `kept` windows: it was recorded while one of
/// 2^L windows was.
pub const fn level(number: u64, kept: u64) -> u32 {
    match number.checked_sub(2 * kept) {
        None => 0,
        Some(later) if later / kept < MAX_LEVEL => 1 + (later / kept) as u32,
        Some(_) => MAX_LEVEL as u32,
    }
}

/// Number of windows that are recorded without gaps at first: all of level 0, at which no window is skipped,
/// and the first of level 1, which follows immediately.
pub const fn contiguous(kept: u64) -> u64 {
    2 * kept + 1
}

/// Number of window lengths that are skipped after window `number` is recorded.
pub const fn skipped_after(number: u64, kept: u64) -> u64 {
    if number + 1 < contiguous(kept) { 0 } else { (1 << level(number, kept)) - 1 }
}

/// Distance of window `number` from the start of the recording, in window lengths.
pub const fn position(number: u64, kept: u64) -> u64 {
    match number.checked_sub(2 * kept) {
        None => number,
        Some(later) => (kept + later % kept) << level(number, kept),
    }
}

/// True if window `number` is in the final trace; `last` is the number of the last recorded window.
pub const fn is_kept(number: u64, last: u64, kept: u64) -> bool {
    position(number, kept).is_multiple_of(1 << level(last, kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_agree_with_gaps() {
        for kept in [1, 2, 3, 60] {
            let mut at = 0;
            for number in 0..20 * kept {
                assert_eq!(position(number, kept), at, "window {number} of {kept}");
                at += 1 + skipped_after(number, kept);
            }
        }
    }

    #[test]
    fn kept_windows_suffice_and_are_equally_spaced() {
        let kept = 8;
        for last in 0..200 {
            let positions: Vec<u64> =
                (0..=last).filter(|n| is_kept(*n, last, kept)).map(|n| position(n, kept)).collect();
            let distance = 1 << level(last, kept);
            let expected: Vec<u64> = (0..positions.len() as u64).map(|n| n * distance).collect();
            assert_eq!(positions, expected, "{last}");
            let fits = positions.len() as u64 <= 2 * kept;
            assert!(
                fits && (last < kept || positions.len() as u64 > kept),
                "{last}: {positions:?}"
            );
        }
    }

    #[test]
    fn known_values() {
        // Two windows kept: 0 to 4 without gaps, then 6 (level 1), 8, 12 (level 2), 16, 24 (level 3).
        let positions = [0, 1, 2, 3, 4, 6, 8, 12, 16, 24].map(|at| at);
        assert!((0..10).map(|number| position(number, 2)).eq(positions));
        let kept = |last| (0..=last).filter(move |number| is_kept(*number, last, 2));
        assert!(kept(7).map(|number| position(number, 2)).eq([0, 4, 8, 12]));
    }
}
