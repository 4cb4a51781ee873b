//! Numbers of things that are done some time, and then used again for others.

use std::collections::VecDeque;

use crate::agenda::UNKNOWN;

/// Who still asks for something by its number.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Uses {
    /// Accesses that were told of it and have not come yet.
    pub(crate) expected: u32,
    /// Listed among those whose number may be used again.
    is_retiring: bool,
}

impl Uses {
    /// One access is to come.
    pub(crate) const ONE: Self = Self { expected: 1, is_retiring: false };
}

/// Something with such a number.
pub(crate) trait Numbered {
    fn uses(&mut self) -> &mut Uses;
    /// When it is done, or [`UNKNOWN`].
    fn done(&self) -> u64;
}

/// The numbers that may be used again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    free: Vec<u32>,
    retiring: VecDeque<u32>,
}

impl Numbers {
    /// A number that stands for nothing any more: what had it is done by now, and nobody asks for it.
    pub(crate) fn take<T: Numbered>(&mut self, all: &mut [T], now: u64) -> Option<u32> {
        while let Some(&number) = self.retiring.front() {
            let one = &mut all[number as usize];
            if one.uses().expected == 0 {
                if one.done() > now {
                    break;
                }
                self.free.push(number);
            } else {
                one.uses().is_retiring = false;
            }
            self.retiring.pop_front();
        }
        self.free.pop()
    }

    /// One access fewer will come for this.
    #[inline]
    pub(crate) fn came<T: Numbered>(&mut self, all: &mut [T], number: u32) {
        all[number as usize].uses().expected -= 1;
        self.retire(all, number);
    }

    /// Lists a number if it is known when this is done, and nobody asks for it.
    #[inline]
    pub(crate) fn retire<T: Numbered>(&mut self, all: &mut [T], number: u32) {
        let one = &mut all[number as usize];
        let is_known = one.done() != UNKNOWN;
        let uses = one.uses();
        if uses.expected == 0 && is_known && !uses.is_retiring {
            uses.is_retiring = true;
            self.retiring.push_back(number);
        }
    }
}
