//! Random changes and accesses in two address spaces, compared with a naive map of 4KB pages.

use std::collections::{BTreeMap, BTreeSet};

use perforate_mmu::Mmu;
use perforate_schemes::gap_tolerant::GapTolerantRadix;
use perforate_schemes::gap_tolerant::SuperpageOperation;
use perforate_types::{
    AccessKind, Frame, GapTolerance, PageSize, Permissions, Shootdown, SpaceId, Steps,
    TableOperation, VirtualPage,
};
use proptest::prelude::*;

use super::address_spaces::config;

/// Number of gap-tolerant entries that the changes use, around the end of a page of the directory.
const ENTRIES: u64 = 8;
const REGION: u64 = 512;

#[derive(Clone, Debug)]
enum Operation {
    MapSuperpage { entry: u64, slices: [u64; 2], pick: u64, permissions: Permissions },
    UnmapSuperpage { entry: u64 },
    Protect { entry: u64, permissions: Permissions },
    MapPage { place: u64, frame: u64, permissions: Permissions },
    UnmapPage { place: u64 },
    Access { place: u64, kind: AccessKind },
    Switch,
}

fn permissions() -> impl Strategy<Value = Permissions> {
    prop::sample::select(vec![Permissions::READ, Permissions::READ_WRITE, Permissions::ALL])
}

fn operation() -> impl Strategy<Value = Operation> {
    let kind = prop::sample::select(vec![AccessKind::Read, AccessKind::Write, AccessKind::Fetch]);
    let place = any::<u64>();
    prop_oneof![
        3 => (0..ENTRIES, any::<[u64; 2]>(), any::<u64>(), permissions()).prop_map(
            |(entry, slices, pick, permissions)| {
                Operation::MapSuperpage { entry, slices, pick, permissions }
            }
        ),
        1 => (0..ENTRIES).prop_map(|entry| Operation::UnmapSuperpage { entry }),
        1 => (0..ENTRIES, permissions())
            .prop_map(|(entry, permissions)| Operation::Protect { entry, permissions }),
        2 => (place, 0..1_u64 << 20, permissions()).prop_map(
            |(place, frame, permissions)| Operation::MapPage { place, frame, permissions }
        ),
        1 => place.prop_map(|place| Operation::UnmapPage { place }),
        30 => (place, kind).prop_map(|(place, kind)| Operation::Access { place, kind }),
        1 => Just(Operation::Switch),
    ]
}

type Pages = BTreeMap<u64, (u64, Permissions)>;

/// State of one address space.
#[derive(Default)]
struct Space {
    pages: Pages,
    /// First pages of gap-tolerant entries.
    superpages: BTreeSet<u64>,
    /// First pages of 2MB regions with a level-1 node.
    nodes: BTreeSet<u64>,
}

struct Machine {
    mode: GapTolerance,
    mmu: Mmu,
    spaces: [Space; 2],
    current: usize,
    nodes: u64,
}

/// A selection of 32 bits, chosen by `pick`.
fn selection(mut pick: u64) -> u64 {
    let mut left: Vec<u32> = (0..64).collect();
    (0..32).fold(0, |selection, _| {
        pick = pick.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        selection | 1 << left.swap_remove((pick >> 33) as usize % left.len())
    })
}

impl Machine {
    fn new(mode: GapTolerance, level2_entries: usize) -> Self {
        let dimension = Box::new(GapTolerantRadix::new(mode));
        let config = config(level2_entries);
        let mmu = Mmu::new(&config, dimension).unwrap();
        let mut machine =
            Self { mode, mmu, spaces: Default::default(), current: 0, nodes: 0x80_0000 };
        for current in [0, 1] {
            machine.current = current;
            let first = machine.first();
            for (level, page) in [(4, 0), (3, 0), (2, first >> 18 << 18)] {
                machine.add_table(level, page);
            }
        }
        machine.switch();
        machine
    }

