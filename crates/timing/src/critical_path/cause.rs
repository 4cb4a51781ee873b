//! Causes that cycles of the cycle stack are charged to.

use crate::hierarchy::{L1D, L1I, L2, LLC, MEMORY, WALKER_CACHE, kind};
use crate::translation::{SHARES, Share};

/// Cause that a cycle is charged to: a share of a translation (index below [`SHARES`]), or another part of
/// the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cause(u8);

/// Number of all causes.
pub(crate) const CAUSES: usize = SHARES + 12;

impl Cause {
    /// A page walk waited for a free MSHR.
    pub(crate) const WALK_MSHR: Self = Self::other(0);
    /// Operation latency, register dependences, or the dispatch and retire width: what remains without any
    /// stall.
    pub(crate) const BASE: Self = Self::other(1);
    /// The front end was refilled after a mispredicted branch.
    pub(crate) const BRANCH: Self = Self::other(2);
    /// Access served by the first-level data cache.
    pub(crate) const L1D: Self = Self::other(3);
    /// Access served by the second-level cache.
    pub(crate) const L2: Self = Self::other(4);
    /// Access served by the last-level cache.
    pub(crate) const LLC: Self = Self::other(5);
    /// Access served by main memory.
    pub(crate) const MEMORY: Self = Self::other(6);
    /// A load waited for a free MSHR.
    pub(crate) const MSHR: Self = Self::other(7);
    /// Dispatch waited for a free store-queue entry.
    pub(crate) const STORE_QUEUE: Self = Self::other(8);
    /// A load waited for the data of an older store (store-to-load forwarding).
    pub(crate) const FORWARDED: Self = Self::other(9);
    /// A thread waited for other processors to answer its TLB shootdown, or ran the handler of one.
    pub(crate) const SHOOTDOWN: Self = Self::other(10);
    /// A hardware thread had nothing to run.
    pub(crate) const IDLE: Self = Self::other(11);

    const fn other(index: usize) -> Self {
        Self((SHARES + index) as u8)
    }

    /// Cause for a share of translation, by index of [`Share`].
    pub(crate) const fn share(share: usize) -> Self {
        assert!(share < SHARES);
        Self(share as u8)
    }

    /// All causes that count as address translation.
    pub(crate) fn translation() -> impl Iterator<Item = Self> {
        (0..SHARES).map(Self::share).chain([Self::WALK_MSHR])
    }

    /// Wait for a TLB entry that an earlier translation is still filling.
    pub(crate) const FILL_WAIT: Self = Self::share(Share::FillWait as usize);

    /// Wait for a free page walker.
    pub(crate) const WALKER_QUEUE: Self = Self::share(Share::WalkerQueue as usize);

    /// Cause for a load or store whose line came from this cache level, or from memory.
    pub(crate) const fn served_by(level: usize) -> Self {
        match kind(level) {
            L1I | L1D | WALKER_CACHE => Self::L1D,
            L2 => Self::L2,
            LLC => Self::LLC,
            MEMORY => Self::MEMORY,
            _ => unreachable!(),
        }
    }

    /// Index in arrays of length [`CAUSES`].
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}
