//! Residents: memory that the rest of the system held when a snapshot of a real machine was taken.
//!
//! All memories that begin with one snapshot share it, and it never changes. Each memory records
//! only which frames were moved or dropped since. So a memory of a terabyte needs no record for
//! each frame. The snapshot does not record which frames belong to one file or program: all of them
//! count as one allocation ([`super::owners::RESIDENT`]), and are dropped in random order.

use std::collections::HashMap;
use std::sync::Arc;

use perforate_types::{Frame, HoleSet, Random};

use super::owners::Owner;
use super::{BLOCK_ORDER, MigrateType, OtherUse, PhysicalMemory, TopTable, Zones, complement};
use crate::{FrameClass, FrameState, HostSnapshot, Occupancy, OsError};

/// Number of the random-number stream for the order in which snapshot memory is dropped.
const ORDER_OF_RECLAIM: u64 = 0x736e_6170;
/// Number of frames in a slice, the aligned run in which page cache and slab of a snapshot are dropped:
/// 128KB, Linux's default read-ahead.
const SLICE_FRAMES: u64 = 32;
const SLICES_PER_BLOCK: u64 = (1 << BLOCK_ORDER) / SLICE_FRAMES;
/// Number of bits of the hole bitmap in one frame.
const BITS_PER_FRAME: u64 = 8 * super::FRAME_BYTES;

/// Frames of a snapshot that still hold their content.
pub(super) struct Residents {
    snapshot: Arc<HostSnapshot>,
    /// Snapshot frames whose content was moved or dropped, by 2MB block number: indices in the block.
    left: HashMap<u64, HoleSet>,
    /// Number of snapshot frames that still hold their content, for each usage.
    frames: [u64; OtherUse::COUNT],
    recorded: [u64; OtherUse::COUNT],
    /// Random order in which slices (aligned runs of 32 frames) are dropped, for each usage.
    order: [SliceOrder; OtherUse::COUNT],
}

/// Random order in which slices (aligned runs of 32 frames) of a memory are visited: a full-period linear
/// congruential sequence.
#[derive(Clone, Copy, Debug)]
struct SliceOrder {
    next: u64,
    step: u64,
    /// Length of the sequence, a power of two.
    period: u64,
    slices: u64,
    left: u64,
}

impl SliceOrder {
    fn new(slices: u64, seed: u64, usage: OtherUse) -> Self {
        let mut random = Random::keyed(seed, ORDER_OF_RECLAIM, usage as u64);
        let period = slices.next_power_of_two();
        let (next, step) = (random.next() % period, random.next() | 1);
        Self { next, step, period, slices, left: period }
    }

    /// Returns the number of the next slice; `None` after every slice was returned once.
    fn next(&mut self) -> Option<u64> {
        while self.left > 0 {
            let slice = self.next;
            // Hull and Dobell: a multiplier of 1 mod 4 and an odd increment give the full period.
            // The low bits of the sequence alternate; they are the index of the slice in its block.
            let factor = 0x5851_f42d_4c95_7f2d_u64;
            self.next = slice.wrapping_mul(factor).wrapping_add(self.step) & (self.period - 1);
            self.left -= 1;
            if slice < self.slices {
                return Some(slice);
            }
        }
        None
    }
}

impl Residents {
    fn occupancy(&self) -> &Occupancy {
        self.snapshot.occupancy.as_ref().expect("it was placed")
    }

    fn has_left(&self, frame: Frame) -> bool {
        let left = self.left.get(&(frame.number() >> BLOCK_ORDER));
        left.is_some_and(|left| left.contains(frame.number() as usize % HoleSet::SUBPAGES))
    }

    /// Usage of a snapshot frame whose content can still be moved or dropped; `None` for all other frames.
    pub(super) fn record(&self, frame: Frame) -> Option<OtherUse> {
        let usage = self.occupancy().state(frame.number()).removable_usage()?;
        (!self.has_left(frame)).then_some(usage)
    }

    /// Frames of a 2MB block, by index, with snapshot content and a state that satisfies `wanted`.
    fn remaining(&self, number: u64, wanted: impl Fn(FrameState) -> bool) -> HoleSet {
        let frames = self.occupancy().frames_of(number, wanted);
        match self.left.get(&number) {
            Some(left) => complement(&complement(&frames).union(left)),
            None => frames,
        }
    }

    /// Indices of the frames of a 2MB block whose snapshot contents can be migrated.
    pub(super) fn movable(&self, block: Frame) -> HoleSet {
        self.remaining(block.number() >> BLOCK_ORDER, FrameState::is_movable)
    }

    /// Number of frames of a 2MB block whose snapshot contents can be moved or dropped.
    pub(super) fn recorded(&self, block: Frame) -> u64 {
        self.remaining(block.number() >> BLOCK_ORDER, |state| state.removable_usage().is_some())
            .count() as u64
    }

