//! Addresses and page numbers, one type per address space.
//!
//! ```compile_fail
//! use perforate_types::{PhysicalAddress, VirtualAddress};
//! fn read_table(_: PhysicalAddress) {}
//! read_table(VirtualAddress::new(0x1000)); // a virtual address is not a physical one
//! ```

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::PageSize;

/// Marker of an address space that an [`Address`] belongs to: virtual, guest-physical or physical.
pub trait Space: 'static {
    /// Prefix of an address in debugging output, such as `va`.
    const NAME: &'static str;
}

/// Marker of the virtual addresses of a process (guest-virtual in a virtual machine).
pub enum Virtual {}
/// Marker of the guest-physical addresses of a virtual machine.
pub enum GuestPhysical {}
/// Marker of the physical addresses of the machine (host-physical under virtualization).
pub enum Physical {}

impl Space for Virtual {
    const NAME: &'static str = "va";
}
impl Space for GuestPhysical {
    const NAME: &'static str = "gpa";
}
impl Space for Physical {
    const NAME: &'static str = "pa";
}

/// A byte address in address space `S`.
pub struct Address<S>(u64, PhantomData<fn() -> S>);

/// The number of a 4KB page (address ÷ 4096) in address space `S`.
pub struct PageNumber<S>(u64, PhantomData<fn() -> S>);

/// Virtual byte address of a process.
pub type VirtualAddress = Address<Virtual>;
/// Guest-physical byte address of a virtual machine.
pub type GuestPhysicalAddress = Address<GuestPhysical>;
/// Physical byte address of the machine.
pub type PhysicalAddress = Address<Physical>;
/// Number of a 4KB virtual page of a process.
pub type VirtualPage = PageNumber<Virtual>;
/// Number of a 4KB guest-physical frame.
pub type GuestFrame = PageNumber<GuestPhysical>;
/// Number of a 4KB frame of the machine's physical memory.
pub type Frame = PageNumber<Physical>;

impl<S> Address<S> {
    /// Creates the address with this value in bytes.
    pub const fn new(value: u64) -> Self {
        Self(value, PhantomData)
    }

    /// Value of the address in bytes.
    pub const fn value(self) -> u64 {
        self.0
    }

    /// The 4KB page that holds this address.
    pub const fn page(self) -> PageNumber<S> {
        PageNumber::new(self.0 >> 12)
    }

    /// Offset of this address inside a page of `size`, in bytes.
    pub const fn offset(self, size: PageSize) -> u64 {
        self.0 & (size.bytes() - 1)
    }

    /// Address that is `bytes` higher.
    pub const fn add(self, bytes: u64) -> Self {
        Self::new(self.0 + bytes)
    }
}

impl<S> PageNumber<S> {
    /// Creates the page with this number (address ÷ 4096).
    pub const fn new(number: u64) -> Self {
        Self(number, PhantomData)
    }

    /// The page number as a plain integer (address ÷ 4096).
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Address of the page's first byte.
    pub const fn address(self) -> Address<S> {
        Address::new(self.0 << 12)
    }

    /// Page that is `pages` 4KB pages higher.
    pub const fn add(self, pages: u64) -> Self {
        Self::new(self.0 + pages)
    }

    /// First 4KB page of the aligned page of `size` that contains this page.
    pub const fn align_down(self, size: PageSize) -> Self {
        Self::new(self.0 & !(size.pages() - 1))
    }

    /// True if this is the first 4KB page of an aligned page of `size`.
    pub const fn is_aligned(self, size: PageSize) -> bool {
        self.0 & (size.pages() - 1) == 0
    }

    /// Index of this 4KB page inside the aligned page of `size` that contains it.
    pub const fn index_in(self, size: PageSize) -> usize {
        (self.0 & (size.pages() - 1)) as usize
    }
}

macro_rules! plain_traits {
    ($type:ident, $format:literal) => {
        impl<S> Clone for $type<S> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<S> Copy for $type<S> {}
        impl<S> PartialEq for $type<S> {
            fn eq(&self, other: &Self) -> bool {
                self.0 == other.0
            }
        }
        impl<S> Eq for $type<S> {}
        impl<S> PartialOrd for $type<S> {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }
        impl<S> Ord for $type<S> {
            fn cmp(&self, other: &Self) -> Ordering {
                self.0.cmp(&other.0)
            }
        }
        impl<S> Hash for $type<S> {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.0.hash(state);
            }
        }
        impl<S> Default for $type<S> {
            fn default() -> Self {
                Self::new(0)
            }
        }
        impl<S: Space> fmt::Debug for $type<S> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, S::NAME, self.0)
            }
        }
    };
}
plain_traits!(Address, "{}:{:#x}");
plain_traits!(PageNumber, "{}-page:{:#x}");

impl<S> Serialize for Address<S> {
    fn serialize<T: Serializer>(&self, serializer: T) -> Result<T::Ok, T::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, S> Deserialize<'de> for Address<S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(Self::new)
    }
}

impl<S> fmt::LowerHex for Address<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_offsets_follow_the_x86_sizes() {
        let address = VirtualAddress::new(0x7fff_dead_beef);
        assert_eq!(address.page().number(), 0x7_fffd_eadb);
        assert_eq!(address.offset(PageSize::Size4K), 0xeef);
        assert_eq!(address.offset(PageSize::Size2M), 0xd_beef);
        assert_eq!(address.page().align_down(PageSize::Size2M).address().value(), 0x7fff_dea0_0000);
        assert_eq!(address.page().index_in(PageSize::Size2M), 0xdb);
    }
}