    /// First page of the entries that the changes use. If the directory has several pages, half of
    /// these entries are at the end of one page and half in the next.
    fn first(&self) -> u64 {
        let entries = (4096 / 16).min((1 << 18) / self.mode.entry_pages() - ENTRIES / 2);
        (1 << 18) + (entries - ENTRIES / 2) * self.mode.entry_pages()
    }

    fn id(&self) -> SpaceId {
        SpaceId(self.current as u16 + 1)
    }

    fn space(&mut self) -> &mut Space {
        &mut self.spaces[self.current]
    }

    fn switch(&mut self) {
        self.current = 1 - self.current;
        self.mmu.switch(self.id());
    }

    fn add_table(&mut self, level: u8, first: u64) {
        // A page directory is aligned to its size.
        self.nodes = self.nodes.next_multiple_of(4) + 4;
        let (space, page, frame) = (self.id(), VirtualPage::new(first), Frame::new(self.nodes));
        self.mmu.apply(&TableOperation::AddNode { space, level, page, frame, branch: 0 }.into());
    }

    fn drop_superpage(&mut self, first: u64) {
        if !self.space().superpages.remove(&first) {
            return;
        }
        let (space, page, mode) = (self.id(), VirtualPage::new(first), self.mode);
        self.space().pages.retain(|page, _| !(first..first + mode.entry_pages()).contains(page));
        self.mmu.apply(&SuperpageOperation::Unmap { space, page, mode }.into());
        self.mmu.apply(&Shootdown::Superpage { space, page, mode }.into());
    }

    fn unmap_page(&mut self, number: u64) {
        let (space, page, size) = (self.id(), VirtualPage::new(number), PageSize::Size4K);
        self.space().pages.remove(&number);
        self.mmu.apply(&TableOperation::Unmap { space, page, size }.into());
        self.mmu.apply(&Shootdown::Page { space, page }.into());
    }

    /// Removes the level-1 node of a 2MB region with all its pages.
    fn drop_node(&mut self, region: u64) {
        if !self.space().nodes.remove(&region) {
            return;
        }
        let pages: Vec<u64> =
            self.space().pages.range(region..region + REGION).map(|(&page, _)| page).collect();
        pages.into_iter().for_each(|page| self.unmap_page(page));
        let (space, page) = (self.id(), VirtualPage::new(region));
        let remove = TableOperation::RemoveNode { space, level: 1, page, branch: 0 };
        self.mmu.apply(&remove.into());
        self.mmu.apply(&Shootdown::Page { space, page }.into());
    }

    fn map_superpage(&mut self, first: u64, slices: [u64; 2], pick: u64, permissions: Permissions) {
        let mode = self.mode;
        self.drop_superpage(first);
        let regions = first / REGION * REGION..first + mode.entry_pages();
        regions.step_by(REGION as usize).for_each(|region| self.drop_node(region));
        let [slice, second] =
            slices.map(|slice| slice % ((1 << 15) / mode.slice_frames()) * mode.slice_frames());
        let second = if mode.is_paired() { second } else { slice };
        let whole = mode.is_paired() && slice == second;
        let selection = if whole { u64::MAX } else { selection(pick) };
        let space = self.id();
        let page = VirtualPage::new(first);
        self.mmu.apply(
            &SuperpageOperation::Map {
                space,
                page,
                mode,
                slice: Frame::new(slice),
                second: Frame::new(second),
                selection,
                permissions,
            }
            .into(),
        );
        // The definition of G §3.2, page by page: the selected B-blocks in order.
        let of = |slice: u64| {
            let blocks = (0..64).filter(move |bit| selection >> bit & 1 != 0);
            blocks.flat_map(move |bit| {
                (0..mode.block_frames()).map(move |index| slice + bit * mode.block_frames() + index)
            })
        };
        let frames: Vec<u64> =
            if whole { of(slice).collect() } else { of(slice).chain(of(second)).collect() };
        let own = self.space();
        own.superpages.insert(first);
        let pages = (first..first + mode.entry_pages()).zip(frames);
        own.pages.extend(pages.map(|(page, frame)| (page, (frame, permissions))));
    }