    /// Number of snapshot frames allocated for `usage` that still hold their content.
    pub(super) fn frames(&self, usage: OtherUse) -> u64 {
        self.frames[usage as usize]
    }

    /// Number of snapshot frames allocated for `usage` that can still be moved or dropped.
    pub(super) fn recorded_frames(&self, usage: OtherUse) -> u64 {
        self.recorded[usage as usize]
    }

    /// Records that the snapshot content of a frame was moved or dropped.
    ///
    /// # Panics
    /// If the content cannot be moved or dropped, or already was.
    pub(super) fn leave(&mut self, frame: Frame) {
        let usage = self.record(frame).expect("it is there");
        let left = self.left.entry(frame.number() >> BLOCK_ORDER).or_default();
        left.insert(frame.number() as usize % HoleSet::SUBPAGES);
        self.frames[usage as usize] -= 1;
        self.recorded[usage as usize] -= 1;
    }

    /// Next frames of the snapshot to drop for `usage`, all in one slice: first frame of the block, and
    /// indices. `None` if none is left.
    fn next_to_drop(&mut self, usage: OtherUse) -> Option<(Frame, HoleSet)> {
        if self.recorded_frames(usage) == 0 {
            return None;
        }
        while let Some(slice) = self.order[usage as usize].next() {
            let (number, place) = (slice / SLICES_PER_BLOCK, slice % SLICES_PER_BLOCK);
            let frames = self.remaining(number, |state| state.removable_usage() == Some(usage));
            let start = (place * SLICE_FRAMES) as usize;
            let inside = start..start + SLICE_FRAMES as usize;
            let frames: HoleSet = frames.iter().filter(|index| inside.contains(index)).collect();
            if !frames.is_empty() {
                return Some((Frame::new(number << BLOCK_ORDER), frames));
            }
        }
        None
    }

    /// All frames that still hold their snapshot content: not free, absent or moved. Excludes retired frames,
    /// which have a record in the reverse map.
    pub(super) fn all_frames(&self) -> impl Iterator<Item = Frame> + '_ {
        self.blocks(|state| state.usage().is_some()).flat_map(|(block, frames)| {
            frames.iter().map(|i| block.add(i as u64)).collect::<Vec<_>>()
        })
    }

    /// Frames that still hold their snapshot content and whose state satisfies `wanted`, in ascending order
    /// of blocks: first frame of the block, and indices.
    pub(super) fn blocks<'a>(
        &'a self,
        wanted: impl Fn(FrameState) -> bool + Copy + 'a,
    ) -> impl Iterator<Item = (Frame, HoleSet)> + 'a {
        let runs = self.occupancy().block_runs();
        let candidates = runs.filter(move |(_, _, states)| !states.frames(wanted).is_empty());
        let numbers = candidates.flat_map(|(first, blocks, _)| first..first + blocks);
        numbers
            .map(move |number| (Frame::new(number << BLOCK_ORDER), self.remaining(number, wanted)))
    }
}

impl PhysicalMemory {
    /// Creates a memory with the contents and zones of a snapshot. A hole bitmap or flat table is added above
    /// the snapshot's memory, so that the same frames are free with and without such a table.
    pub(crate) fn from_snapshot(
        snapshot: &Arc<HostSnapshot>,
        top_table: TopTable,
        seed: u64,
    ) -> Result<Self, OsError> {
        let occupancy = snapshot.frames()?;
        let end = occupancy.blocks() << BLOCK_ORDER;
        let top_frames = match top_table {
            // The bitmap also has a bit for each frame that it occupies itself.
            TopTable::HoleBitmap => end.div_ceil(BITS_PER_FRAME - 1).max(1),
            _ => top_table.frames(end),
        };
        let end_frame = end + top_frames;
        let mut present = occupancy.present();
        match present.last_mut() {
            Some(last) if last.end == end => last.end = end_frame,
            _ if top_frames > 0 => present.push(end..end_frame),
            _ => {}
        }
        let mut zones = Zones::over(&snapshot.zone_ranges());
        let mut residents = Residents {
            snapshot: Arc::clone(snapshot),
            left: HashMap::new(),
            frames: [0; OtherUse::COUNT],
            recorded: [0; OtherUse::COUNT],
            order: OtherUse::ALL
                .map(|usage| SliceOrder::new(occupancy.blocks() * SLICES_PER_BLOCK, seed, usage)),
        };
        for state in &FrameState::ALL[..FrameState::COUNT] {
            if let Some(usage) = state.usage() {
                residents.frames[usage as usize] += occupancy.frames(*state);
            }
            if let Some(usage) = state.removable_usage() {
                residents.recorded[usage as usize] += occupancy.frames(*state);
            }
        }
        place(occupancy, &mut zones);
        let mut memory =
            Self::over(zones, present, end_frame..end_frame, end_frame, top_table, end..end_frame);
        for (block, frames) in residents.blocks(|state| state == FrameState::Retired) {
            for index in frames.iter() {
                memory.owners.set(block.add(index as u64), Owner::Retired);
                memory.retired_frames += 1;
            }
        }
        memory.residents = Some(residents);
        Ok(memory)
    }

