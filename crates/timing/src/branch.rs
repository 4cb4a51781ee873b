//! Branch prediction: decides for each branch of the trace whether it would have been predicted correctly.
//!
//! Conditional branches: a bimodal and a gshare table of two-bit counters and a chooser (McFarling 1993, as
//! in gem5's default predictor). Indirect branches: a table of last targets, indexed by branch address and
//! history. Returns: a return-address stack. Direct targets are always predicted correctly.

use perforate_types::{Branch, Instruction};

use crate::config::BranchPredictorConfig;
use crate::pipeline::Factor;

/// Predicted target of the last branch, to be checked when the address of the next instruction is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Nothing,
    /// Indirect branch: predicted target, and index in the table of targets.
    Target {
        target: u64,
        index: usize,
    },
    /// Return: the predicted target is the instruction after the call at this address.
    AfterCall(u64),
}

/// Maximum length of an x86 instruction; a return lands within this many bytes after the address of its call.
const LONGEST_INSTRUCTION_BYTES: u64 = 15;

#[derive(Clone, Debug)]
pub(crate) struct BranchPredictor {
    bimodal: Vec<u8>,
    gshare: Vec<u8>,
    chooser: Vec<u8>,
    targets: Vec<u64>,
    calls: Vec<u64>,
    call_depth: usize,
    history: u64,
    history_mask: u64,
    is_perfect: bool,
    expected: Expected,
    pub(crate) counts: BranchCounts,
}

/// Numbers of branches and mispredictions since measuring began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BranchCounts {
    pub(crate) branches: u64,
    pub(crate) mispredictions: u64,
}

impl BranchCounts {
    pub(crate) fn add(&mut self, more: &Self) {
        self.branches += more.branches;
        self.mispredictions += more.mispredictions;
    }

    pub(crate) fn scale(&mut self, factor: &Factor) {
        factor.scale([&mut self.branches, &mut self.mispredictions]);
    }
}

/// Moves a saturating two-bit counter up by one if `up`, else down by one.
fn train(counter: &mut u8, up: bool) {
    *counter = if up { (*counter + 1).min(3) } else { counter.saturating_sub(1) };
}

impl BranchPredictor {
    pub(crate) fn new(config: &BranchPredictorConfig) -> Self {
        let weakly_not_taken = vec![1; config.table_entries as usize];
        Self {
            bimodal: weakly_not_taken.clone(),
            gshare: weakly_not_taken.clone(),
            chooser: weakly_not_taken,
            targets: vec![0; config.indirect_entries as usize],
            calls: vec![0; config.return_stack_entries as usize],
            call_depth: 0,
            history: 0,
            history_mask: (1 << config.history_bits) - 1,
            is_perfect: config.perfect,
            expected: Expected::Nothing,
            counts: BranchCounts::default(),
        }
    }

    /// Predicts a branch and trains the predictor with its outcome; returns true if the direction was
    /// mispredicted. Targets are checked by [`BranchPredictor::check_target`] once the next instruction is
    /// known.
    pub(crate) fn branch(&mut self, instruction: &Instruction) -> bool {
        let ip = instruction.ip.value();
        self.counts.branches += 1;
        if self.is_perfect {
            return false;
        }
        let mut mispredicted = false;
        match instruction.branch {
            Branch::None | Branch::Jump => {}
            Branch::Conditional => mispredicted = self.conditional(ip, instruction.taken),
            Branch::Indirect => self.indirect(ip),
            Branch::Call => self.call(ip),
            Branch::IndirectCall => {
                self.indirect(ip);
                self.call(ip);
            }
            Branch::Return => self.return_from_call(),
        }
        self.counts.mispredictions += u64::from(mispredicted);
        mispredicted
    }

    /// True if the last branch has a predicted target that is still to be checked.
    #[inline]
    pub(crate) fn expects_a_target(&self) -> bool {
        self.expected != Expected::Nothing
    }

    /// Compares the predicted target of the last branch with `ip`, the address of the next instruction;
    /// returns true if it was mispredicted.
    pub(crate) fn check_target(&mut self, ip: u64) -> bool {
        let right = match self.expected {
            Expected::Nothing => true,
            Expected::Target { target, index } => {
                self.targets[index] = ip;
                target == ip
            }
            Expected::AfterCall(call) => {
                (1..=LONGEST_INSTRUCTION_BYTES).contains(&ip.wrapping_sub(call))
            }
        };
        self.expected = Expected::Nothing;
        self.counts.mispredictions += u64::from(!right);
        !right
    }

    fn conditional(&mut self, ip: u64, taken: bool) -> bool {
        let mask = self.bimodal.len() - 1;
        let plain = ip as usize & mask;
        let hashed = (ip ^ self.history) as usize & mask;
        let by_address = self.bimodal[plain] >= 2;
        let by_history = self.gshare[hashed] >= 2;
        let predicted = if self.chooser[plain] >= 2 { by_history } else { by_address };
        if by_address != by_history {
            train(&mut self.chooser[plain], by_history == taken);
        }
        train(&mut self.bimodal[plain], taken);
        train(&mut self.gshare[hashed], taken);
        self.history = (self.history << 1 | u64::from(taken)) & self.history_mask;
        predicted != taken
    }

