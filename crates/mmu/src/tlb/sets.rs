//! Search and replacement in the sets of a [`SetAssociative`](super::SetAssociative) array: eight-bit
//! hashes of the keys, so that a look-up compares few keys, and the order of use.

/// Largest number of ways in a small set.
const MOST_SMALL: usize = 16;
/// Number of tags in a word.
const TAGS: usize = 8;
/// The number 1 in each tag of a word.
const TAG_ONES: u64 = u64::from_ne_bytes([1; TAGS]);
/// The number 1 in each four bits of a word.
const WAY_ONES: u64 = 0x1111_1111_1111_1111;

/// Number of different tags.
const DIFFERENT_TAGS: usize = 256;
/// End of a list of ways.
const END: u32 = u32::MAX;

/// Hash of a key. 0 stands for an empty way.
pub(super) type Tag = u8;

/// For each set, the tags of its ways, and the order in which they were last used. At first, all
/// ways are empty and way 0 is the oldest.
#[derive(Clone)]
pub(super) enum Sets {
    Small {
        sets: Vec<SmallSet>,
        /// Position of the oldest way in [`SmallSet::order`], in bits.
        oldest: u32,
    },
    Large(LargeSets),
}

/// A set of up to 16 ways.
#[derive(Clone, Copy)]
pub(super) struct SmallSet {
    tags: [[Tag; TAGS]; MOST_SMALL / TAGS],
    /// Four bits for each way, most recently used way lowest.
    order: u64,
}

/// Sets of more than 16 ways. Each look-up and each change takes a constant time.
#[derive(Clone)]
pub(super) struct LargeSets {
    ways: usize,
    tags: Vec<Tag>,
    /// First way of each set with each tag.
    first: Vec<[u32; DIFFERENT_TAGS]>,
    /// Next way of the same set with the same tag.
    next: Vec<u32>,
    /// Order of use: a circular list of each set's ways. The oldest is the newer neighbour of the
    /// most recently used one.
    order: Vec<Link>,
    /// Most recently used way of each set.
    newest: Vec<u32>,
}

/// Neighbours of a way in the order of use.
#[derive(Clone, Copy)]
struct Link {
    older: u32,
    newer: u32,
}

impl Sets {
    pub(super) fn new(sets: usize, ways: usize) -> Self {
        if ways > MOST_SMALL {
            return Self::Large(LargeSets::new(sets, ways));
        }
        let order = (0..ways as u64).fold(0, |order, way| order << 4 | way);
        let set = SmallSet { tags: [[0; TAGS]; MOST_SMALL / TAGS], order };
        Self::Small { sets: vec![set; sets], oldest: 4 * ways.saturating_sub(1) as u32 }
    }

    /// Number of slots that a set of this many ways takes, and memory of the simulating computer
    /// for the set besides its slots, in bytes.
    pub(super) const fn size(ways: usize) -> (usize, usize) {
        if ways <= MOST_SMALL {
            return (MOST_SMALL, size_of::<SmallSet>());
        }
        let per_way = size_of::<(Tag, u32, Link)>();
        let lists = size_of::<[u32; DIFFERENT_TAGS]>() + size_of::<u32>();
        (ways, ways.saturating_mul(per_way).saturating_add(lists))
    }

    /// Finds the way with this tag that `is_wanted`.
    #[inline(always)]
    pub(super) fn find(
        &self,
        set: usize,
        tag: Tag,
        is_wanted: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        match self {
            Self::Small { sets, .. } => sets[set].find(tag, is_wanted),
            Self::Large(sets) => {
                let mut way = sets.first[set][usize::from(tag)];
                while way != END && !is_wanted(way as usize) {
                    way = sets.next[set * sets.ways + way as usize];
                }
                (way != END).then_some(way as usize)
            }
        }
    }

    /// Makes `way` the most recently used one of its set.
    #[inline(always)]
    pub(super) fn touch(&mut self, set: usize, way: usize) {
        match self {
            Self::Small { sets, .. } => {
                let order = &mut sets[set].order;
                if *order & 15 != way as u64 {
                    *order = moved(*order, way, 0);
                }
            }
            Self::Large(sets) => sets.touch(set, way),
        }
    }

    /// Replaces the oldest way of a set, which becomes the most recently used one, by one with
    /// `tag`. Returns the way.
    #[inline(always)]
    pub(super) fn replace_oldest(&mut self, set: usize, tag: Tag) -> usize {
        match self {
            Self::Small { sets, oldest } => {
                let set = &mut sets[set];
                let way = set.order >> *oldest;
                set.order = (set.order ^ way << *oldest) << 4 | way;
                set.set_tag(way as usize, tag);
                way as usize
            }
            Self::Large(sets) => {
                let way = sets.oldest(set) as usize;
                sets.newest[set] = way as u32;
                sets.set_tag(set, way, tag);
                way
            }
        }
    }

    /// Changes the tag of a way.
    pub(super) fn set_tag(&mut self, set: usize, way: usize, tag: Tag) {
        match self {
            Self::Small { sets, .. } => sets[set].set_tag(way, tag),
            Self::Large(sets) => sets.set_tag(set, way, tag),
        }
    }

