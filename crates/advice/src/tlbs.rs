//! A machine's TLBs as a fast model for many configurations: arrays of keys, without frames, permissions or
//! time.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use perforate_mmu::{SetAssociative, TlbConfig, TlbGeometry, Ways};
use perforate_types::PageSize;

use crate::PageOrder;
use crate::collect::{Mark, Reference, References};
use crate::page_id::{BitSet, PageId, PageIds};

/// Page sizes for which a machine has TLB entries.
pub fn orders_with_entries(tlb: &TlbConfig) -> Vec<PageOrder> {
    let large = tlb.l1_data_2m.is_some() || tlb.l2_2m.holds_pages();
    let huge = tlb.l1_data_1g.is_some() || tlb.l2_1g.holds_pages();
    let mut orders = vec![PageOrder::BASE];
    orders.extend(group_order(tlb));
    orders.extend(large.then_some(PageOrder::LARGE));
    orders.extend(huge.then_some(PageOrder::HUGE));
    orders
}

/// Entries for pages of an order in the first-level data TLB and in the second level; 0 where such pages are
/// held as smaller ones, or not at all.
pub fn tlb_entries(tlb: &TlbConfig, order: PageOrder) -> [usize; 2] {
    let entries = |geometry: Option<TlbGeometry>| geometry.map_or(0, |it| it.entries);
    match order {
        PageOrder::BASE => [tlb.l1_data_4k.entries, tlb.l2_entries(PageSize::Size4K)],
        PageOrder::LARGE => [entries(tlb.l1_data_2m), tlb.l2_entries(PageSize::Size2M)],
        PageOrder::HUGE => [entries(tlb.l1_data_1g), tlb.l2_entries(PageSize::Size1G)],
        order if group_order(tlb) == Some(order) => {
            let first = if tlb.l1_coalescing { tlb.l1_data_4k.entries } else { 0 };
            [first, tlb.l2_entries(PageSize::Size4K)]
        }
        _ => [0, 0],
    }
}

/// Order of the aligned groups of 4KB pages that the second level holds as one entry, if it does. By whatever rule
/// pages are joined, those of a group are if a page of at least this size contains them.
fn group_order(tlb: &TlbConfig) -> Option<PageOrder> {
    tlb.l2_coalescing.map(|groups| PageOrder(groups.pages.ilog2() as u8))
}

/// Page size of every page: those that a plan gives to pieces, otherwise 4KB.
#[derive(Clone)]
pub(crate) struct PageSizes {
    /// Order by 2MB region; [`Self::MIXED`] if the region has several.
    by_region: Vec<u8>,
    mixed: HashMap<u32, Vec<(Range<u32>, PageOrder)>>,
}

impl PageSizes {
    const MIXED: u8 = u8::MAX;

    /// All pages have 4KB.
    pub(crate) fn base(ids: &PageIds) -> Self {
        Self { by_region: vec![0; ids.len() >> 9], mixed: HashMap::new() }
    }

    /// Gives the whole aligned blocks of an order within `ids` that order, unless they have a larger one.
    pub(crate) fn enlarge(&mut self, ids: &Range<u32>, order: PageOrder) {
        let size = 1_u32 << order.0;
        let whole = ids.start.next_multiple_of(size)..ids.end & !(size - 1);
        let mut at = whole.start;
        while at < whole.end {
            let region = at >> 9;
            let end = whole.end.min((region + 1) << 9);
            let present = self.by_region[region as usize];
            let is_whole = end - at == 512;
            if is_whole && present != Self::MIXED {
                self.by_region[region as usize] = present.max(order.0);
            } else if present == 0 || present == Self::MIXED {
                self.by_region[region as usize] = Self::MIXED;
                self.mixed.entry(region).or_default().push((at..end, order));
            }
            at = end;
        }
    }

    #[inline]
    pub(crate) fn order(&self, id: PageId) -> PageOrder {
        match self.by_region[(id.0 >> 9) as usize] {
            Self::MIXED => self.mixed_order(id),
            order => PageOrder(order),
        }
    }

    #[cold]
    fn mixed_order(&self, id: PageId) -> PageOrder {
        let ranges = self.mixed.get(&(id.0 >> 9)).into_iter().flatten();
        let own = ranges.filter(|(range, _)| range.contains(&id.0)).map(|(_, order)| *order);
        own.max().unwrap_or(PageOrder::BASE)
    }
}

