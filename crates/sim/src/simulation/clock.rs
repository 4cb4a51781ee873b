//! The clock of a run: the timing model, on the thread of the run loop or on a separate thread.
//!
//! Translation does not depend on the clock, so the run loop may be ahead of the clock. It then
//! records its calls of the core in blocks. The clock thread makes these calls in the same order,
//! so results stay the same.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use perforate_records::HardwareThread;
use perforate_timing::{Core, Processors, TranslationAccesses};

use super::block::Block;
use super::model::{Cycles, Model};
use super::*;

/// Largest number of blocks by which the run loop may be ahead of the timing model (the clock).
/// Windows of sampled timing take several times as long as the instructions between them; meanwhile
/// the run loop translates the next instructions.
const BLOCKS_AHEAD: usize = 8;

/// The timing model of a run.
pub(super) enum Clock {
    /// Core on the thread of the run loop.
    Inline(Box<Core>),
    /// Core on a separate thread.
    Threaded(ClockThread),
    /// Cores of several hardware threads, on the thread of the run loop.
    Several(Box<Processors>),
}

/// Panic message: sampled timing is possible with one hardware thread only.
const ONE_THREAD: &str = "windows are timed of one hardware thread";

impl Clock {
    pub(super) fn new(core: Core) -> Self {
        Self::Inline(Box::new(core))
    }

    /// Moves the core to a separate thread. No effect on several hardware threads.
    pub(super) fn on_own_thread(self) -> io::Result<Self> {
        Ok(match self {
            Self::Inline(core) => Self::Threaded(ClockThread::start(*core)?),
            other => other,
        })
    }

    /// Runs `action` on the core, after the core has simulated all instructions that were passed to
    /// it.
    ///
    /// # Panics
    /// If there are several hardware threads.
    pub(super) fn run_on_core(&mut self, action: impl FnOnce(&mut Core) + Send + 'static) {
        match self {
            Self::Inline(core) => action(core),
            Self::Threaded(thread) => thread.run_on_core(action),
            Self::Several(_) => panic!("{ONE_THREAD}"),
        }
    }

    /// Drains the pipeline: simulates until all pending work is done.
    pub(super) fn drain(&mut self) {
        match self {
            Self::Several(all) => all.drain(),
            one => one.run_on_core(Core::drain),
        }
    }

    /// Resets cycles and counts of the timing model to 0.
    pub(super) fn start_measuring(&mut self) {
        match self {
            Self::Several(all) => all.start_measuring(),
            one => one.run_on_core(Core::start_measuring),
        }
    }

    /// Returns the cycles since measuring started.
    pub(super) fn cycles(&mut self) -> Cycles {
        match self {
            Self::Inline(core) => core.cycles_so_far(),
            Self::Threaded(thread) => thread.query(|core| core.cycles_so_far()),
            Self::Several(all) => all.cycles_so_far(),
        }
    }

    /// Simulates all instructions that were passed to the clock, ends its thread, and returns the
    /// timing model.
    pub(super) fn end(self) -> Ended {
        match self {
            Self::Inline(core) => Ended::One(core),
            Self::Threaded(thread) => Ended::One(Box::new(thread.end())),
            Self::Several(all) => Ended::Several(all),
        }
    }
}

/// Timing model of a finished run.
pub(super) enum Ended {
    One(Box<Core>),
    Several(Box<Processors>),
}

impl Ended {
    /// Returns the number of cycles since measuring started.
    pub(super) fn cycles(&self) -> u64 {
        match self {
            Self::One(core) => core.cycles(),
            Self::Several(all) => all.cycles(),
        }
    }

    pub(super) fn counters(&self, out: &mut Counters) {
        match self {
            Self::One(core) => core.counters(out),
            Self::Several(all) => all.counters(out),
        }
    }

    pub(super) fn translation_accesses(&self) -> TranslationAccesses {
        match self {
            Self::One(core) => core.translation_accesses(),
            Self::Several(all) => all.translation_accesses(),
        }
    }

    /// Returns the statistics of each hardware thread; empty if there is only one.
    pub(super) fn threads(&self) -> Vec<HardwareThread> {
        match self {
            Self::One(_) => Vec::new(),
            Self::Several(all) => all.threads(),
        }
    }
}

/// Message to the thread of the timing model.
enum Order {
    Run(Block),
    Do(Box<dyn FnOnce(&mut Core) + Send>),
}

