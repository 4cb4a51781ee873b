//! Records of the owners of one pageblock's frames.

use std::iter::Enumerate;
use std::ops::Range;
use std::slice;

use perforate_types::HoleSet;

use super::{FRAMES, KIND_BITS, Owner, PAGE, RETIRED, decode};

/// Difference between the encoded owners of two frames that hold consecutive pages.
const NEXT_PAGE: u64 = 1 << KIND_BITS;

/// Owners of the frames of a pageblock, encoded as words (0 for a frame without a record).
#[derive(Clone)]
pub(super) enum Records {
    /// Consecutive pages in consecutive frames, and no other records. This is the usual state of
    /// memory that a program has filled, so it needs no heap allocation.
    Run {
        /// Index in the pageblock of the first frame of the run.
        start: u16,
        /// Index in the pageblock after the last frame of the run.
        end: u16,
        /// Encoded owner of the first frame of the run.
        first: u64,
    },
    /// Any other owners, as an encoded word for each frame.
    Each(Box<Each>),
}

/// Encoded owner of each frame of a pageblock.
#[derive(Clone)]
pub(super) struct Each {
    words: [u64; FRAMES],
    recorded: u16,
    /// Number of frames of the pageblock that are retired (faulty).
    retired: u16,
}

impl Records {
    /// Creates the records of a pageblock in which only the frame with index `place` has an owner, encoded
    /// as `word`.
    pub(super) fn one(place: usize, word: u64) -> Self {
        if word & (NEXT_PAGE - 1) == PAGE {
            return Self::Run { start: place as u16, end: place as u16 + 1, first: word };
        }
        let mut each = Each::empty();
        each.set(place, word);
        Self::Each(each)
    }

    /// Encoded owner of the frame with index `place`; 0 for a frame without a record.
    #[inline]
    pub(super) fn get(&self, place: usize) -> u64 {
        match self {
            Self::Run { start, end, first } => {
                let is_inside = (usize::from(*start)..usize::from(*end)).contains(&place);
                if is_inside { first + (place as u64 - u64::from(*start)) * NEXT_PAGE } else { 0 }
            }
            Self::Each(each) => each.words[place],
        }
    }

    /// Sets the encoded owner of the frame with index `place`.
    #[inline]
    pub(super) fn set(&mut self, place: usize, word: u64) {
        if let Self::Run { start, end, first } = self {
            let length = u64::from(*end - *start);
            if place == usize::from(*end) && word == *first + length * NEXT_PAGE {
                *end += 1;
                return;
            }
            if place + 1 == usize::from(*start) && word + NEXT_PAGE == *first {
                (*start, *first) = (place as u16, word);
                return;
            }
        }
        self.each().set(place, word);
    }

    /// Clears the owner records of the frames with these indices.
    pub(super) fn clear(&mut self, places: Range<usize>) {
        if let Self::Run { start, end, first } = self {
            let (from, to) = (usize::from(*start), usize::from(*end));
            if places.end <= from || to <= places.start {
                return;
            }
            if places.start <= from {
                let kept_from = places.end.min(to);
                *first += (kept_from - from) as u64 * NEXT_PAGE;
                *start = kept_from as u16;
                return;
            }
            if to <= places.end {
                *end = places.start as u16;
                return;
            }
        }
        let each = self.each();
        places.for_each(|place| each.set(place, 0));
    }

    /// Converts the records to one word per frame.
    fn each(&mut self) -> &mut Each {
        if let Self::Run { start, end, .. } = *self {
            let mut each = Each::empty();
            (usize::from(start)..usize::from(end))
                .for_each(|place| each.set(place, self.get(place)));
            *self = Self::Each(each);
        }
        match self {
            Self::Each(each) => each,
            Self::Run { .. } => unreachable!("it was one just now"),
        }
    }

    /// Number of frames of the pageblock that have a recorded owner.
    pub(super) fn recorded(&self) -> u64 {
        match self {
            Self::Run { start, end, .. } => u64::from(end - start),
            Self::Each(each) => each.recorded.into(),
        }
    }

    /// Number of retired (faulty) frames in the pageblock.
    pub(super) fn retired(&self) -> u64 {
        match self {
            Self::Run { .. } => 0,
            Self::Each(each) => each.retired.into(),
        }
    }

    /// Recorded owners of the pageblock's frames, in ascending order of frame index.
    pub(super) fn iter(&self) -> RecordsOfBlock<'_> {
        RecordsOfBlock(match self {
            &Self::Run { start, end, first } => {
                Source::Run { places: start.into()..end.into(), first }
            }
            Self::Each(each) => Source::Each(each.words.iter().enumerate()),
        })
    }
}

impl Each {
    fn empty() -> Box<Self> {
        Box::new(Self { words: [0; FRAMES], recorded: 0, retired: 0 })
    }

