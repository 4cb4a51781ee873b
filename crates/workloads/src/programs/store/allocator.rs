//! Memory allocator in the manner of jemalloc 5, which Redis bundles: size classes, slabs of small
//! objects, extents of large objects, and metadata for both.
//!
//! This allocator makes heaps sparse: a large object gets an extent one page longer than its class, and
//! begins at a random cache line of the first page. (This is jemalloc's option `cache-oblivious`, on by
//! default, so that large objects do not all start in the same cache sets; jemalloc's INSTALL.md warns
//! of the extra page.) Pages after the object's end are never touched. Redis has disabled the option
//! since 2023 (pull request 12315), because of its memory use.

use std::collections::{BTreeMap, BTreeSet};

use perforate_types::{Advice, Backing, Permissions, ProgramEvent, Random, VirtualAddress};

use super::extents::{Extent, FreeExtents};
use super::process::Process;
use super::records::Records;
use super::size_class::{self, LARGE_BYTES};
use crate::source::{HEAP_STEP_BYTES, PAGE_BYTES};

/// Address of the heap's upper end. Mappings are placed downwards from here, as Linux does.
pub(super) const HEAP_END: u64 = 0x7f00_0000_0000;
/// Length of the allocator's first mapping in bytes.
const FIRST_GROWTH_BYTES: u64 = 2 << 20;
/// Constant that makes the allocator's random numbers independent of others with the same seed.
const HEAP_PURPOSE: u64 = 0x6865_6170;
/// Alignment in bytes of a large object within the first page of its extent (its range of pages).
const CACHE_LINE_BYTES: u64 = 64;

/// Slab: small objects of one size class that share an extent, a range of pages.
struct Slab {
    class_bytes: u64,
    /// Indices of the slab's free objects, lowest first.
    free: BTreeSet<u32>,
    /// Number of objects that the slab has room for.
    places: u32,
}

/// Memory allocator of one process.
pub(super) struct Allocator {
    random: Random,
    /// Bytes by which the extent of a large object exceeds its size class.
    padding_bytes: u64,
    space: AddressSpace,
    /// Length in bytes of the next mapping, if mappings get longer.
    growth_bytes: u64,
    /// True if all mappings are as short as steps of glibc's heap.
    grows_in_steps: bool,
    /// Free extents (ranges of pages) whose pages are still resident.
    dirty: FreeExtents,
    /// Free extents that were never used, or were returned to the operating system.
    clean: FreeExtents,
    slabs: BTreeMap<u64, Slab>,
    /// Slabs with free objects, by size class in bytes and address.
    with_places: BTreeSet<(u64, u64)>,
    records: Records,
}

/// Memory that is allocated for an object.
pub(super) struct Allocation {
    /// Address of the object's first byte.
    pub(super) address: u64,
    /// True if the object's pages are known to be zero.
    pub(super) is_zero: bool,
}

/// Allocator of address ranges, from the top downwards.
pub(super) struct AddressSpace {
    lowest: u64,
}

impl AddressSpace {
    /// Maps `length` bytes at a multiple of `alignment`, below all earlier mappings of the process.
    pub(super) fn map(&mut self, process: &mut Process<'_>, length: u64, alignment: u64) -> Extent {
        self.lowest = (self.lowest - length) / alignment * alignment;
        process.event(ProgramEvent::Map {
            start: VirtualAddress::new(self.lowest),
            length,
            permissions: Permissions::READ_WRITE,
            accessible: true,
            backing: Backing::Anonymous,
            shared: false,
            populate: false,
        });
        Extent { start: self.lowest, length }
    }
}

impl Allocator {
    /// Makes an allocator with an empty heap. With `padding`, extents of large objects are a page longer than
    /// their class. With `grows_in_steps`, the heap grows as glibc's does; otherwise by ever longer mappings.
    pub(super) fn new(seed: u64, padding: bool, grows_in_steps: bool) -> Self {
        Self {
            random: Random::keyed(seed, HEAP_PURPOSE, 0),
            padding_bytes: if padding { PAGE_BYTES } else { 0 },
            space: AddressSpace { lowest: HEAP_END },
            growth_bytes: FIRST_GROWTH_BYTES,
            grows_in_steps,
            dirty: FreeExtents::default(),
            clean: FreeExtents::default(),
            slabs: BTreeMap::new(),
            with_places: BTreeSet::new(),
            records: Records::default(),
        }
    }