/// Misses of the second-level TLB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct WalkCounts {
    /// Page walks to pages that were translated before: misses of capacity and conflicts.
    pub walks: u64,
    /// First walks to pages, which a TLB of any size would need.
    pub first_walks: u64,
}

/// Entries in which pages of one order are held at one level.
#[derive(Clone)]
struct Place {
    /// Index of the array in its level.
    array: usize,
    /// Order of the memory that an entry covers; smaller than that of the page if the array has only
    /// smaller entries.
    order: u8,
    /// Ways of the array that may hold the entry; `None` for all.
    ways: Option<Range<usize>>,
}

/// Places of pages of one order in all TLBs.
#[derive(Clone)]
struct Places {
    data: Place,
    instruction: Place,
    /// `None` if the second level holds no such pages.
    second: Option<Place>,
}

/// Number of references between two questions whether to stop: less than a hundredth of a second.
pub(crate) const STOP_INTERVAL: usize = 1 << 16;

/// TLBs of one core during a simulation.
pub(crate) struct Tlbs<'a> {
    config: &'a TlbConfig,
    /// Set to end simulations early.
    stop: &'a AtomicBool,
    /// Address ÷ 1GB of each group of ids.
    gigabytes: &'a [u64],
    places: Vec<Places>,
    /// Number of the first set and mask of the set's index, for each first-level array, those of data first.
    sets: Vec<(usize, u64)>,
    data: Vec<SetAssociative<()>>,
    instruction: Vec<SetAssociative<()>>,
    second: Vec<SetAssociative<()>>,
    /// Pages that were translated since they were mapped, by their first id.
    walked: BitSet,
    counts: WalkCounts,
}

impl<'a> Tlbs<'a> {
    pub(crate) fn new(config: &'a TlbConfig, gigabytes: &'a [u64], stop: &'a AtomicBool) -> Self {
        let arrays = |geometries: &[Option<TlbGeometry>]| {
            geometries.iter().flatten().map(|it| SetAssociative::new(*it)).collect()
        };
        let data = [Some(config.l1_data_4k), config.l1_data_2m, config.l1_data_1g];
        let instruction = [Some(config.l1_instruction_4k), config.l1_instruction_2m];
        let mut sets = Vec::new();
        let mut next = 0;
        for geometry in data.iter().chain(&instruction).flatten() {
            sets.push((next, geometry.sets() as u64 - 1));
            next += geometry.sets();
        }
        let own = [Some(config.l2), config.l2_2m.own(), config.l2_1g.own()];
        Self {
            config,
            stop,
            gigabytes,
            places: (0..=PageOrder::HUGE.0).map(|order| places(config, PageOrder(order))).collect(),
            sets,
            data: arrays(&data),
            instruction: arrays(&instruction),
            second: arrays(&own),
            walked: BitSet::default(),
            counts: WalkCounts::default(),
        }
    }

    /// True if the simulation is to end early.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Number of the aligned block of an order, from which an array takes its set.
    #[inline]
    fn index(&self, id: PageId, order: u8) -> u64 {
        let gigabyte = self.gigabytes[(id.0 >> PageOrder::HUGE.0) as usize];
        let within = id.0 & ((1 << PageOrder::HUGE.0) - 1);
        gigabyte << (PageOrder::HUGE.0 - order) | u64::from(within >> order)
    }

    /// Number of sets of all first-level arrays.
    pub(crate) fn first_level_sets(&self) -> usize {
        self.sets.iter().map(|(_, mask)| *mask as usize + 1).sum()
    }

    /// Set of the first level in which a page of this order is looked up, numbered over all arrays, and the
    /// block of its entry with the entry's order.
    #[inline]
    pub(crate) fn first_level_set(
        &self,
        reference: Reference,
        order: PageOrder,
    ) -> (usize, (u64, u8)) {
        let Places { data, instruction, .. } = &self.places[usize::from(order.0)];
        let (place, skipped) = match reference.is_fetch() {
            true => (instruction, self.data.len()),
            false => (data, 0),
        };
        let (first, mask) = self.sets[skipped + place.array];
        let set = first + (self.index(reference.id(), place.order) & mask) as usize;
        (set, (key(reference.id(), place.order), place.order))
    }