    #[inline]
    fn set(&mut self, place: usize, word: u64) {
        let before = std::mem::replace(&mut self.words[place], word);
        self.recorded = self.recorded + u16::from(word != 0) - u16::from(before != 0);
        self.retired = self.retired + u16::from(word == RETIRED) - u16::from(before == RETIRED);
    }
}

/// Iterator over the records of a pageblock: index of each frame, and its owner.
pub(crate) struct RecordsOfBlock<'a>(Source<'a>);

enum Source<'a> {
    /// Records of consecutive pages: indices of the frames still to visit, and encoded owner of the first.
    Run {
        places: Range<usize>,
        first: u64,
    },
    Each(Enumerate<slice::Iter<'a, u64>>),
}

impl RecordsOfBlock<'_> {
    /// Indices of the frames still to visit, if they hold consecutive pages of a program (a fast path that
    /// decodes no record); `None` otherwise.
    pub(crate) fn pages_alone(&self) -> Option<HoleSet> {
        match &self.0 {
            Source::Run { places, .. } => Some(HoleSet::of_range(places.clone())),
            Source::Each(_) => None,
        }
    }
}

impl Iterator for RecordsOfBlock<'_> {
    type Item = (usize, Owner);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Source::Run { places, first } => {
                let (place, word) = (places.next()?, *first);
                *first += NEXT_PAGE;
                Some((place, decode(word)?))
            }
            Source::Each(words) => words.find_map(|(place, &word)| Some((place, decode(word)?))),
        }
    }
}

#[cfg(test)]
mod tests {
    use perforate_types::{SpaceId, VirtualPage};
    use proptest::prelude::*;

    use super::super::encode;
    use super::*;

    fn page(number: u64) -> u64 {
        encode(Owner::Page(SpaceId(7), VirtualPage::new(number)))
    }

    fn places(records: &Records) -> Vec<usize> {
        records.iter().map(|(place, _)| place).collect()
    }

    #[test]
    fn pages_that_follow_each_other_take_no_room() {
        let mut records = Records::one(10, page(100));
        records.set(11, page(101));
        records.set(9, page(99));
        assert!(matches!(records, Records::Run { start: 9, end: 12, .. }));
        assert_eq!(records.iter().pages_alone(), Some((9..12).collect()));
        assert_eq!([8, 9, 11, 12].map(|place| records.get(place)), [0, page(99), page(101), 0]);
        records.clear(0..10);
        records.clear(11..512);
        assert!(matches!(records, Records::Run { start: 10, end: 11, .. }));
        assert_eq!(places(&records), [10]);
        records.clear(0..512);
        assert_eq!(records.recorded(), 0);
    }

    #[test]
    fn others_are_recorded_one_by_one() {
        for (place, word) in [(11, page(102)), (12, page(102)), (10, page(5)), (11, RETIRED)] {
            let mut records = Records::one(10, page(100));
            records.set(place, word);
            assert!(matches!(records, Records::Each(_)), "{place}");
            assert_eq!(records.get(place), word);
        }
        // The page after the last that fits belongs to another half of the address space.
        let last = page((1 << 36) - 1);
        let mut records = Records::one(0, last);
        records.set(1, page(1 << 36));
        assert_eq!((records.get(0), records.get(1)), (last, page(0)));
        assert!(matches!(Records::one(0, RETIRED), Records::Each(_)));
    }

    proptest! {
        /// Compares the records with an array of words.
        #[test]
        fn records_are_those_of_an_array(
            steps in prop::collection::vec((0usize..20, 0usize..4, 0u64..4), 1..60),
        ) {
            let mut array = [0u64; FRAMES];
            let mut records: Option<Records> = None;
            for (place, length, what) in steps {
                if what == 0 {
                    let places = place..place + length;
                    array[places.clone()].fill(0);
                    records.iter_mut().for_each(|records| records.clear(places.clone()));
                } else {
                    let word = if what == 3 { RETIRED } else { page(100 * what + place as u64) };
                    array[place] = word;
                    match &mut records {
                        Some(records) => records.set(place, word),
                        none => *none = Some(Records::one(place, word)),
                    }
                }
                let Some(records) = &records else { continue };
                let expected: Vec<(usize, Owner)> = array.iter().enumerate()
                    .filter_map(|(place, &word)| Some((place, decode(word)?))).collect();
                prop_assert_eq!(records.iter().collect::<Vec<_>>(), expected.clone());
                prop_assert_eq!(records.recorded(), expected.len() as u64);
                let retired = array.iter().filter(|&&word| word == RETIRED).count();
                prop_assert_eq!(records.retired(), retired as u64);
                prop_assert!((0..FRAMES).all(|place| records.get(place) == array[place]));
            }
        }
    }
}
