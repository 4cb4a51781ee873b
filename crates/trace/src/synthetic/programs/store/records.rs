//! The allocator's own memory: a descriptor for each extent in use, and a table from pages to
//! descriptors. They lie apart from the objects, in memory of their own.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use super::allocator::AddressSpace;
use super::extents::Extent;
use super::process::Process;
use crate::synthetic::PAGE_BYTES;

/// Bytes of a descriptor (jemalloc's `extent_t`).
const DESCRIPTOR_BYTES: u64 = 128;
/// Bytes mapped at a time for records, and their alignment.
const BLOCK_BYTES: u64 = 2 << 20;
/// Bytes of one entry of the page table of the allocator.
const ENTRY_BYTES: u64 = 8;
/// Address space that one leaf of that table stands for: 2MB of entries.
const LEAF_SPAN_BYTES: u64 = BLOCK_BYTES / ENTRY_BYTES * PAGE_BYTES;

/// Where the records lie.
#[derive(Default)]
pub(super) struct Records {
    /// Descriptor of each extent in use, by its first byte. Never iterated.
    descriptors: HashMap<u64, u64>,
    /// Descriptors that are free; the last one freed is used first.
    unused: Vec<u64>,
    /// What is left of the block descriptors are cut from.
    rest: Option<Extent>,
    /// Leaves by the part of the address space they stand for.
    leaves: BTreeMap<u64, u64>,
}

impl Records {
    /// Notes an extent that came into use: its descriptor, and the entries of its first and last
    /// page, are written.
    pub(super) fn note_extent(
        &mut self,
        process: &mut Process<'_>,
        space: &mut AddressSpace,
        extent: Extent,
    ) {
        let descriptor = match self.unused.pop() {
            Some(descriptor) => descriptor,
            None => self.new_descriptor(process, space),
        };
        self.descriptors.insert(extent.start, descriptor);
        process.write(descriptor);
        for page in [extent.start, extent.end() - PAGE_BYTES] {
            let part = page / LEAF_SPAN_BYTES;
            if let Entry::Vacant(vacant) = self.leaves.entry(part) {
                vacant.insert(space.map(process, BLOCK_BYTES, BLOCK_BYTES).start);
            }
            process.write(self.entry(page));
        }
    }

    /// Notes that an extent is free.
    pub(super) fn forget_extent(&mut self, process: &mut Process<'_>, extent: Extent) {
        let descriptor = self.descriptors.remove(&extent.start).expect("it was in use");
        self.unused.push(descriptor);
        process.write(descriptor);
        process.write(self.entry(extent.start));
        process.write(self.entry(extent.end() - PAGE_BYTES))
    }

    fn new_descriptor(&mut self, process: &mut Process<'_>, space: &mut AddressSpace) -> u64 {
        let block = match self.rest {
            Some(rest) if rest.length >= DESCRIPTOR_BYTES => rest,
            _ => space.map(process, BLOCK_BYTES, BLOCK_BYTES),
        };
        self.rest = Some(Extent {
            start: block.start + DESCRIPTOR_BYTES,
            length: block.length - DESCRIPTOR_BYTES,
        });
        block.start
    }

    /// Where the entry of the page at this address lies.
    fn entry(&self, page: u64) -> u64 {
        let leaf = self.leaves[&(page / LEAF_SPAN_BYTES)];
        leaf + page % LEAF_SPAN_BYTES / PAGE_BYTES * ENTRY_BYTES
    }
}
