//! Rules that leave events out.

/// Rules that leave events out without changing any time. Each holds only on some machines, which is checked
/// when a core is made. Tests switch them off and compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortcuts {
    /// A translation begins without an event if its owner asks for it when dispatched: other instructions that
    /// wait for it are younger.
    pub walks_begin_at_dispatch: bool,
    /// With one page walker, the translation that has waited longest gets it when its release becomes known.
    pub walker_is_granted_ahead: bool,
    /// A miss needs no event if an MSHR is always free: the caches above have no more MSHRs together, or one
    /// party asks for one line after the other.
    pub misses_need_no_mshr_event: bool,
    /// An access to a line that has not come needs no event if another access to the line will have asked for it.
    pub merged_accesses_need_no_event: bool,
    /// A load has its data from a store before it, if that store cannot be written before the load is translated.
    pub stores_forward_early: bool,
    /// Instructions are handed over long before the fetch queue has room, and the front end does not stop at code
    /// lines that are there. Contents of caches must not depend on
    /// time: the machine has no prefetchers, and one thread.
    pub instructions_come_early: bool,
}

impl Shortcuts {
    /// All rules together.
    pub const ALL: Self = Self {
        walks_begin_at_dispatch: true,
        walker_is_granted_ahead: true,
        misses_need_no_mshr_event: true,
        merged_accesses_need_no_event: true,
        stores_forward_early: true,
        instructions_come_early: true,
    };

    /// No rule: an event for each request.
    pub const NONE: Self = Self {
        walks_begin_at_dispatch: false,
        walker_is_granted_ahead: false,
        misses_need_no_mshr_event: false,
        merged_accesses_need_no_event: false,
        stores_forward_early: false,
        instructions_come_early: false,
    };
}
