//! Cache of access kinds. Without it, querying the emulator takes two calls per access.

use super::qemu;
use crate::record;

/// Number of cache entries; a program has about a dozen kinds of memory accesses.
const PLACES: usize = 16;

/// Direct-mapped cache: QEMU's description of an access, and the record bits for its direction and
/// size.
pub struct Kinds([(u32, u64); PLACES]);

impl Kinds {
    /// Cache without any entry.
    pub const NONE: Self = Self([(u32::MAX, 0); PLACES]);

    const fn place(description: u32) -> usize {
        // Size and direction are in the low half-words; this hash rarely collides.
        (description ^ description >> 13) as usize % PLACES
    }

    /// Record bits for QEMU's description of an access, if cached.
    #[inline(always)]
    pub fn known(&self, description: u32) -> Option<u64> {
        let (known, bits) = self.0[Self::place(description)];
        (known == description).then_some(bits)
    }

    /// Queries QEMU for the record bits of its `description` of an access, and caches them.
    pub fn ask(&mut self, description: u32) -> u64 {
        // SAFETY: `description` was passed by QEMU.
        let (write, shift) = unsafe {
            let write = qemu::qemu_plugin_mem_is_store(description);
            (write, qemu::qemu_plugin_mem_size_shift(description))
        };
        let bits = record::access(0, write, shift, 0);
        self.0[Self::place(description)] = (description, bits);
        bits
    }
}
