//! Demanding instructions: those that need more than register operands to be dispatched and to complete.

use super::*;
use crate::ring::Ring;

/// Flag: the front end may have to stall before the instruction, for its code line or a mispredicted branch.
pub(super) const STOPS: u8 = 1;
/// Flag: the instruction is dispatched only when all instructions before it have retired.
pub(super) const SERIALIZES: u8 = 2;
/// Flag: the instruction has accesses that may miss a TLB or cache.
pub(super) const WAITS: u8 = 4;
/// Flag: the instruction has loads or stores.
pub(super) const ACCESS: u8 = 8;

/// Instruction with loads or stores, or before which the front end may stall, or that serializes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    pub(super) number: u64,
    /// Head of the list of its accesses that may miss: the one made last. Each links to the one before.
    pub(super) first_access: u32,
    pub(super) first_store: u32,
    pub(super) loads: u16,
    pub(super) hits: u16,
    pub(super) unloaded: u16,
    pub(super) untranslated: u16,
    pub(super) stores: u16,
    pub(super) flags: u8,
}

impl Default for Demand {
    fn default() -> Self {
        Self::NONE
    }
}

impl Demand {
    /// Needs of an instruction that needs only registers.
    pub(super) const NONE: Self = Self {
        number: 0,
        first_access: NONE,
        first_store: 0,
        loads: 0,
        hits: 0,
        unloaded: 0,
        untranslated: 0,
        stores: 0,
        flags: 0,
    };

    /// True if the instruction needs more than register operands.
    #[inline]
    pub(super) fn is_demanding(&self) -> bool {
        self.flags != 0
    }
}

/// Oldest fill, walk, access and further line that instructions from some point on may refer to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct First {
    pub(super) fill: u32,
    pub(super) walk: u32,
    pub(super) access: u32,
    pub(super) further_line: u32,
}

/// Ring buffer of demanding instructions, numbered in program order.
#[derive(Clone, Debug)]
pub(super) struct Demands {
    all: Ring<Demand>,
    /// Demanding instruction to be dispatched next, and its instruction number; [`UNKNOWN`] without one.
    next: u32,
    pub(super) next_number: u64,
    /// Demanding instruction to retire next, and its instruction number; [`UNKNOWN`] without one.
    oldest: u32,
    pub(super) oldest_number: u64,
}

impl Demands {
    pub(super) fn new() -> Self {
        Self {
            all: Ring::new(512),
            next: 0,
            next_number: UNKNOWN,
            oldest: 0,
            oldest_number: UNKNOWN,
        }
    }

    #[inline]
    pub(super) fn push(&mut self, demand: Demand) {
        while self.all.is_short_of(self.oldest, 1) {
            self.all.grow();
        }
        self.next_number = self.next_number.min(demand.number);
        self.oldest_number = self.oldest_number.min(demand.number);
        self.all.push(demand);
    }

    #[inline]
    fn number_of(&self, demand: u32) -> u64 {
        if demand == self.all.next() { UNKNOWN } else { self.all[demand].number }
    }

    /// Place of the demanding instruction that is dispatched next.
    pub(super) fn next_place(&self) -> u32 {
        self.next
    }

    /// Needs of instruction `number`, where the first demanding instruction from there on is at `place`.
    pub(super) fn at(&self, place: u32, number: u64) -> Demand {
        if self.number_of(place) == number { self.all[place] } else { Demand::NONE }
    }

    /// Demanding instruction that is dispatched next.
    #[inline]
    pub(super) fn next(&self) -> &Demand {
        &self.all[self.next]
    }

    /// Takes the demanding instruction that is dispatched next.
    #[inline]
    pub(super) fn dispatched(&mut self) -> Demand {
        let demand = self.all[self.next];
        self.next = Ring::<Demand>::after(self.next);
        self.next_number = self.number_of(self.next);
        demand
    }

    /// Demanding instruction that retires next.
    #[inline]
    pub(super) fn oldest(&self) -> &Demand {
        &self.all[self.oldest]
    }

    #[inline]
    pub(super) fn retired(&mut self) {
        self.oldest = Ring::<Demand>::after(self.oldest);
        self.oldest_number = self.number_of(self.oldest);
    }
}
