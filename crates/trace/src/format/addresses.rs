//! Prediction of the addresses of memory operands. Writer and reader run the same model, so only its
//! mispredictions are written.
//!
//! Every operand of every static instruction predicts its next address in one of two modes: the
//! operand's last address plus a stride, or a recent access of any operand plus an offset (fields of an
//! object, slots of a stack frame). After a misprediction, a code gives the right address: the other
//! mode, an address remembered by context, or an explicit difference.

use super::flow::{SLOTS, empty_slots};

/// Number of recent accesses that the predictor of addresses remembers, and that an explicit difference may
/// refer to.
pub(crate) const RECENT: usize = 8;

/// Misprediction code: the right address is the one that the operand's other mode predicts (last address plus
/// stride, or recent access plus offset).
pub(crate) const OTHER_MODE: u8 = 0;
/// Misprediction code: the right address is the one that this operand accessed the last time the most recent
/// access (of any operand) was to the same address as now.
pub(crate) const AFTER_RECENT: u8 = 1;
/// Misprediction code: the right address is the one that came next when this operand last accessed its
/// current last address.
pub(crate) const AFTER_LAST: u8 = 2;
/// First misprediction code with an explicit difference. In code `EXPLICIT + 8 × base + (bytes − 1)`, base 0
/// is the operand's last address, and base k the k-th most recent access. `bytes` bytes of the zigzagged
/// difference follow the code.
pub(crate) const EXPLICIT: u8 = 3;
/// Number of valid misprediction codes.
pub(crate) const CODES: u8 = EXPLICIT + 8 * (1 + RECENT as u8);

#[derive(Clone, Copy, Default)]
struct Operand {
    last: u64,
    /// Difference between the operand's last two addresses.
    delta: u64,
    /// Difference between successive addresses of the operand, as of the last time that two successive
    /// differences were equal.
    stride: u64,
    /// Operand's last address minus the address of the `back`-th most recent access before it.
    offset: u64,
    /// Age of the access that `offset` refers to, from 1.
    back: u8,
    relative: bool,
}

impl Operand {
    /// Updates the operand's state after its access to `address`; `recent` is the address to which `offset`
    /// refers.
    #[inline]
    fn follow(&mut self, recent: u64, address: u64) {
        self.offset = address.wrapping_sub(recent);
        let delta = address.wrapping_sub(self.last);
        if delta == self.delta {
            self.stride = delta;
        }
        self.delta = delta;
        self.last = address;
    }
}

/// Predictor of the next address of each operand, used by both writer and reader.
pub(crate) struct Addresses {
    operands: Vec<Operand>,
    /// Ring buffer of the addresses of the last accesses, of any operands.
    recent: [u64; RECENT],
    newest: usize,
    after_recent: Box<[u64; SLOTS]>,
    after_last: Box<[u64; SLOTS]>,
}

impl Addresses {
    pub(crate) fn new() -> Self {
        Self {
            operands: Vec::new(),
            recent: [0; RECENT],
            newest: 0,
            after_recent: empty_slots(),
            after_last: empty_slots(),
        }
    }

    /// Resets the predictor, as at the start of a chunk, for `operands` memory operands of static
    /// instructions.
    pub(crate) fn reset(&mut self, operands: usize) {
        self.operands.clear();
        self.grow(operands);
        self.recent = [0; RECENT];
        self.newest = 0;
        self.after_recent.fill(0);
        self.after_last.fill(0);
    }

    /// Makes room for the state of `operands` memory operands of static instructions.
    #[inline]
    pub(crate) fn grow(&mut self, operands: usize) {
        if operands > self.operands.len() {
            self.operands.resize(operands, Operand { back: 1, ..Operand::default() });
        }
    }

    /// Returns the address of the `back`-th most recent access, from 1.
    #[inline]
    fn recent(&self, back: usize) -> u64 {
        self.recent[(self.newest + RECENT + 1 - back) % RECENT]
    }

    /// Predicts the next address of `operand`.
    #[inline]
    pub(crate) fn predict(&self, operand: usize) -> u64 {
        let state = &self.operands[operand];
        self.by_mode(state, state.relative)
    }

    #[inline]
    fn by_mode(&self, state: &Operand, relative: bool) -> u64 {
        if relative {
            self.recent(usize::from(state.back)).wrapping_add(state.offset)
        } else {
            state.last.wrapping_add(state.stride)
        }
    }

    /// Updates the state of `operand` after an access to `address`.
    #[inline]
    pub(crate) fn follow(&mut self, operand: usize, address: u64) {
        let recent = self.recent(usize::from(self.operands[operand].back));
        self.operands[operand].follow(recent, address);
        self.note_recent(address);
    }

    /// Predicts the next address of `operand`, updates the state as if the prediction is right, and returns
    /// the address.
    #[inline]
    pub(crate) fn follow_prediction(&mut self, operand: usize) -> u64 {
        let Self { operands, recent, newest, .. } = self;
        let state = &mut operands[operand];
        let recent = recent[(*newest + RECENT + 1 - usize::from(state.back)) % RECENT];
        let address = match state.relative {
            true => recent.wrapping_add(state.offset),
            false => state.last.wrapping_add(state.stride),
        };
        state.follow(recent, address);
        self.note_recent(address);
        address
    }