    /// Looks up and fills the TLBs for a reference to a page of this order. Returns true after a walk that
    /// was not the first to its page.
    #[inline]
    fn refer(&mut self, reference: Reference, order: PageOrder) -> bool {
        let id = reference.id();
        let Places { data, instruction, second } = &self.places[usize::from(order.0)];
        let first = if reference.is_fetch() { instruction } else { data };
        let (first_order, first_array) = (first.order, first.array);
        let first_index = self.index(id, first_order);
        let first_key = key(id, first_order);
        let array = match reference.is_fetch() {
            true => &mut self.instruction[first_array],
            false => &mut self.data[first_array],
        };
        if array.look_up(first_index, first_key).is_some() {
            return false;
        }
        array.insert_absent(first_index, first_key, ());
        let mut is_again = false;
        let place = second.as_ref().map(|place| {
            (place.array, key(id, place.order), self.index(id, place.order), place.ways.clone())
        });
        if let Some((array, key, index, _)) = &place
            && self.second[*array].look_up(*index, *key).is_some()
        {
            return false;
        }
        if self.walked.insert(key(id, order.0) as usize) {
            self.counts.first_walks += 1;
        } else {
            self.counts.walks += 1;
            is_again = true;
        }
        match place {
            Some((array, key, index, None)) => {
                self.second[array].insert_absent(index, key, ());
            }
            Some((array, key, index, Some(ways))) => {
                self.second[array].insert_absent_among(&ways, index, key, ());
            }
            None => {}
        }
        is_again
    }

    fn mark(&mut self, mark: &Mark, sizes: &PageSizes) {
        match mark {
            Mark::Forget(ids) => {
                // A page that begins before the range and ends in it goes, too.
                let order = sizes.order(PageId(ids.start));
                let ids = key(PageId(ids.start), order.0)..u64::from(ids.end);
                self.forget(|key| ids.contains(&key));
                self.walked.remove_range(ids.start as usize..ids.end as usize);
            }
            Mark::Touched(ids) => {
                for id in ids.clone().map(PageId) {
                    self.walked.insert(key(id, sizes.order(id).0) as usize);
                }
            }
            Mark::Switch => {
                if !self.config.tagged {
                    self.forget(|_| true);
                }
            }
            Mark::StartMeasuring => self.counts = WalkCounts::default(),
        }
    }

    fn forget(&mut self, is_gone: impl Fn(u64) -> bool) {
        let all = self.data.iter_mut().chain(&mut self.instruction).chain(&mut self.second);
        all.for_each(|array| array.invalidate_if(&is_gone));
    }

    /// Passes all references through the TLBs. Calls `on_walk` at each walk that is not the first to its
    /// page; those before the start of measuring are undone by `on_start`. Ends early, with fewer walks, if
    /// [`Self::is_stopped`].
    pub(crate) fn run(
        mut self,
        references: &References,
        sizes: &PageSizes,
        mut on_walk: impl FnMut(Walk),
    ) -> WalkCounts {
        for (part, mark) in references.parts() {
            for part in part.chunks(STOP_INTERVAL) {
                if self.is_stopped() {
                    return self.counts;
                }
                for &reference in part {
                    if self.refer(reference, sizes.order(reference.id())) {
                        on_walk(Walk::To(reference.id()));
                    }
                }
            }
            if let Some(mark) = mark {
                self.mark(mark, sizes);
                if *mark == Mark::StartMeasuring {
                    on_walk(Walk::Start);
                }
            }
        }
        self.counts
    }
}

/// Message of a simulation about its page walks.
pub(crate) enum Walk {
    /// A walk to a page that had been translated before.
    To(PageId),
    /// Measuring starts: walks so far do not count.
    Start,
}

/// Key of the entry for the aligned block of an order: the first id in it. No two pages of one
/// configuration overlap, so keys of different orders differ.
#[inline]
fn key(id: PageId, order: u8) -> u64 {
    u64::from(id.0 >> order << order)
}

