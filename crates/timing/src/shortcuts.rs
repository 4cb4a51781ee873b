//! Optimisations of the simulator that avoid events.

use crate::config::TimingConfig;

/// Optimisations that avoid events without changing any simulated cycle. Each is valid on some machines only;
/// that is checked when a core is made. Tests switch them off and compare the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortcuts {
    /// A translation starts without an event if the access that missed the TLB requests it at dispatch: other
    /// instructions that wait for it are younger, so none can request it earlier.
    pub walks_begin_at_dispatch: bool,
    /// With a single page walker, the translation that has waited longest is granted the walker as soon as
    /// its release cycle is known, without an event at that cycle.
    pub walker_is_granted_ahead: bool,
    /// A miss needs no event if an MSHR is always free: the caches above have no more MSHRs together, or only
    /// one party accesses the cache, one line after the other.
    pub misses_need_no_mshr_event: bool,
    /// An access to a line that another access will have requested by then (an MSHR merge) needs no event.
    pub merged_accesses_need_no_event: bool,
    /// A load is forwarded from an older store without an event, if that store cannot reach the cache before
    /// the load is translated.
    pub stores_forward_early: bool,
    /// A load whose translation is there, and that no older store may forward to, reads its line without a
    /// request for a translation.
    pub loads_read_at_once: bool,
    /// The simulator takes instructions long before the fetch queue has room, and the front end does not wait
    /// for code lines that hit. Requires that cache contents do not depend on timing: no prefetchers, one
    /// thread.
    pub instructions_come_early: bool,
}

impl Shortcuts {
    /// The optimisations among these that are valid for a configuration. With loads on wrong paths, a younger access
    /// can be issued before an older one, so that only [`Self::loads_read_at_once`] is valid.
    pub(crate) fn on(self, config: &TimingConfig) -> Self {
        if !config.branch_predictor.follows_wrong_path {
            return self;
        }
        Self {
            walks_begin_at_dispatch: false,
            walker_is_granted_ahead: false,
            misses_need_no_mshr_event: false,
            merged_accesses_need_no_event: false,
            stores_forward_early: false,
            instructions_come_early: false,
            ..self
        }
    }

    /// All optimisations, as simulations use them.
    pub const ALL: Self = Self {
        walks_begin_at_dispatch: true,
        walker_is_granted_ahead: true,
        misses_need_no_mshr_event: true,
        merged_accesses_need_no_event: true,
        stores_forward_early: true,
        loads_read_at_once: true,
        instructions_come_early: true,
    };

    /// No optimisation: every request is an event.
    pub const NONE: Self = Self {
        walks_begin_at_dispatch: false,
        walker_is_granted_ahead: false,
        misses_need_no_mshr_event: false,
        merged_accesses_need_no_event: false,
        stores_forward_early: false,
        loads_read_at_once: false,
        instructions_come_early: false,
    };
}