/// Core on a separate thread. The run loop uses it as a [`Model`].
pub(super) struct ClockThread {
    /// Translated instructions that have not been sent to the timing model's thread yet.
    block: Block,
    orders: Sender<Order>,
    /// Empty blocks for reuse. Their number limits how far the run loop may be ahead of the clock.
    emptied: Receiver<Block>,
    /// Handle of the thread; `None` once joined.
    thread: Option<JoinHandle<Core>>,
}

impl ClockThread {
    fn start(mut core: Core) -> io::Result<Self> {
        let (orders, received) = channel();
        let (back, emptied) = channel();
        for _ in 1..BLOCKS_AHEAD {
            back.send(Block::default()).expect("the receiver is here");
        }
        let thread = thread::Builder::new().spawn(move || {
            let mut empty = Vec::new();
            for order in received {
                match order {
                    Order::Do(action) => action(&mut core),
                    Order::Run(mut block) => {
                        block.run(&mut core);
                        empty.push(block);
                        // Waking the run loop costs as much as hundreds of instructions.
                        if empty.len() >= BLOCKS_AHEAD / 2 {
                            // At the end of the run the receiver is gone.
                            empty.drain(..).for_each(|block| drop(back.send(block)));
                        }
                    }
                }
            }
            core
        })?;
        Ok(Self { block: Block::default(), orders, emptied, thread: Some(thread) })
    }

    /// Chooses whether the next instructions are timed, or only warm caches and predictors.
    pub(super) fn set_warming(&mut self, is_warming: bool) {
        if self.block.is_warming != is_warming {
            self.flush();
            self.block.is_warming = is_warming;
        }
    }

    /// Sets the chunk to which the next instructions for the clock thread belong.
    pub(super) fn set_chunk(&mut self, chunk: Arc<Chunk>) {
        self.flush();
        (self.block.chunk, self.block.first) = (chunk, 0);
    }

    /// Sends the collected block of instructions to the clock thread, unless it is empty.
    fn flush(&mut self) {
        if self.block.is_empty() {
            return;
        }
        let Ok(mut next) = self.emptied.recv() else { self.propagate_panic() };
        next.is_warming = self.block.is_warming;
        next.chunk = Arc::clone(&self.block.chunk);
        next.first = self.block.first + self.block.instructions();
        let full = std::mem::replace(&mut self.block, next);
        self.send(Order::Run(full));
    }

    fn send(&mut self, order: Order) {
        if self.orders.send(order).is_err() {
            self.propagate_panic();
        }
    }

    /// Continues a panic of the clock thread on this thread. Called when the clock thread ended
    /// early.
    #[cold]
    fn propagate_panic(&mut self) -> ! {
        match self.thread.take().map(JoinHandle::join) {
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            _ => unreachable!("orders may still come"),
        }
    }

    fn run_on_core(&mut self, action: impl FnOnce(&mut Core) + Send + 'static) {
        self.flush();
        self.send(Order::Do(Box::new(action)));
    }

    /// Runs `query` on the core, after the core has simulated all instructions that were passed to
    /// it, and returns the result.
    fn query<T: Send + 'static>(
        &mut self,
        query: impl FnOnce(&mut Core) -> T + Send + 'static,
    ) -> T {
        let (answer, answered) = sync_channel(1);
        self.run_on_core(move |core| {
            let _ = answer.send(query(core));
        });
        match answered.recv() {
            Ok(answer) => answer,
            Err(_) => self.propagate_panic(),
        }
    }

    fn end(mut self) -> Core {
        self.flush();
        let Self { orders, thread, .. } = self;
        drop(orders);
        let core = thread.expect("it has not ended").join();
        core.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Model for ClockThread {
    #[inline]
    fn fetch(&mut self, address: PhysicalAddress, slot: u32, steps: StepLists<'_>) {
        self.block.fetch(address, slot, steps);
    }
    #[inline]
    fn begin(&mut self, _: &Instruction) {
        self.block.begin();
    }
    #[inline]
    fn load(&mut self, address: PhysicalAddress, size: u16, slot: u32, steps: StepLists<'_>) {
        self.block.load(address, size, slot, steps);
    }
    #[inline]
    fn store(&mut self, address: PhysicalAddress, size: u16, slot: u32, steps: StepLists<'_>) {
        self.block.store(address, size, slot, steps);
    }
    #[inline]
    fn finish(&mut self, _: &Instruction) {}
    fn drain(&mut self) {
        if !self.block.is_warming {
            self.run_on_core(Core::drain);
        }
    }
    fn cycles_so_far(&mut self) -> Cycles {
        if self.block.is_warming {
            Cycles::default()
        } else {
            self.query(|core| core.cycles_so_far())
        }
    }
}