    /// Makes `way` older than all ways of its set but the `older` oldest.
    pub(super) fn demote(&mut self, set: usize, way: usize, older: usize) {
        match self {
            Self::Small { sets, oldest } => {
                let order = &mut sets[set].order;
                *order = moved(*order, way, *oldest - 4 * older as u32);
            }
            Self::Large(sets) => sets.demote(set, way, older),
        }
    }

    /// The ways of a set, oldest first.
    pub(super) fn oldest_first(&self, set: usize) -> impl Iterator<Item = usize> {
        let (ways, mut last) = match self {
            Self::Small { oldest, .. } => (*oldest as usize / 4 + 1, 0),
            Self::Large(sets) => (sets.ways, sets.newest[set] as usize),
        };
        (0..ways).rev().map(move |place| match self {
            Self::Small { sets, .. } => (sets[set].order >> (4 * place) & 15) as usize,
            Self::Large(sets) => {
                last = sets.order[set * ways + last].newer as usize;
                last
            }
        })
    }
}

/// Marks the tags in `tags` that equal `tag`, in the highest bit of each. The first marked tag is
/// equal; those above it may be marked wrongly.
#[inline(always)]
const fn equal_tags(tags: [Tag; TAGS], tag: Tag) -> u64 {
    let differences = u64::from_le_bytes(tags) ^ (tag as u64 * TAG_ONES);
    differences.wrapping_sub(TAG_ONES) & !differences & TAG_ONES << 7
}

/// Moves `way` to bit position `to` of the word `order`.
#[inline]
const fn moved(order: u64, way: usize, to: u32) -> u64 {
    let differences = order ^ (way as u64 * WAY_ONES);
    let equal = differences.wrapping_sub(WAY_ONES) & !differences & WAY_ONES << 3;
    let from = equal.trailing_zeros() & !3;
    let others = order & !(u64::MAX << from) | order >> from >> 4 << from;
    others & !(u64::MAX << to) | (way as u64) << to | others >> to << to << 4
}

impl SmallSet {
    #[inline(always)]
    fn find(&self, tag: Tag, is_wanted: impl Fn(usize) -> bool) -> Option<usize> {
        for (word, &tags) in self.tags.iter().enumerate() {
            let mut equal = equal_tags(tags, tag);
            while equal != 0 {
                let way = word * TAGS + (equal.trailing_zeros() / 8) as usize;
                if is_wanted(way) {
                    return Some(way);
                }
                equal &= equal - 1;
            }
        }
        None
    }

    #[inline(always)]
    fn set_tag(&mut self, way: usize, tag: Tag) {
        self.tags.as_flattened_mut()[way % MOST_SMALL] = tag;
    }
}

/// Puts `way` between the element `newer` and its older neighbour.
fn link(order: &mut [Link], way: usize, newer: u32) {
    let older = order[newer as usize].older;
    order[way] = Link { older, newer };
    order[older as usize].newer = way as u32;
    order[newer as usize].older = way as u32;
}

fn unlink(order: &mut [Link], way: usize) {
    let Link { older, newer } = order[way];
    order[older as usize].newer = newer;
    order[newer as usize].older = older;
}

impl LargeSets {
    fn new(sets: usize, ways: usize) -> Self {
        let count = ways as u32;
        let order = (0..count)
            .map(|way| Link { older: (way + count - 1) % count, newer: (way + 1) % count });
        Self {
            ways,
            tags: vec![0; sets * ways],
            first: vec![[END; DIFFERENT_TAGS]; sets],
            next: vec![END; sets * ways],
            order: order.collect::<Vec<_>>().repeat(sets),
            newest: vec![count - 1; sets],
        }
    }

    #[inline]
    fn order(&mut self, set: usize) -> &mut [Link] {
        &mut self.order[set * self.ways..][..self.ways]
    }

    /// Oldest way of a set.
    #[inline]
    fn oldest(&self, set: usize) -> u32 {
        self.order[set * self.ways + self.newest[set] as usize].newer
    }

    #[inline(never)]
    fn touch(&mut self, set: usize, way: usize) {
        if self.newest[set] != way as u32 {
            let oldest = self.oldest(set);
            if oldest != way as u32 {
                let order = self.order(set);
                unlink(order, way);
                link(order, way, oldest);
            }
            self.newest[set] = way as u32;
        }
    }

    fn demote(&mut self, set: usize, way: usize, older: usize) {
        // Between the oldest way and the most recently used one: either, as `newest` says.
        self.touch(set, way);
        if older + 1 < self.ways {
            let oldest = self.oldest(set);
            let order = self.order(set);
            let next = order[way].older;
            let newer = (0..older).fold(oldest, |way, _| order[way as usize].newer);
            unlink(order, way);
            link(order, way, newer);
            self.newest[set] = next;
        }
    }

    #[inline(never)]
    fn set_tag(&mut self, set: usize, way: usize, tag: Tag) {
        let slots = set * self.ways..(set + 1) * self.ways;
        let (first, next) = (&mut self.first[set], &mut self.next[slots.clone()]);
        let present = std::mem::replace(&mut self.tags[slots][way], tag);
        if present != 0 {
            let mut before = first[usize::from(present)] as usize;
            if before == way {
                first[usize::from(present)] = next[way];
            } else {
                while next[before] as usize != way {
                    before = next[before] as usize;
                }
                next[before] = next[way];
            }
        }
        if tag != 0 {
            next[way] = std::mem::replace(&mut first[usize::from(tag)], way as u32);
        }
    }
}
