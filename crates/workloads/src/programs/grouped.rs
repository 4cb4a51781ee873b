//! Visits of random places in large arrays, grouped by place: otherwise most visits would miss the caches of the
//! simulator's machine.

/// Number of groups of places; the visits of a group are made together.
const GROUPS: usize = 4096;
/// Number of visits that are collected in a group before they are made.
const WAITING: usize = 1 << 10;

/// Collects visits, each with a place below a bound and a value. Visits of the same place are made in the order in which
/// they were added.
pub(super) struct Grouped<V: FnMut(u32, u32)> {
    shift: u32,
    groups: Vec<Vec<(u32, u32)>>,
    visit: V,
}

impl<V: FnMut(u32, u32)> Grouped<V> {
    /// Places are below `places`. `visit` gets the place and the value of each visit.
    pub(super) fn new(places: u64, visit: V) -> Self {
        let bits = places.next_power_of_two().ilog2();
        let shift = bits.saturating_sub(GROUPS.ilog2());
        Self { shift, groups: vec![Vec::new(); GROUPS], visit }
    }

    #[inline]
    pub(super) fn add(&mut self, place: u32, value: u32) {
        let group = &mut self.groups[(place >> self.shift) as usize];
        group.push((place, value));
        if group.len() == WAITING {
            group.drain(..).for_each(|(place, value)| (self.visit)(place, value));
        }
    }

    /// Makes a visit at once.
    #[inline]
    pub(super) fn visit(&mut self, place: u32, value: u32) {
        (self.visit)(place, value);
    }

    /// Makes the visits that still wait.
    pub(super) fn finish(mut self) {
        let waiting = std::mem::take(&mut self.groups);
        waiting.into_iter().flatten().for_each(|(place, value)| (self.visit)(place, value));
    }
}

#[cfg(test)]
mod tests {
    use perforate_types::Random;

    use super::*;

    /// Every visit is made, and those of a place in their order.
    #[test]
    fn visits_of_a_place_are_in_order() {
        for places in [1, 255, 257, 5000] {
            let (mut direct, mut later) = (vec![Vec::new(); 5000], vec![Vec::new(); 5000]);
            let mut random = Random::new(places);
            let mut grouped =
                Grouped::new(places, |place, value| later[place as usize].push(value));
            for value in 0..100_000 {
                let place = random.below(places) as u32;
                direct[place as usize].push(value);
                grouped.add(place, value);
            }
            grouped.finish();
            assert!(direct == later, "{places}");
        }
    }
}
