//! The allocator's metadata: a descriptor for each extent in use, and a table that maps pages to
//! descriptors. They are in separate memory, away from the objects.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use super::allocator::AddressSpace;
use super::extents::Extent;
use super::process::Process;
use crate::source::PAGE_BYTES;

/// Size of an extent's descriptor (jemalloc's `extent_t`) in bytes.
const DESCRIPTOR_BYTES: u64 = 128;
/// Bytes that are mapped at a time for the allocator's metadata, and their alignment.
const BLOCK_BYTES: u64 = 2 << 20;
/// Size in bytes of an entry in the allocator's page map, its table from pages to extents.
const ENTRY_BYTES: u64 = 8;
/// Bytes of address space that a leaf of the page map covers; a leaf has 2MB of entries.
const LEAF_SPAN_BYTES: u64 = BLOCK_BYTES / ENTRY_BYTES * PAGE_BYTES;

/// Addresses at which the simulated allocator keeps its metadata.
#[derive(Default)]
pub(super) struct Records {
    /// Address of each used extent's descriptor, by the extent's first byte. Never iterated.
    descriptors: HashMap<u64, u64>,
    /// Addresses of free descriptors; the last freed one is used first.
    unused: Vec<u64>,
    /// Rest of the mapped block from which new descriptors are taken.
    rest: Option<Extent>,
    /// Addresses of the page map's leaves, by number of the part of the address space that a leaf covers.
    leaves: BTreeMap<u64, u64>,
}

impl Records {
    /// Records an extent that came into use: writes its descriptor, and the entries of its first and
    /// last page.
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

    /// Records that an extent is free: writes its descriptor, and the entries of its first and last page.
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

    /// Address of the page-map entry for the page at this address.
    fn entry(&self, page: u64) -> u64 {
        let leaf = self.leaves[&(page / LEAF_SPAN_BYTES)];
        leaf + page % LEAF_SPAN_BYTES / PAGE_BYTES * ENTRY_BYTES
    }
}
