//! Room in a pool of a program's memory.

use std::ops::Range;

use perforate_types::RangeMap;

/// Allocated parts of a pool of a program's memory, as byte offsets.
#[derive(Clone, Debug, Default)]
pub(super) struct Room {
    used: RangeMap<()>,
}

impl Room {
    /// Allocates the lowest free `bytes` bytes of a pool of `pool_bytes` bytes. Returns their offset, or
    /// `None` if there is no room.
    pub(super) fn take(&mut self, bytes: u64, pool_bytes: u64) -> Option<u64> {
        let mut at = 0;
        for (used, ()) in self.used.iter() {
            if used.start - at >= bytes {
                break;
            }
            at = used.end;
        }
        let end = at.checked_add(bytes).filter(|end| *end <= pool_bytes)?;
        self.used.insert(at..end, ());
        Some(at)
    }

    /// Allocates `range` if it is free and inside the pool; otherwise returns false.
    pub(super) fn extend(&mut self, range: Range<u64>, pool_bytes: u64) -> bool {
        let is_free = !self.used.overlaps(&range) && range.end <= pool_bytes;
        if is_free {
            self.used.insert(range, ());
        }
        is_free
    }

    /// Frees an allocated part of the pool.
    pub(super) fn free(&mut self, range: Range<u64>) {
        let freed = self.used.remove(&range);
        assert_eq!(freed, [(range, ())], "in use");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perforate_types::Random;

    #[test]
    fn the_lowest_room_that_is_large_enough_is_taken() {
        let mut room = Room::default();
        assert_eq!(room.take(10, 100), Some(0));
        assert_eq!(room.take(20, 100), Some(10));
        assert_eq!(room.take(70, 100), Some(30));
        assert_eq!(room.take(1, 100), None, "full");
        room.free(5..15);
        assert_eq!(room.take(11, 100), None);
        assert_eq!(room.take(4, 100), Some(5));
        assert_eq!(room.take(6, 100), Some(9));
        room.free(90..100);
        assert!(room.extend(90..95, 100) && !room.extend(94..96, 100));
        assert!(!room.extend(95..101, 100) && room.extend(95..100, 100));
        room.free(0..100);
        assert_eq!(room.take(100, 100), Some(0));
    }

    /// Compares with a pool in which each byte is free or not.
    #[test]
    fn room_is_that_of_a_pool_of_single_bytes() {
        const BYTES: usize = 48;
        let (mut room, mut used) = (Room::default(), [false; BYTES]);
        let mut random = Random::new(7);
        for _ in 0..3000 {
            let (start, length) = (random.below(BYTES as u64), 1 + random.below(9));
            let end = start + length;
            let [from, to] = [start, end.min(BYTES as u64)].map(|at| at as usize);
            match random.below(3) {
                0 => {
                    let place =
                        used.windows(length as usize).position(|part| !part.contains(&true));
                    assert_eq!(room.take(length, BYTES as u64), place.map(|at| at as u64));
                    place.into_iter().for_each(|at| used[at..at + length as usize].fill(true));
                }
                1 => {
                    let is_free = end <= BYTES as u64 && !used[from..to].contains(&true);
                    assert_eq!(room.extend(start..end, BYTES as u64), is_free);
                    used[from..to].iter_mut().for_each(|byte| *byte |= is_free);
                }
                _ if !used[from..to].contains(&false) => {
                    room.free(from as u64..to as u64);
                    used[from..to].fill(false);
                }
                _ => {}
            }
            let mut runs = Vec::new();
            for run in
                (0..BYTES).collect::<Vec<_>>().chunk_by(|one, other| used[*one] == used[*other])
            {
                if used[run[0]] {
                    runs.push(run[0] as u64..(run[0] + run.len()) as u64);
                }
            }
            assert_eq!(room.used.iter().map(|(used, ())| used).collect::<Vec<_>>(), runs);
        }
    }
}
