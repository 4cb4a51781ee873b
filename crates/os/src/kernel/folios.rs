//! Folios: first touches that map an aligned block of 16KB to 1MB by 4KB entries (Linux:
//! `alloc_anon_folio`, since 6.8).
//!
//! The kernel takes the largest size that the area allows, whose block lies in the area and is wholly
//! unmapped, and for which a block of frames is free. Each page then has an entry of its own, so what
//! happens to a part of a folio is what happens to 4KB pages.

use perforate_types::{CONTIGUOUS_PAGES, figures};

use super::first_touch::{Backed, Touch};
use super::{Core, FirstTouch, KernelConfig, single_page};
use crate::space::{Attributes, index_of, region_of};
use crate::{FolioSizes, Orders, OsError, Policy};

/// Sizes of folios that a kernel maps, and the numbers of those that it mapped.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Folios {
    sizes: FolioSizes,
    /// Number of folios by order, from the smallest on.
    made: [u64; 7],
    fallbacks: u64,
}

figures! {
    /// Counters of folios, and of what they spare.
    pub(super) static FOLIOS: Folios, "Memory" {
        /// Folios of 16KB that first touches mapped, since the start.
        folios_16k, Count, Listed: |it| it.made[0];
        /// Folios of 32KB that first touches mapped, since the start.
        folios_32k, Count, Listed: |it| it.made[1];
        /// Folios of 64KB that first touches mapped, since the start.
        folios_64k, Count, Listed: |it| it.made[2];
        /// Folios of 128KB that first touches mapped, since the start.
        folios_128k, Count, Listed: |it| it.made[3];
        /// Folios of 256KB that first touches mapped, since the start.
        folios_256k, Count, Listed: |it| it.made[4];
        /// Folios of 512KB that first touches mapped, since the start.
        folios_512k, Count, Listed: |it| it.made[5];
        /// Folios of 1MB that first touches mapped, since the start.
        folios_1m, Count, Listed: |it| it.made[6];
        /// Pages that folios mapped besides the touched page: page faults saved, if the program
        /// touches them.
        folio_pages_around, Count, Listed: |it| it.pages_around();
        /// Folio sizes that an area allowed and that had room for, but that were not mapped because no
        /// such block of frames was free; the next smaller size was tried.
        folio_fallbacks, Count, Listed: |it| it.fallbacks;
    }
}

impl Folios {
    pub(super) fn new(config: &KernelConfig, policy: &dyn Policy) -> Self {
        let of_policy = policy.rule::<FolioSizes>().copied().unwrap_or_default();
        let sizes = config.mthp.unwrap_or_default().or(of_policy);
        Self { sizes, ..Self::default() }
    }

    fn pages_around(&self) -> u64 {
        FolioSizes::ORDERS.zip(self.made).map(|(order, made)| ((1 << order) - 1) * made).sum()
    }
}

/// Maps an unmapped page by a 4KB entry: with the other pages of a folio if possible, else alone.
pub(super) fn map(core: &mut Core, touch: &Touch) -> Result<(), OsError> {
    if are_possible(core, &touch.area.attributes) && map_folio(core, touch)? == Backed::Yes {
        return Ok(());
    }
    single_page::map(core, touch.space, touch.page, touch.permissions())
}

/// True if the kernel or the program asks for folios in a memory area.
pub(super) fn are_possible(core: &Core, attributes: &Attributes) -> bool {
    !core.folios.sizes.are_none() || core.wanted_folio(attributes).is_some()
}

/// Maps the largest folio around the page for which there are room and memory.
fn map_folio(core: &mut Core, touch: &Touch) -> Result<Backed, OsError> {
    let &Touch { page, ref area, .. } = touch;
    let attributes = &area.attributes;
    if !attributes.is_private_anonymous() || !attributes.eligible() {
        return Ok(Backed::No);
    }
    let inherited = core.policy.maps_large() && core.policy.wants_large(attributes);
    let allowed = match core.wanted_folio(attributes) {
        Some(order) => Orders::BASE.with(order),
        None => core.folios.sizes.allowed(attributes, inherited),
    };
    let fits = |&order: &u32| allowed.contains(order) && area.spans(&block_around(page, order));
    for order in FolioSizes::ORDERS.rev().filter(fits) {
        if !is_free(core, touch, order)? {
            continue;
        }
        if map_order(core, touch, order)? == Backed::Yes {
            core.folios.made[(order - *FolioSizes::ORDERS.start()) as usize] += 1;
            return Ok(Backed::Yes);
        }
        core.folios.fallbacks += 1;
    }
    Ok(Backed::No)
}

/// The aligned block of 2^`order` pages around a page.
fn block_around(page: u64, order: u32) -> std::ops::Range<u64> {
    let first = page >> order << order;
    first..first + (1 << order)
}

/// True if nothing maps a page of the block, and none is in swap or reserved for an overlay.
fn is_free(core: &Core, touch: &Touch, order: u32) -> Result<bool, OsError> {
    let space = core.space(touch.space)?;
    let mut block = block_around(touch.page, order);
    Ok(!space.any_held_elsewhere(&block) && block.all(|page| space.frame_of(page).is_none()))
}

/// Maps a folio of 2^`order` pages. As Linux allocates it without reclaim, it must leave the memory above the
/// high watermark.
fn map_order(core: &mut Core, touch: &Touch, order: u32) -> Result<Backed, OsError> {
    let (block, permissions) = (block_around(touch.page, order), touch.permissions());
    let pages = block.end - block.start;
    if core.free_frames() < core.memory.high_watermark() + pages {
        return Ok(Backed::No);
    }
    let Some(first) = core.memory.allocate_folio(order) else { return Ok(Backed::No) };
    let space = &mut core.space_mut(touch.space)?;
    if let Err(error) = space.open_pages(block.start) {
        space.memory.free(first, order);
        return Err(error);
    }
    for page in block.clone() {
        let written = space.write_page(page, first.add(page - block.start), permissions);
        written.expect("the node is there");
    }
    space.report_mapped(block.start, pages, first, permissions);
    let joined = block.clone().step_by(CONTIGUOUS_PAGES as usize);
    let whole = pages >= CONTIGUOUS_PAGES;
    for page in joined.filter(|_| whole) {
        space.note_folio(region_of(page), index_of(page) / CONTIGUOUS_PAGES as usize);
    }
    space.ledger.bring_in(FirstTouch::Folio { pages });
    Ok(Backed::Yes)
}