    fn protect(&mut self, first: u64, permissions: Permissions) {
        if !self.space().superpages.contains(&first) {
            return;
        }
        let (space, page, mode) = (self.id(), VirtualPage::new(first), self.mode);
        let range = first..first + mode.entry_pages();
        self.space().pages.range_mut(range).for_each(|(_, mapping)| mapping.1 = permissions);
        let protect = SuperpageOperation::Protect { space, page, mode, permissions };
        self.mmu.apply(&protect.into());
        self.mmu.apply(&Shootdown::Superpage { space, page, mode }.into());
    }

    fn map_page(&mut self, number: u64, frame: u64, permissions: Permissions) {
        let (region, length) = (number / REGION * REGION, self.mode.entry_pages());
        let first = region / length * length;
        let entries = (first..region + REGION).step_by(length as usize);
        entries.for_each(|entry| self.drop_superpage(entry));
        if self.space().nodes.insert(region) {
            self.add_table(1, region);
        }
        if self.space().pages.contains_key(&number) {
            self.unmap_page(number);
        }
        let (space, page, size) = (self.id(), VirtualPage::new(number), PageSize::Size4K);
        let frame_of_page = Frame::new(frame);
        let map = TableOperation::Map { space, page, size, frame: frame_of_page, permissions };
        self.mmu.apply(&map.into());
        self.space().pages.insert(number, (frame, permissions));
    }

    fn check(&mut self, number: u64, kind: AccessKind) {
        let mapping = self.space().pages.get(&number).copied();
        let expected = mapping.filter(|(_, permissions)| permissions.allow(kind));
        let page = VirtualPage::new(number);
        let found = self.mmu.translate(kind, page.address(), &mut Steps::counts_only()).ok();
        let found = found.map(|found| found.physical.page().number());
        assert_eq!(found, expected.map(|(frame, _)| frame), "{kind:?} of {page:?}");
        let seen = self.mmu.dimension().look_at(self.id(), page);
        assert_eq!(seen.map(|seen| seen.frame_of(page).number()), mapping.map(|(frame, _)| frame));
    }

    fn perform(&mut self, operation: &Operation) {
        let (start, length) = (self.first(), self.mode.entry_pages());
        let first = |entry: u64| start + entry * length;
        let number = |place: u64| start + place % (ENTRIES * length);
        match *operation {
            Operation::MapSuperpage { entry, slices, pick, permissions } => {
                self.map_superpage(first(entry), slices, pick, permissions);
            }
            Operation::UnmapSuperpage { entry } => self.drop_superpage(first(entry)),
            Operation::Protect { entry, permissions } => self.protect(first(entry), permissions),
            Operation::MapPage { place, frame, permissions } => {
                self.map_page(number(place), frame, permissions);
            }
            Operation::UnmapPage { place } => {
                let region = number(place) / REGION * REGION;
                self.drop_node(region);
            }
            Operation::Access { place, kind } => self.check(number(place), kind),
            Operation::Switch => self.switch(),
        }
    }
}

proptest! {
    #[test]
    fn any_history_translates_as_the_naive_map(
        mode in prop::sample::select(GapTolerance::ALL.to_vec()),
        level2_entries in prop::sample::select(vec![0_usize, 1, 3, 32]),
        operations in prop::collection::vec(operation(), 1..300),
    ) {
        let mut machine = Machine::new(mode, level2_entries);
        operations.iter().for_each(|operation| machine.perform(operation));
        for number in (machine.first()..machine.first() + ENTRIES * mode.entry_pages()).step_by(7) {
            machine.check(number, AccessKind::Read);
        }
    }
}