    /// Frames that still hold the content of a snapshot, except unmovable ones: first frame of the
    /// block, indices, class.
    pub(crate) fn residents(&self) -> impl Iterator<Item = (Frame, HoleSet, FrameClass)> + '_ {
        const CLASSES: [FrameClass; 5] = [
            FrameClass::Movable,
            FrameClass::PageCache,
            FrameClass::Reclaimable,
            FrameClass::Large,
            FrameClass::Huge,
        ];
        self.residents.iter().flat_map(|residents| {
            CLASSES.into_iter().flat_map(move |class| {
                let of_class = move |state: FrameState| state.class() == class;
                residents.blocks(of_class).map(move |(block, frames)| (block, frames, class))
            })
        })
    }

    /// Drops one slice (up to 32 frames) of the snapshot's page cache or slab, and returns the number of
    /// frames; 0 if none is left.
    pub(super) fn drop_resident(&mut self, usage: OtherUse) -> u64 {
        let Some(residents) = &mut self.residents else { return 0 };
        let Some((block, frames)) = residents.next_to_drop(usage) else { return 0 };
        frames.iter().for_each(|index| residents.leave(block.add(index as u64)));
        self.free_frames_of(block, &frames);
        frames.count() as u64
    }
}

/// Allocates, in the zones of the new memory, all frames that are in use in the snapshot `occupancy`.
fn place(occupancy: &Occupancy, zones: &mut Zones) {
    let starts: Vec<u64> =
        zones.iter().map(|zone| zone.buddy.range().start >> BLOCK_ORDER).collect();
    for (first, blocks, states) in occupancy.block_runs() {
        let free = states.frames(FrameState::is_free);
        if free == HoleSet::FULL {
            continue;
        }
        // A single call of `take_blocks` must stay in one zone.
        let (mut start, end) = (first, first + blocks);
        while start < end {
            let next_zone = starts.iter().copied().find(|&zone| zone > start).unwrap_or(end);
            let stop = next_zone.min(end);
            zones.take_blocks(start..stop);
            start = stop;
        }
        let kind = migrate_type_of(|wanted| states.frames(wanted).count());
        if kind != MigrateType::Movable {
            (first..end).for_each(|number| {
                zones.set_migrate_type(Frame::new(number << BLOCK_ORDER), kind);
            });
        }
        for number in first..end {
            let block = Frame::new(number << BLOCK_ORDER);
            for (index, order) in super::block::aligned_runs(&free) {
                zones.free(block.add(index as u64), order);
            }
        }
    }
}

/// Migrate type of a pageblock of a snapshot: that of most frames, because Linux does not report types.
fn migrate_type_of(count: impl Fn(fn(FrameState) -> bool) -> usize) -> MigrateType {
    let movable = count(FrameState::is_movable) + count(|state| state == FrameState::Large);
    let reclaimable = count(|state| state == FrameState::Reclaimable);
    let unmovable = count(|state| state == FrameState::Unmovable);
    if movable >= reclaimable.max(unmovable) {
        MigrateType::Movable
    } else if reclaimable > unmovable {
        MigrateType::Reclaimable
    } else {
        MigrateType::Unmovable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slice_is_visited_once() {
        for slices in [1, 2, 3, 48, 64, 65, 1000] {
            let mut order = SliceOrder::new(slices, 7, OtherUse::PageCache);
            let mut visited: Vec<u64> = std::iter::from_fn(|| order.next()).collect();
            visited.sort_unstable();
            assert_eq!(visited, (0..slices).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_pageblock_has_the_type_of_most_of_its_frames() {
        use FrameState::{Free, Large, Movable, PageCache, Reclaimable, Unmovable};
        let of = |frames: &[(FrameState, usize)]| {
            migrate_type_of(|is_wanted| {
                frames.iter().filter(|(state, _)| is_wanted(*state)).map(|(_, count)| count).sum()
            })
        };
        for (frames, expected) in [
            (&[][..], MigrateType::Movable),
            (&[(Free, 512)], MigrateType::Movable),
            (&[(Movable, 2), (Reclaimable, 2), (Unmovable, 2)], MigrateType::Movable),
            (&[(PageCache, 1), (Large, 1), (Unmovable, 2)], MigrateType::Movable),
            (&[(Movable, 2), (Reclaimable, 3), (Unmovable, 2)], MigrateType::Reclaimable),
            (&[(Reclaimable, 3), (Unmovable, 3)], MigrateType::Unmovable),
            (&[(Reclaimable, 3), (Unmovable, 4)], MigrateType::Unmovable),
            (&[(Movable, 3), (Unmovable, 4)], MigrateType::Unmovable),
        ] {
            assert_eq!(of(frames), expected, "{frames:?}");
        }
    }
}
