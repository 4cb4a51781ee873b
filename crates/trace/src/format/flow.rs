//! Prediction of control flow: the next static instruction. Writer and reader run the same model, so
//! only its mispredictions are written.
//!
//! Every record predicts its last successor. Initially, this is the record with the next number,
//! because records are numbered in order of first execution. A record that has had several successors
//! predicts by context: its successor after the same recent history.

const CONTEXT_BITS: u32 = 15;
/// Flag of a record that has had more than one successor.
const VARYING: u32 = 1 << 31;
/// Flag of a record whose successor is not known yet.
const FRESH: u32 = 1 << 30;
const RECORD: u32 = FRESH - 1;

/// Predictor of the next dictionary record.
pub(crate) struct Flow {
    /// Last successor of each record, combined with [`VARYING`] or [`FRESH`].
    next: Vec<u32>,
    /// Table indexed by record and history: a tag (high half) and a successor (low half).
    long: Vec<u64>,
    short: Vec<u64>,
    /// Four bits for each of the last 16 successors of varying records, the newest in the lowest bits.
    history: u64,
    current: u32,
}

impl Flow {
    pub(crate) fn new() -> Self {
        Self {
            next: Vec::new(),
            long: vec![0; 1 << CONTEXT_BITS],
            short: vec![0; 1 << CONTEXT_BITS],
            history: 0,
            current: 0,
        }
    }

    /// Resets the state, as at the start of a chunk.
    pub(crate) fn reset(&mut self, records: usize) {
        self.next.clear();
        self.grow(records);
        self.long.fill(0);
        self.short.fill(0);
        self.history = 0;
        self.current = 0;
    }

    /// Makes room for `records` records.
    pub(crate) fn grow(&mut self, records: usize) {
        self.next
            .extend((self.next.len() as u32..records as u32).map(|record| (record + 1) | FRESH));
    }

    /// True if there is room for this record.
    #[inline]
    pub(crate) fn has(&self, record: u32) -> bool {
        (record as usize) < self.next.len()
    }

    /// Predicted number of the next record.
    #[inline]
    pub(crate) fn predict(&self) -> u32 {
        let next = self.next[self.current as usize];
        if next & VARYING == 0 { next & RECORD } else { self.predict_by_context(next & RECORD) }
    }

    fn predict_by_context(&self, last: u32) -> u32 {
        for (table, history) in [(&self.long, self.history), (&self.short, self.history & 0xffff)] {
            let hash = context(self.current, history);
            let entry = table[slot(hash)];
            if (entry >> 32) as u32 == tag(hash) {
                return entry as u32;
            }
        }
        last
    }

    /// Updates the state: the next record is `actual`, which must be below the number given to
    /// [`Flow::grow`].
    #[inline]
    pub(crate) fn follow(&mut self, actual: u32) {
        let next = self.next[self.current as usize];
        if next != actual {
            if next & FRESH != 0 {
                self.next[self.current as usize] = actual;
            } else {
                self.follow_varying(actual);
            }
        }
        self.current = actual;
    }

    fn follow_varying(&mut self, actual: u32) {
        let history = self.history;
        for (table, history) in [(&mut self.long, history), (&mut self.short, history & 0xffff)] {
            let hash = context(self.current, history);
            table[slot(hash)] = u64::from(tag(hash)) << 32 | u64::from(actual);
        }
        self.next[self.current as usize] = actual | VARYING;
        let nibble = u64::from(actual.wrapping_mul(0x9e37_79b1) >> 28);
        self.history = self.history << 4 | nibble;
    }
}

fn context(record: u32, history: u64) -> u64 {
    let mixed = (history ^ u64::from(record) << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29 ^ u64::from(record)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

fn slot(hash: u64) -> usize {
    (hash >> (64 - CONTEXT_BITS)) as usize
}

/// Tag of a hash; never 0, so that an empty entry does not match.
fn tag(hash: u64) -> u32 {
    hash as u32 | 1
}