    #[inline]
    fn note_recent(&mut self, address: u64) {
        self.newest = (self.newest + 1) % RECENT;
        self.recent[self.newest] = address;
    }

    /// Finds the code that gives `address`, which was mispredicted, with the fewest bytes. Also returns the
    /// difference that the code is followed by, if it is explicit.
    pub(crate) fn explain(&self, operand: usize, address: u64) -> (u8, u64) {
        let state = &self.operands[operand];
        if self.by_mode(state, !state.relative) == address {
            return (OTHER_MODE, 0);
        }
        let (by_recent, by_last) = self.contexts(operand);
        if self.after_recent[by_recent] == address {
            return (AFTER_RECENT, 0);
        }
        if self.after_last[by_last] == address {
            return (AFTER_LAST, 0);
        }
        (0..=RECENT)
            .map(|base| {
                let difference = address.wrapping_sub(self.base(operand, base)) as i64;
                let number = super::columns::zigzag(difference);
                let bytes = (64 - (number | 1).leading_zeros()).div_ceil(8);
                (EXPLICIT + 8 * base as u8 + (bytes - 1) as u8, number, bytes)
            })
            .min_by_key(|&(_, _, bytes)| bytes)
            .map(|(code, number, _)| (code, number))
            .expect("there is at least one base")
    }

    /// Returns the address for a misprediction code and its explicit difference (`number`); `None` for an
    /// invalid code. Updates the mode and the tables indexed by context; the caller then calls
    /// [`Addresses::follow`].
    pub(crate) fn correct(&mut self, operand: usize, code: u8, number: u64) -> Option<u64> {
        let (by_recent, by_last) = self.contexts(operand);
        let address = match code {
            OTHER_MODE => {
                let relative = !self.operands[operand].relative;
                self.operands[operand].relative = relative;
                self.by_mode(&self.operands[operand], relative)
            }
            AFTER_RECENT => self.after_recent[by_recent],
            AFTER_LAST => self.after_last[by_last],
            CODES.. => return None,
            _ => {
                let base = usize::from((code - EXPLICIT) / 8);
                let difference = super::columns::unzigzag(number) as u64;
                let address = self.base(operand, base).wrapping_add(difference);
                let state = &mut self.operands[operand];
                state.relative = base != 0;
                if base != 0 {
                    state.back = base as u8;
                }
                address
            }
        };
        self.after_recent[by_recent] = address;
        self.after_last[by_last] = address;
        Some(address)
    }

    fn base(&self, operand: usize, base: usize) -> u64 {
        if base == 0 { self.operands[operand].last } else { self.recent(base) }
    }

    /// Indices of the entries for `operand` in the tables `after_recent` (by the most recent address) and
    /// `after_last` (by the operand's last address).
    fn contexts(&self, operand: usize) -> (usize, usize) {
        (slot(operand, self.recent(1)), slot(operand, self.operands[operand].last))
    }
}

fn slot(operand: usize, address: u64) -> usize {
    let mixed = (address ^ (operand as u64) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ mixed >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> (64 - SLOTS.ilog2())) as usize
}

/// Returns the number of difference bytes that follow a misprediction code.
#[inline]
pub(crate) fn explicit_bytes(code: u8) -> usize {
    if code < EXPLICIT { 0 } else { usize::from((code - EXPLICIT) % 8) + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Differences just below and at each power of two, in both directions.
    #[test]
    fn an_explicit_difference_has_as_few_bytes_as_hold_it() {
        for bits in 0..64 {
            let power = 1_u64 << bits;
            let below = power - 1;
            for difference in [power, below, power.wrapping_neg(), below.wrapping_neg()] {
                let mut addresses = Addresses::new();
                addresses.grow(1);
                if difference == 0 {
                    continue;
                }
                let (code, number) = addresses.explain(0, difference);
                let mut bytes = 1;
                while bytes < 8 && number >> (8 * bytes) != 0 {
                    bytes += 1;
                }
                assert_eq!(usize::from(code), usize::from(EXPLICIT) + bytes - 1, "{difference:#x}");
                assert_eq!(explicit_bytes(code), bytes);
                assert_eq!(addresses.correct(0, code, number), Some(difference));
            }
        }
    }

    #[test]
    fn the_nearest_of_the_recent_accesses_is_the_base() {
        let mut addresses = Addresses::new();
        addresses.grow(2);
        let place = |access: usize| (access as u64) << 40;
        for access in 1..=RECENT + 3 {
            addresses.follow(1, place(access));
        }
        for back in 1..=RECENT {
            let address = place(RECENT + 4 - back) + 3;
            let (code, number) = addresses.explain(0, address);
            assert_eq!((usize::from(code), number), (usize::from(EXPLICIT) + 8 * back, 6));
        }
        let forgotten = place(3) + 3;
        let (code, _) = addresses.explain(0, forgotten);
        assert_eq!(explicit_bytes(code), 6, "40 bits and the sign");
        let (code, number) = addresses.explain(0, place(RECENT) + 3);
        assert_eq!(addresses.correct(0, code, number), Some(place(RECENT) + 3));
        assert_eq!(addresses.correct(0, CODES, 0), None);
    }
}
