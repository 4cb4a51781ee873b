//! Cache of recently accessed pages, so that not every access is looked up in the mappings.

use super::address_space::AddressSpace;

/// Number of entries in the cache of pages to which accesses are allowed.
const PLACES: usize = 1 << 12;
/// Value of an empty entry of the cache.
const NONE: u64 = u64::MAX;
/// Number of bits of a page number in an entry of the cache; the image's number is above.
const PAGE_BITS: u32 = 36;

/// Direct-mapped cache of pages to which accesses are allowed by the current mappings.
pub struct AllowedPages {
    pages: Vec<u64>,
    is_empty: bool,
}

impl AllowedPages {
    /// Makes an empty cache of pages to which accesses are allowed.
    pub fn new() -> Self {
        Self { pages: vec![NONE; PLACES], is_empty: true }
    }

    /// Clears the cache of allowed pages, because mappings have changed.
    pub fn forget(&mut self) {
        if !self.is_empty {
            self.pages.fill(NONE);
            self.is_empty = true;
        }
    }

    /// True if process image `image`, whose mappings are `space`, may access an address.
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

#[cfg(test)]
mod tests {
    use super::*;
    use perforate_types::{Backing, Permissions, ProgramEvent, VirtualAddress};

    fn space(length: u64, permissions: Permissions) -> AddressSpace {
        let mut space = AddressSpace::default();
        space.apply(&ProgramEvent::Map {
            start: VirtualAddress::new(0x10000),
            length,
            permissions,
            accessible: true,
            backing: Backing::Anonymous,
            shared: false,
            populate: false,
        });
        space
    }

    /// A page that may be read is not one that may be written, nor one of another image; refusals are not kept.
    #[test]
    fn what_is_remembered_is_for_one_image_and_kind_of_access() {
        let (read, both) =
            (space(0x2000, Permissions::READ), space(0x1000, Permissions::READ_WRITE));
        let none = AddressSpace::default();
        let mut allowed = AllowedPages::new();
        assert!(!allowed.check(0, 0x10000, false, &none));
        assert!(allowed.check(0, 0x10000, false, &read), "the refusal is not kept");
        assert!(!allowed.check(0, 0x10000, true, &read));
        assert!(!allowed.check(1, 0x10000, false, &none));
        assert!(allowed.check(0, 0x10fff, false, &none), "remembered");
        assert!(!allowed.check(0, 0x11000, false, &none), "the next page is not");
        assert!(allowed.check(1, 0x10000, true, &both) && allowed.check(1, 0x10008, true, &none));
        allowed.forget();
        assert!(
            !allowed.check(1, 0x10000, true, &none) && !allowed.check(0, 0x10000, false, &none)
        );
        assert!(allowed.check(0, 0x11000, false, &read));
        allowed.forget();
        assert!(!allowed.check(0, 0x11000, false, &none), "forgotten again");
        // Pages that share a place.
        let far = 0x10000 + (PLACES as u64) * 4096;
        assert!(allowed.check(0, 0x10000, false, &read) && !allowed.check(0, far, false, &read));
    }
}