    /// Allocates `bytes` bytes for an object, without touching them.
    pub(super) fn allocate(&mut self, process: &mut Process<'_>, bytes: u64) -> Allocation {
        let class_bytes = size_class::round_up(bytes);
        if class_bytes < LARGE_BYTES {
            return self.allocate_small(process, class_bytes);
        }
        let (extent, is_zero) = self.take(process, class_bytes + self.padding_bytes);
        let lines = (self.padding_bytes / CACHE_LINE_BYTES).max(1);
        let line = self.random.below(lines);
        Allocation { address: extent.start + line * CACHE_LINE_BYTES, is_zero }
    }

    /// Frees an object of `bytes` bytes that [`Self::allocate`] placed at `address`.
    pub(super) fn free(&mut self, process: &mut Process<'_>, address: u64, bytes: u64) {
        let class_bytes = size_class::round_up(bytes);
        if class_bytes < LARGE_BYTES {
            return self.free_small(process, address);
        }
        let start = address / PAGE_BYTES * PAGE_BYTES;
        self.give(process, Extent { start, length: class_bytes + self.padding_bytes })
    }

    /// Returns the pages of all free extents to the operating system (MADV_DONTNEED), as jemalloc does
    /// some seconds after a free.
    pub(super) async fn purge(&mut self, process: &mut Process<'_>) {
        for extent in self.dirty.drain() {
            process.event(ProgramEvent::Advise {
                start: VirtualAddress::new(extent.start),
                length: extent.length,
                advice: Advice::DontNeed,
            });
            self.clean.add(extent);
            process.tracer.pause().await;
        }
    }

    fn allocate_small(&mut self, process: &mut Process<'_>, class_bytes: u64) -> Allocation {
        let known = self.with_places.range((class_bytes, 0)..).next().copied();
        let start = match known {
            Some((class, start)) if class == class_bytes => start,
            _ => self.new_slab(process, class_bytes),
        };
        let slab = self.slabs.get_mut(&start).expect("a slab with places is known");
        let place = slab.free.pop_first().expect("it has places");
        if slab.free.is_empty() {
            self.with_places.remove(&(class_bytes, start));
        }
        Allocation { address: start + u64::from(place) * class_bytes, is_zero: false }
    }

    fn new_slab(&mut self, process: &mut Process<'_>, class_bytes: u64) -> u64 {
        let length = size_class::slab_bytes(class_bytes);
        let (extent, _) = self.take(process, length);
        let places = (length / class_bytes) as u32;
        self.slabs.insert(extent.start, Slab { class_bytes, free: (0..places).collect(), places });
        self.with_places.insert((class_bytes, extent.start));
        extent.start
    }

    fn free_small(&mut self, process: &mut Process<'_>, address: u64) {
        let (&start, slab) =
            self.slabs.range_mut(..=address).next_back().expect("a slab lies around it");
        let class_bytes = slab.class_bytes;
        let is_new = slab.free.insert(((address - start) / class_bytes) as u32);
        assert!(is_new, "freed twice");
        if slab.free.len() < slab.places as usize {
            self.with_places.insert((class_bytes, start));
            return;
        }
        self.with_places.remove(&(class_bytes, start));
        self.slabs.remove(&start);
        self.give(process, Extent { start, length: size_class::slab_bytes(class_bytes) })
    }

    /// Allocates an extent of `length` bytes, from freed resident extents first. Also returns true if its
    /// pages are zero.
    fn take(&mut self, process: &mut Process<'_>, length: u64) -> (Extent, bool) {
        let (extent, is_zero) = match self.dirty.take(length) {
            Some(extent) => (extent, false),
            None => (self.take_clean(process, length), true),
        };
        self.records.note_extent(process, &mut self.space, extent);
        (extent, is_zero)
    }

    fn take_clean(&mut self, process: &mut Process<'_>, length: u64) -> Extent {
        if let Some(extent) = self.clean.take(length) {
            return extent;
        }
        let step = if self.grows_in_steps {
            length.max(HEAP_STEP_BYTES)
        } else {
            // Each mapping is one size class longer than the previous one (jemalloc's `retain`).
            while self.growth_bytes < length {
                self.growth_bytes = size_class::round_up(self.growth_bytes + 1);
            }
            let next = size_class::round_up(self.growth_bytes + 1);
            std::mem::replace(&mut self.growth_bytes, next)
        };
        let mapped = self.space.map(process, step, PAGE_BYTES);
        self.clean.add(mapped);
        self.clean.take(length).expect("it was mapped for this")
    }

    fn give(&mut self, process: &mut Process<'_>, extent: Extent) {
        self.dirty.add(extent);
        self.records.forget_extent(process, extent)
    }
}
