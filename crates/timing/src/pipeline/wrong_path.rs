//! The path behind a mispredicted branch that waits for a load.
//!
//! A trace has no wrong paths. But most of them soon join the right one: behind the `if`, or with the next
//! repetition of a loop. So the instructions of the right path are followed, as far as the reorder buffer, the queues
//! and the scheduler have room for them. What they load is begun as soon as its address is known: translation, then
//! lines. Whenever a value comes that an address on the path may depend on, the path is followed again from the branch:
//! what has begun is not begun twice. Other mispredicted branches on the path are taken as predicted right.
//!
//! The instructions themselves are fetched and dispatched when the branch is resolved, and find what is there or on
//! its way. Then the next branch that is mispredicted may wait, and its path is followed in the same way.

use super::demands::SERIALIZES;
use super::instructions::{Register, Registers};
use super::*;

/// Instructions followed behind one mispredicted branch.
#[derive(Clone, Debug)]
pub(super) struct WrongPath {
    /// Branch that is waited for.
    branch: u64,
    /// Next instruction to follow, and the first demanding one from there on.
    next: u64,
    demand: u32,
    /// Cycles of dispatch, if the branch had been predicted right.
    dispatch: InOrder,
    /// Numbers of the instructions whose results the path lacked when it was followed last: instructions older than
    /// the branch, and loads on the path.
    lacks: Vec<u64>,
    /// One of these results has come since.
    is_due: bool,
    /// Registers as the next instruction on the path reads them.
    registers: Registers,
    /// Loads on the path so far.
    loads: u64,
    /// Stores on the path so far.
    stores: u64,
    /// Instructions on the path that wait for a value of a register.
    waiting: usize,
}

impl WrongPath {
    /// Makes an empty path, or none for machines that follow none.
    pub(super) fn new(config: &TimingConfig) -> Option<Box<Self>> {
        let path = Self {
            branch: UNKNOWN,
            next: 0,
            demand: 0,
            dispatch: InOrder::new(config.core.width),
            lacks: Vec::new(),
            is_due: false,
            registers: Registers::new(),
            loads: 0,
            stores: 0,
            waiting: 0,
        };
        config.branch_predictor.follows_wrong_path.then(|| Box::new(path))
    }

    /// Notes that instruction `number` reads a register that `writer` (the low bits of its number) has not written
    /// yet. A writer on the path is not noted, but what that one waits for is.
    fn lack(&mut self, number: u64, writer: u32) {
        let writer = number - u64::from((number as u32).wrapping_sub(writer));
        if writer < self.branch && self.lacks.last() != Some(&writer) {
            self.lacks.push(writer);
        }
    }
}

impl Core {
    /// True if the next instruction lies behind a mispredicted branch, close enough to be followed before the
    /// branch is resolved.
    #[inline]
    pub(super) fn follows_wrong_path(&self) -> bool {
        self.wrong_path.is_some()
            && self.in_hand.flags & SERIALIZES == 0
            && self.unresolved_branch().is_some_and(|branch| {
                self.instructions.handed - branch < self.instructions.reorder_buffer
            })
    }

    /// Follows the instructions handed over behind the mispredicted branch that the front end waits for, if any, and
    /// begins their accesses.
    #[inline(never)]
    pub(super) fn look_ahead(&mut self) {
        let Some(mut path) = self.wrong_path.take() else { return };
        if let Some(branch) = self.unresolved_branch() {
            let Instructions { handed, oldest, reorder_buffer, .. } = self.instructions;
            if path.branch != branch || path.is_due {
                self.begin_path_behind(branch, &mut path);
            }
            while path.next < handed.min(oldest + reorder_buffer) && self.follow(&mut path) {}
        }
        self.wrong_path = Some(path);
    }

    /// Has the path followed again if it lacked the result of instruction `number`, which is known now. The result of a
    /// load on the path is its data.
    #[inline]
    pub(super) fn comes_for_wrong_path(&mut self, number: u64) {
        if let Some(path) = &mut self.wrong_path
            && path.lacks.contains(&number)
        {
            path.is_due = true;
            self.may_retire = true;
        }
    }

    fn begin_path_behind(&self, branch: u64, path: &mut WrongPath) {
        (path.branch, path.next) = (branch, branch + 1);
        path.demand = self.demands.next_place();
        path.dispatch.restart(self.instructions.entries[branch].dispatched);
        path.lacks.clear();
        path.is_due = false;
        path.registers = self.instructions.registers.clone();
        (path.loads, path.stores, path.waiting) = (0, 0, 0);
    }

    /// Follows the next instruction on the path; returns false if the path ends before it.
    fn follow(&mut self, path: &mut WrongPath) -> bool {
        let number = path.next;
        let demand = self.demands.at(path.demand, number);
        let (loads, stores) =
            (path.loads + u64::from(demand.loads), path.stores + u64::from(demand.stores));
        let has_room = self.load_queue.has_room(loads)
            && self.store_queue.has_room(stores)
            && self.scheduler.has_room(path.waiting + 1);
        if demand.flags & SERIALIZES != 0 || !has_room {
            return false;
        }
        (path.loads, path.stores) = (loads, stores);
        path.next += 1;
        path.demand = path.demand.wrapping_add(demand.is_demanding().into());
        let operands = self.instructions.entries[number].operands;
        let dispatch = path.dispatch.pass(0);
        let (mut addresses, mut issue) = (dispatch, dispatch);
        for (place, source) in operands.sources.into_iter().enumerate() {
            let Register { ready, writer } = path.registers.at(source);
            if ready == UNKNOWN {
                path.lack(number, writer);
            }
            issue = issue.max(ready);
            if operands.data_sources >> place & 1 == 0 {
                addresses = addresses.max(ready);
            }
        }
        path.waiting += usize::from(issue == UNKNOWN);
        if demand.hits > 0 {
            issue = issue.max(addresses.saturating_add(self.accesses.hit_cycles));
        }
        if demand.unloaded > 0 {
            let there = self.accesses.there_ahead(demand.first_access);
            if there == UNKNOWN {
                path.lacks.push(number);
            }
            issue = issue.max(there);
        }
        let result = issue.saturating_add(self.instructions.latency(operands, demand.loads > 0));
        path.registers.write(number, operands.destinations, result);
        if addresses != UNKNOWN {
            self.start_ahead(demand.first_access, addresses.max(self.shared.agenda.now));
        }
        true
    }
}
