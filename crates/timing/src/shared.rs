//! Simulator state that all hardware threads of a machine share.

use crate::agenda::Agenda;
use crate::config::TimingConfig;
use crate::hierarchy::Hierarchy;
use crate::shortcuts::Shortcuts;

/// Event queue, caches and memory. The [`Core`](crate::Core) being simulated holds them; the other cores hold
/// a stand-in.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) agenda: Agenda,
    pub(crate) memory: Hierarchy,
}

impl Shared {
    /// Makes the event queue, caches and memory of a machine with this many cores and threads per core, all
    /// idle.
    pub(crate) fn new(
        config: &TimingConfig,
        (cores, threads): (usize, usize),
        shortcuts: Shortcuts,
    ) -> Self {
        let memory = Hierarchy::new(config, (cores, threads), shortcuts);
        Self { agenda: Agenda::default(), memory }
    }

    /// Makes an empty stand-in, held by the threads that are not being simulated at the moment.
    pub(crate) fn without_caches(&self) -> Self {
        Self { agenda: Agenda::default(), memory: self.memory.without_lines() }
    }
}