/// Places of pages of an order. An order for which the machine has no entries uses those of the next
/// smaller one.
fn places(config: &TlbConfig, order: PageOrder) -> Places {
    let whole = |array, order: PageOrder| Place { array, order: order.0, ways: None };
    let large = order >= PageOrder::LARGE;
    let huge = order >= PageOrder::HUGE;
    let group = group_order(config).filter(|group| *group <= order).unwrap_or(PageOrder::BASE);
    let first = |has_large: bool, has_huge: bool| {
        if huge && has_huge {
            whole(1 + usize::from(has_large), PageOrder::HUGE)
        } else if large && has_large {
            whole(1, PageOrder::LARGE)
        } else {
            whole(0, if config.l1_coalescing && !large { group } else { PageOrder::BASE })
        }
    };
    let among =
        |ways: Ways| Some(ways.of(config.l2.ways)).filter(|some| some.len() < config.l2.ways);
    let part = |part: perforate_mmu::L2Part, own: usize, order: PageOrder| {
        part.holds_pages().then(|| match part.own() {
            Some(_) => whole(own, order),
            None => Place { array: 0, order: order.0, ways: among(part.ways()) },
        })
    };
    let second = if huge {
        part(config.l2_1g, 1 + usize::from(config.l2_2m.own().is_some()), PageOrder::HUGE)
    } else if large {
        part(config.l2_2m, 1, PageOrder::LARGE)
    } else {
        Some(Place { array: 0, order: group.0, ways: among(config.l2_4k) })
    };
    Places {
        data: first(config.l1_data_2m.is_some(), config.l1_data_1g.is_some()),
        instruction: first(config.l1_instruction_2m.is_some(), false),
        second,
    }
}

#[cfg(test)]
mod tests {
    use perforate_mmu::{L2Part, MmuConfig, TlbGeometry};
    use perforate_types::ProcessId;

    use super::*;

    fn config() -> TlbConfig {
        let geometry = |entries, ways| TlbGeometry { entries, ways };
        MmuConfig::plain(geometry(4, 4), geometry(16, 4)).tlb
    }

    #[test]
    fn sizes_have_entries_in_the_first_or_the_second_level() {
        let geometry = TlbGeometry { entries: 4, ways: 4 };
        for l1_data_2m in [None, Some(geometry)] {
            for l2_2m in [L2Part::NONE, L2Part::ALL, L2Part::Own(geometry)] {
                for l1_data_1g in [None, Some(geometry)] {
                    for l2_1g in [L2Part::NONE, L2Part::Own(geometry)] {
                        let tlb = TlbConfig { l1_data_2m, l2_2m, l1_data_1g, l2_1g, ..config() };
                        let orders = orders_with_entries(&tlb);
                        let large = l1_data_2m.is_some() || l2_2m != L2Part::NONE;
                        let huge = l1_data_1g.is_some() || l2_1g != L2Part::NONE;
                        assert_eq!(orders[0], PageOrder::BASE);
                        assert_eq!(orders.contains(&PageOrder::LARGE), large, "{tlb:?}");
                        assert_eq!(orders.contains(&PageOrder::HUGE), huge, "{tlb:?}");
                        assert!(orders.is_sorted());
                    }
                }
            }
        }
    }

    /// Walks of references to pages, with a mark before the last reference.
    fn walks(tlb: &TlbConfig, pages: &[u64], mark: impl Fn(&[PageId]) -> Mark) -> WalkCounts {
        let mut ids = PageIds::new();
        let pages: Vec<PageId> =
            pages.iter().map(|&page| ids.id(ProcessId(0), page).unwrap()).collect();
        let mut references = References::default();
        references.list.extend(pages.iter().map(|&id| Reference::new(id, false)));
        references.marks.push((pages.len() - 1, mark(&pages)));
        let gigabytes: Vec<u64> = ids.gigabytes().collect();
        Tlbs::new(tlb, &gigabytes, &AtomicBool::new(false)).run(
            &references,
            &PageSizes::base(&ids),
            |_| (),
        )
    }

    #[test]
    fn unmapped_pages_are_walked_to_again_as_new_ones() {
        let counts = |first_walks, walks| WalkCounts { walks, first_walks };
        let forget =
            |place: usize| move |ids: &[PageId]| Mark::Forget(ids[place].0..ids[place].0 + 1);
        let pages = [10, 11, 10, 11, 10];
        assert_eq!(walks(&config(), &pages, forget(1)), counts(2, 0), "another page was unmapped");
        assert_eq!(walks(&config(), &pages, forget(0)), counts(3, 0));
        // Pages that were touched meanwhile are known, but their entries were not loaded.
        let touched = |ids: &[PageId]| Mark::Touched(ids[0].0 + 7..ids[0].0 + 8);
        assert_eq!(walks(&config(), &[10, 11, 17], touched), counts(2, 1));
    }

    #[test]
    fn switches_empty_tlbs_without_tags() {
        let of = |tagged| walks(&TlbConfig { tagged, ..config() }, &[10, 11, 10], |_| Mark::Switch);
        assert_eq!(of(true), WalkCounts { walks: 0, first_walks: 2 });
        assert_eq!(of(false), WalkCounts { walks: 1, first_walks: 2 });
    }
}
