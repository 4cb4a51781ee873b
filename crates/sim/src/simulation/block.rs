//! Blocks of translated instructions, which a timing model on another thread simulates later.

use std::sync::Arc;

use perforate_timing::Core;
use perforate_types::{Chunk, PhysicalAddress, Step, StepLists};

use super::model::{Model, Warming};

/// Consecutive instructions of a chunk, with their translated accesses, for the timing model on
/// another thread.
#[derive(Default)]
pub(super) struct Block {
    /// True if the instructions only update caches and predictors, in no time.
    pub(super) is_warming: bool,
    /// Chunk that contains the instructions.
    pub(super) chunk: Arc<Chunk>,
    /// Index of the block's first instruction in `chunk`.
    pub(super) first: usize,
    instructions: Vec<Calls>,
    accesses: Vec<Access>,
    /// Hardware steps (look-ups and memory reads) of the translations of all accesses, in the order
    /// of `accesses`.
    steps: Vec<Step>,
    /// True if the last access is the fetch of the next instruction.
    has_fetch: bool,
}

/// One instruction of a block: the calls of [`Model`]'s functions that simulate it.
struct Calls {
    has_fetch: bool,
    /// Number of loads and stores of the instruction.
    accesses: u16,
}

/// One access after its translation. Its translation steps are in [`Block::steps`].
struct Access {
    address: PhysicalAddress,
    slot: u32,
    size: u16,
    is_store: bool,
    /// Number of translation steps that the access waits for.
    awaited: u16,
    /// Number of translation steps in the background, stored after those that the access waits for.
    background: u16,
}

impl Block {
    pub(super) fn is_empty(&self) -> bool {
        self.instructions.is_empty()
    }

    pub(super) fn instructions(&self) -> usize {
        self.instructions.len()
    }

    #[inline]
    fn access(&mut self, address: PhysicalAddress, slot: u32, steps: StepLists<'_>) -> &mut Access {
        let StepLists { awaited, background } = steps;
        self.steps.extend_from_slice(awaited);
        self.steps.extend_from_slice(background);
        let (awaited, background) = (awaited.len() as u16, background.len() as u16);
        let access = Access { address, slot, size: 0, is_store: false, awaited, background };
        self.accesses.push(access);
        self.accesses.last_mut().expect("it was just added")
    }

    #[inline]
    pub(super) fn fetch(&mut self, address: PhysicalAddress, slot: u32, steps: StepLists<'_>) {
        self.access(address, slot, steps);
        self.has_fetch = true;
    }

    #[inline]
    pub(super) fn begin(&mut self) {
        let has_fetch = std::mem::take(&mut self.has_fetch);
        self.instructions.push(Calls { has_fetch, accesses: 0 });
    }

    #[inline]
    pub(super) fn load(
        &mut self,
        address: PhysicalAddress,
        size: u16,
        slot: u32,
        steps: StepLists<'_>,
    ) {
        self.data_access(address, slot, steps).size = size;
    }

    #[inline]
    pub(super) fn store(
        &mut self,
        address: PhysicalAddress,
        size: u16,
        slot: u32,
        steps: StepLists<'_>,
    ) {
        let access = self.data_access(address, slot, steps);
        (access.size, access.is_store) = (size, true);
    }

    #[inline]
    fn data_access(
        &mut self,
        address: PhysicalAddress,
        slot: u32,
        steps: StepLists<'_>,
    ) -> &mut Access {
        let instruction = self.instructions.last_mut().expect("an instruction has begun");
        instruction.accesses += 1;
        self.access(address, slot, steps)
    }

    /// Simulates all instructions of the block on `core`, in order, then empties the block.
    pub(super) fn run(&mut self, core: &mut Core) {
        if self.is_warming {
            self.replay(&mut Warming(core));
        } else {
            self.replay(core);
        }
    }

    fn replay<M: Model>(&mut self, model: &mut M) {
        let Self { chunk, first, instructions, accesses, steps, .. } = self;
        let mut steps = steps.as_slice();
        let mut take = |access: &Access| {
            let (awaited, rest) = steps.split_at(access.awaited.into());
            let (background, rest) = rest.split_at(access.background.into());
            steps = rest;
            StepLists { awaited, background }
        };
        let mut next = accesses.iter();
        for (instruction, called) in chunk.instructions[*first..].iter().zip(&*instructions) {
            let Calls { has_fetch, accesses } = called;
            if *has_fetch && let Some(access) = next.next() {
                model.fetch(access.address, access.slot, take(access));
            }
            model.begin(instruction);
            for access in next.by_ref().take(usize::from(*accesses)) {
                let Access { address, slot, size, .. } = *access;
                let steps = take(access);
                if access.is_store {
                    model.store(address, size, slot, steps);
                } else {
                    model.load(address, size, slot, steps);
                }
            }
            model.finish(instruction);
        }
        instructions.clear();
        accesses.clear();
        self.steps.clear();
        self.chunk = Arc::default();
    }
}
