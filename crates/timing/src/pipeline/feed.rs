//! Work queues of the hardware threads of [`Processors`](super::Processors): instructions with their
//! translated accesses in program order, and TLB shootdowns between instructions.

use std::collections::VecDeque;

use perforate_types::{Instruction, PhysicalAddress, Step, StepLists};

use super::instructions::BATCH;
use super::{Core, Shootdown};

/// Work of one hardware thread that has not entered its core yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    items: VecDeque<(u64, Item)>,
    accesses: VecDeque<Access>,
    steps: VecDeque<Step>,
    /// The first instruction of the queue is being fetched.
    is_fetching: bool,
    /// The queue was empty until the current first item came, so that the thread was idle.
    pub(super) is_starved: bool,
    /// Buffer for the translation steps of one access.
    scratch: Vec<Step>,
    /// The next instruction begins a code line; its fetch is the last element of `accesses`.
    has_fetch: bool,
}

/// Element of a thread's work queue.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item {
    /// Instruction; true if it begins a code line, so that its first access is a fetch.
    Instruction(Instruction, bool),
    /// The thread sends a TLB shootdown to others, and waits for their answers.
    Shootdown(Shootdown),
    /// A processor that is not simulated interrupts the thread, whose handler takes this many cycles.
    Interrupted(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Fetch,
    Load,
    Store,
}

/// Fetch, load or store with its physical address and translation.
#[derive(Clone, Copy, Debug)]
struct Access {
    address: PhysicalAddress,
    slot: u32,
    size: u16,
    kind: Kind,
    /// Numbers of translation steps that the access waits for, and of background steps, which follow them in
    /// the queue.
    steps: (u16, u16),
}

impl Stream {
    /// Position of the first item in the program order of all threads; `None` if the queue is empty.
    pub(super) fn position(&self) -> Option<u64> {
        self.items.front().map(|(position, _)| *position)
    }

    pub(super) fn front(&self) -> Option<&Item> {
        self.items.front().map(|(_, item)| item)
    }

    pub(super) fn push(&mut self, position: u64, item: Item) {
        self.is_starved |= self.items.is_empty();
        self.items.push_back((position, item));
    }

    pub(super) fn pop(&mut self) {
        self.items.pop_front();
    }

    fn access(
        &mut self,
        kind: Kind,
        (address, size): (PhysicalAddress, u16),
        slot: u32,
        steps: StepLists<'_>,
    ) {
        let StepLists { awaited, background } = steps;
        self.steps.extend(awaited.iter().chain(background));
        let steps = (awaited.len() as u16, background.len() as u16);
        self.accesses.push_back(Access { address, slot, size, kind, steps });
    }

    pub(super) fn fetch(&mut self, address: PhysicalAddress, slot: u32, steps: StepLists<'_>) {
        self.access(Kind::Fetch, (address, 0), slot, steps);
        self.has_fetch = true;
    }

    pub(super) fn begin(&mut self, position: u64, instruction: &Instruction) {
        let has_fetch = std::mem::take(&mut self.has_fetch);
        // Accesses are counted as they come: of one that crosses a page there are two.
        let instruction = Instruction { accesses: 0, ..*instruction };
        self.push(position, Item::Instruction(instruction, has_fetch));
    }

    pub(super) fn data_access(
        &mut self,
        is_store: bool,
        of: (PhysicalAddress, u16),
        slot: u32,
        steps: StepLists<'_>,
    ) {
        self.access(if is_store { Kind::Store } else { Kind::Load }, of, slot, steps);
        let Some((_, Item::Instruction(instruction, _))) = self.items.back_mut() else {
            panic!("an access belongs to an instruction")
        };
        instruction.accesses += 1;
    }

    /// Moves the first instruction of the queue into the core, once it has been fetched; returns true if that
    /// was done.
    pub(super) fn hand_over(&mut self, core: &mut Core) -> bool {
        let Some(&Item::Instruction(instruction, has_fetch)) = self.front() else { return false };
        if !std::mem::replace(&mut self.is_fetching, true) {
            if has_fetch {
                self.make_access(core);
            }
            core.announce(&instruction);
        }
        core.may_dispatch |= core.fetch_ahead();
        if !core.takes_more() {
            return false;
        }
        self.is_fetching = false;
        for _ in 0..instruction.accesses {
            self.make_access(core);
        }
        // Dispatch may have waited for nothing but instructions.
        core.may_dispatch |= core.instructions.next == core.instructions.handed;
        core.complete_in_hand(&instruction);
        core.look_ahead();
        if core.instructions.handed.is_multiple_of(BATCH) {
            core.begin_batch();
        }
        self.pop();
        true
    }

    fn make_access(&mut self, core: &mut Core) {
        let Some(access) = self.accesses.pop_front() else { return };
        let Access { address, slot, size, kind, steps: (awaited, background) } = access;
        let (awaited, count) = (usize::from(awaited), usize::from(awaited + background));
        self.scratch.clear();
        self.scratch.extend(self.steps.drain(..count));
        let (awaited, background) = self.scratch.split_at(awaited);
        let steps = StepLists { awaited, background };
        match kind {
            Kind::Fetch => core.fetch(address, slot, steps),
            Kind::Load => core.load(address, size, slot, steps),
            Kind::Store => core.store(address, size, slot, steps),
        }
    }
}
