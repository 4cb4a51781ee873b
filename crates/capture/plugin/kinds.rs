//! What kind of access the emulator's descriptions mean, remembered: asking the emulator takes
//! two calls for each access.

use super::qemu;
use crate::record;

/// Descriptions remembered; a program has a dozen.
const PLACES: usize = 16;

/// Descriptions, each with the bits of a record that say whether it writes and how many bytes.
pub struct Kinds([(u32, u64); PLACES]);

impl Kinds {
    /// Nothing is remembered.
    pub const NONE: Self = Self([(u32::MAX, 0); PLACES]);

    /// The bits of an access record for `description`.
    #[inline(always)]
    pub fn of(&mut self, description: u32) -> u64 {
        // Size and direction are in the low half-words; distinct ones rarely meet.
        let place = &mut self.0[(description ^ description >> 13) as usize % PLACES];
        if place.0 != description {
            *place = (description, ask(description));
        }
        place.1
    }
}

#[cold]
fn ask(description: u32) -> u64 {
    // SAFETY: `description` is what QEMU passed.
    let (write, shift) = unsafe {
        (qemu::qemu_plugin_mem_is_store(description), qemu::qemu_plugin_mem_size_shift(description))
    };
    record::access(0, write, shift, 0)
}
