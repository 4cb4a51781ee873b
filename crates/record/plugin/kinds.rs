//! A cache of access kinds, as querying the emulator takes two calls for each access.

use super::qemu;
use crate::record;

/// Size of the cache; a program has about a dozen kinds.
const PLACES: usize = 16;

/// The emulator's descriptions of accesses, each with the bits of a record for direction and size.
pub struct Kinds([(u32, u64); PLACES]);

impl Kinds {
    /// An empty cache.
    pub const NONE: Self = Self([(u32::MAX, 0); PLACES]);

    const fn place(description: u32) -> usize {
        // Size and direction are in the low half-words; distinct ones rarely collide.
        (description ^ description >> 13) as usize % PLACES
    }

    /// The bits of an access record for `description`, if they are cached.
    #[inline(always)]
    pub fn known(&self, description: u32) -> Option<u64> {
        let (known, bits) = self.0[Self::place(description)];
        (known == description).then_some(bits)
    }

    /// The bits of an access record for `description`, queried from the emulator.
    pub fn ask(&mut self, description: u32) -> u64 {
        // SAFETY: `description` is what QEMU passed.
        let (write, shift) = unsafe {
            let write = qemu::qemu_plugin_mem_is_store(description);
            (write, qemu::qemu_plugin_mem_size_shift(description))
        };
        let bits = record::access(0, write, shift, 0);
        self.0[Self::place(description)] = (description, bits);
        bits
    }
}
