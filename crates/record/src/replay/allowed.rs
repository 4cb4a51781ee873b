//! Recently accessed pages, so that not every access is looked up among the mappings.

use super::address_space::AddressSpace;

/// Number of pages that are remembered.
const PLACES: usize = 1 << 12;
/// A page that no access has.
const NONE: u64 = u64::MAX;
/// Bits of a page number, and of a page with the direction of an access.
const PAGE_BITS: u32 = 36;

/// Pages to which accesses were found to be allowed since the mappings last changed.
pub struct AllowedPages {
    pages: Vec<u64>,
    is_empty: bool,
}

impl AllowedPages {
    /// Without any page.
    pub fn new() -> Self {
        Self { pages: vec![NONE; PLACES], is_empty: true }
    }

    /// Mappings have changed.
    pub fn forget(&mut self) {
        if !self.is_empty {
            self.pages.fill(NONE);
            self.is_empty = true;
        }
    }

    /// True if an image may access an address.
    #[inline]
    pub fn check(
        &mut self,
        image: u64,
        address: u64,
        is_write: bool,
        space: &AddressSpace,
    ) -> bool {
        let page = image << (PAGE_BITS + 1) | address >> 12 << 1 | u64::from(is_write);
        let place = (address >> 12) as usize % PLACES;
        if self.pages[place] == page {
            return true;
        }
        let is_allowed = space.allows(address, is_write);
        if is_allowed {
            self.pages[place] = page;
            self.is_empty = false;
        }
        is_allowed
    }
}