    fn indirect(&mut self, ip: u64) {
        let index = (ip ^ self.history) as usize & (self.targets.len() - 1);
        self.expected = Expected::Target { target: self.targets[index], index };
    }

    fn call(&mut self, ip: u64) {
        let place = self.call_depth % self.calls.len();
        self.calls[place] = ip;
        self.call_depth += 1;
    }

    /// Predicts the target of a return from the return-address stack. An empty stack predicts nothing right;
    /// a stack that overflowed has lost its oldest calls.
    fn return_from_call(&mut self) {
        self.call_depth = self.call_depth.saturating_sub(1);
        self.expected = Expected::AfterCall(self.calls[self.call_depth % self.calls.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perforate_types::VirtualAddress;

    fn predictor() -> BranchPredictor {
        BranchPredictor::new(&BranchPredictorConfig {
            table_entries: 1024,
            history_bits: 8,
            indirect_entries: 64,
            return_stack_entries: 2,
            mispredict_penalty_cycles: 15,
            perfect: false,
            follows_wrong_path: false,
        })
    }

    fn at(ip: u64, branch: Branch, taken: bool) -> Instruction {
        Instruction { ip: VirtualAddress::new(ip), branch, taken, ..Instruction::default() }
    }

    #[test]
    fn an_alternating_branch_is_learnt_from_history() {
        let mut predictor = predictor();
        let mut wrong = 0;
        for i in 0..200 {
            let mispredicted = predictor.branch(&at(0x400, Branch::Conditional, i % 2 == 0));
            wrong += u32::from(mispredicted && i >= 100);
        }
        assert_eq!(wrong, 0);
    }

    #[test]
    fn indirect_targets_repeat_and_returns_match_their_calls() {
        let mut predictor = predictor();
        for (target, mispredicted) in [(0x900, true), (0x900, false), (0xa00, true)] {
            predictor.branch(&at(0x400, Branch::Indirect, true));
            assert_eq!(predictor.check_target(target), mispredicted);
        }
        predictor.branch(&at(0x100, Branch::Call, true));
        assert!(!predictor.check_target(0x5000));
        predictor.branch(&at(0x5000, Branch::Call, true));
        predictor.branch(&at(0x6000, Branch::Return, true));
        assert!(!predictor.check_target(0x5005));
        predictor.branch(&at(0x5009, Branch::Return, true));
        assert!(predictor.check_target(0x200), "returned elsewhere");
    }

    /// A return lands 1 to 15 bytes after its call, the longest instruction; it is counted as one branch.
    #[test]
    fn a_return_lands_behind_its_call() {
        for (target, mispredicted) in
            [(0x100, true), (0x101, false), (0x10f, false), (0x110, true), (0xff, true)]
        {
            let mut predictor = predictor();
            predictor.branch(&at(0x100, Branch::Call, true));
            predictor.branch(&at(0x5000, Branch::Return, true));
            assert!(predictor.expects_a_target());
            assert_eq!(predictor.check_target(target), mispredicted, "{target:#x}");
            assert!(!predictor.expects_a_target() && !predictor.check_target(0));
            let BranchCounts { branches, mispredictions } = predictor.counts;
            assert_eq!((branches, mispredictions), (2, u64::from(mispredicted)));
        }
    }

    /// A stack of two: of three calls the oldest is lost; a return without a call is not predicted, and takes
    /// nothing from the calls after it.
    #[test]
    fn the_return_stack_has_the_latest_calls() {
        let mut predictor = predictor();
        predictor.branch(&at(0x900, Branch::Return, true));
        assert!(predictor.check_target(0x100));
        for call in [0x101, 0x202, 0x303] {
            predictor.branch(&at(call, Branch::IndirectCall, true));
            assert!(predictor.check_target(call + 0x80), "no target is known");
        }
        for (target, mispredicted) in [(0x305, false), (0x204, false), (0x103, true)] {
            predictor.branch(&at(0x900, Branch::Return, true));
            assert_eq!(predictor.check_target(target), mispredicted, "{target:#x}");
        }
        // The indirect call's own target has been learnt.
        predictor.branch(&at(0x101, Branch::IndirectCall, true));
        assert!(!predictor.check_target(0x181));
    }

    /// Counters of two bits: two outcomes turn a prediction, one does not turn a strong one. The histories of
    /// other branches tell apart the outcomes of one.
    #[test]
    fn a_conditional_branch_has_inertia() {
        let mut predictor = predictor();
        // Jumps and direct calls are right, and no part of the history.
        for taken in [true, true, true, false, true, false, false, false] {
            predictor.branch(&at(0x500, Branch::Jump, true));
            predictor.branch(&at(0x400, Branch::Conditional, taken));
        }
        assert!(!predictor.expects_a_target());
        assert_eq!(predictor.counts.branches, 16);
        // Weakly not taken: wrong. Then right twice; wrong at the first exception, right again; wrong until
        // two say otherwise.
        assert_eq!(predictor.counts.mispredictions, 1 + 1 + 2);
        assert_eq!(predictor.history, 0b1110_1000);
        predictor.branch(&at(0x400, Branch::Conditional, true));
        assert_eq!(predictor.history, 0b1101_0001, "of eight outcomes");
    }
}
