//! Causes of cycles.

use crate::hierarchy::{L1D, L1I, L2, LLC, MEMORY, WALKER_CACHE, kind};
use crate::translation::{SHARES, Share};

/// Cause of a cycle: a share of a translation, or another part of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cause(u8);

/// Number of all causes.
pub(crate) const CAUSES: usize = SHARES + 12;

impl Cause {
    /// Walks wait for an MSHR.
    pub(crate) const WALK_MSHR: Self = Self::other(0);
    /// Operations, what they depend on, and the width of the core.
    pub(crate) const BASE: Self = Self::other(1);
    /// A branch was mispredicted.
    pub(crate) const BRANCH: Self = Self::other(2);
    /// The first-level data cache.
    pub(crate) const L1D: Self = Self::other(3);
    /// The second-level cache.
    pub(crate) const L2: Self = Self::other(4);
    /// The last-level cache.
    pub(crate) const LLC: Self = Self::other(5);
    /// Main memory's part.
    pub(crate) const MEMORY: Self = Self::other(6);
    /// Loads wait for an MSHR.
    pub(crate) const MSHR: Self = Self::other(7);
    /// The store queue is full.
    pub(crate) const STORE_QUEUE: Self = Self::other(8);
    /// A store before a load did not have its data.
    pub(crate) const FORWARDED: Self = Self::other(9);
    /// A thread waits for other processors to answer its shootdown, or answers one.
    pub(crate) const SHOOTDOWN: Self = Self::other(10);
    /// A hardware thread has nothing to run.
    pub(crate) const IDLE: Self = Self::other(11);

    const fn other(index: usize) -> Self {
        Self((SHARES + index) as u8)
    }

    /// A share of translations.
    pub(crate) const fn share(share: usize) -> Self {
        assert!(share < SHARES);
        Self(share as u8)
    }

    /// The causes that are address translation.
    pub(crate) fn translation() -> impl Iterator<Item = Self> {
        (0..SHARES).map(Self::share).chain([Self::WALK_MSHR])
    }

    /// An access that is waiting for a translation which another has begun.
    pub(crate) const FILL_WAIT: Self = Self::share(Share::FillWait as usize);

    /// Waiting for a page walker.
    pub(crate) const WALKER_QUEUE: Self = Self::share(Share::WalkerQueue as usize);

    /// The program's access to a line that this level serves.
    pub(crate) const fn served_by(level: usize) -> Self {
        match kind(level) {
            L1I | L1D | WALKER_CACHE => Self::L1D,
            L2 => Self::L2,
            LLC => Self::LLC,
            MEMORY => Self::MEMORY,
            _ => unreachable!(),
        }
    }

    /// Index among all causes.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}
