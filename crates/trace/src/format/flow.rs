//! Prediction of control flow: the next static instruction. Writer and reader run the same model, so
//! only its mispredictions are written.
//!
//! Every record predicts its last successor. Initially, this is the record with the next number,
//! because records are numbered in order of first execution. A record that has had several successors
//! predicts by context: its successor after the same recent history.

use std::ops::Range;

const CONTEXT_BITS: u32 = 15;
/// Number of entries in a predictor's table that is indexed by a hash of the context.
pub(super) const SLOTS: usize = 1 << CONTEXT_BITS;
/// Flag of a dictionary record that has had more than one successor.
const VARYING: u32 = 1 << 31;
/// Flag of a dictionary record that has not been followed by another record yet.
const FRESH: u32 = 1 << 30;
const RECORD: u32 = FRESH - 1;

/// Predictor of the next dictionary record, used by both writer and reader.
pub(crate) struct Flow {
    /// Last successor of each record, with the flags [`VARYING`] and [`FRESH`].
    next: Vec<u32>,
    /// Table indexed by a hash of the current record and the long history: tag of the hash (high half) and
    /// successor (low half). `short` is the same for the short history.
    long: Box<[u64; SLOTS]>,
    short: Box<[u64; SLOTS]>,
    /// History of the last 16 dictionary records that followed a record with the flag [`VARYING`]: a 4-bit
    /// hash of each record number, the newest in the lowest bits.
    history: u64,
    current: u32,
}

impl Flow {
    pub(crate) fn new() -> Self {
        Self { next: Vec::new(), long: empty_slots(), short: empty_slots(), history: 0, current: 0 }
    }

    /// Resets the predictor, as at the start of a chunk, for `records` dictionary records.
    pub(crate) fn reset(&mut self, records: usize) {
        self.next.clear();
        self.grow(records);
        self.long.fill(0);
        self.short.fill(0);
        self.history = 0;
        self.current = 0;
    }

    /// Makes room for the state of `records` dictionary records.
    pub(crate) fn grow(&mut self, records: usize) {
        self.next
            .extend((self.next.len() as u32..records as u32).map(|record| (record + 1) | FRESH));
    }

    /// True if the predictor has room for this dictionary record.
    #[inline]
    pub(crate) fn has(&self, record: u32) -> bool {
        (record as usize) < self.next.len()
    }

    /// Predicts the number of the next dictionary record.
    #[inline]
    pub(crate) fn predict(&self) -> u32 {
        let next = self.next[self.current as usize];
        if next & VARYING == 0 { next & RECORD } else { self.predict_by_context(next & RECORD) }
    }

    /// Hashes of the current record with the history of 16 and of 4 successors.
    #[inline]
    fn contexts(&self) -> [u64; 2] {
        [self.history, self.history & 0xffff].map(|history| context(self.current, history))
    }

    fn predict_by_context(&self, last: u32) -> u32 {
        self.find(self.contexts(), last)
    }

    /// Looks up the successor by the hash with the long history, then by that with the short one. Returns
    /// `last` if neither is known.
    #[inline]
    fn find(&self, [long, short]: [u64; 2], last: u32) -> u32 {
        let (of_long, of_short) = (self.long[slot(long)], self.short[slot(short)]);
        if (of_long >> 32) as u32 == tag(long) {
            of_long as u32
        } else if (of_short >> 32) as u32 == tag(short) {
            of_short as u32
        } else {
            last
        }
    }

    /// Advances to the predicted record, as the actual next one, and returns its number. Has the effect of
    /// [`Flow::predict`] and then [`Flow::follow`] of the predicted record, which must be below the number
    /// given to [`Flow::grow`].
    #[inline]
    fn follow_prediction(&mut self) -> u32 {
        let next = self.next[self.current as usize];
        let mut predicted = next & RECORD;
        if next & VARYING != 0 {
            let contexts = self.contexts();
            predicted = self.find(contexts, predicted);
            self.follow_varying(contexts, predicted);
        } else if next & FRESH != 0 {
            self.next[self.current as usize] = predicted;
        }
        self.current = predicted;
        predicted
    }

    /// Advances by predictions as long as the predicted records have consecutive numbers: over at least one
    /// record and at most `most`. Returns the record numbers; the last may be beyond the number given to
    /// [`Flow::grow`].
    #[inline]
    pub(crate) fn follow_run(&mut self, most: usize) -> Range<usize> {
        let first = self.follow_prediction();
        let mut current = first;
        for _ in 1..most {
            let Some(next) = self.next.get_mut(current as usize) else { break };
            if *next & !FRESH != current + 1 {
                break;
            }
            current += 1;
            *next = current;
        }
        self.current = current;
        first as usize..current as usize + 1
    }

    /// Updates the predictor: the next record is `actual`, which must be below the number given to
    /// [`Flow::grow`].
    #[inline]
    pub(crate) fn follow(&mut self, actual: u32) {
        let next = self.next[self.current as usize];
        if next != actual {
            if next & FRESH != 0 {
                self.next[self.current as usize] = actual;
            } else {
                self.follow_varying(self.contexts(), actual);
            }
        }
        self.current = actual;
    }

    #[inline]
    fn follow_varying(&mut self, [long, short]: [u64; 2], actual: u32) {
        self.long[slot(long)] = u64::from(tag(long)) << 32 | u64::from(actual);
        self.short[slot(short)] = u64::from(tag(short)) << 32 | u64::from(actual);
        self.next[self.current as usize] = actual | VARYING;
        let nibble = u64::from(actual.wrapping_mul(0x9e37_79b1) >> 28);
        self.history = self.history << 4 | nibble;
    }
}

/// Makes a predictor's table of [`SLOTS`] zeros, which is indexed by a hash of the context.
pub(super) fn empty_slots() -> Box<[u64; SLOTS]> {
    let slots = vec![0; SLOTS].into_boxed_slice();
    slots.try_into().unwrap_or_else(|_| unreachable!("as long as it was made"))
}

fn context(record: u32, history: u64) -> u64 {
    let mixed = (history ^ u64::from(record) << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29 ^ u64::from(record)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

fn slot(hash: u64) -> usize {
    (hash >> (64 - CONTEXT_BITS)) as usize
}

/// Computes the tag of a hash; never 0, so that an empty entry does not match.
fn tag(hash: u64) -> u32 {
    hash as u32 | 1
}
