//! Operations that fail half-way keep what they could not change and give back what they took; and
//! memory that is backed in advance.

use perforate_config::{Size, read};
use perforate_types::{
    AccessKind, Backing, Counters, Frame, GuestFrame, PageSize, Permissions, ProgramEvent, SpaceId,
    TableOperation, VirtualAddress, VirtualPage,
};

use super::contiguous::RunRequest;
use super::{Approach, HardFault, Kernel, KernelConfig, migration};
use crate::mechanism::{Departure, Overlay, OverlayMechanism, Recount, SpaceMut};
use crate::memory::BLOCK_ORDER;
use crate::space::AddressSpace;
use crate::{BasePages, Hypervisor, OsError, OtherUse, Policy, ShadowLeaf, Thp};

const MB: u64 = 1 << 20;
const RW: Permissions = Permissions::READ_WRITE;
const SPACE: SpaceId = SpaceId(0);
/// First page of region 1, which lies in the first GB as all pages of these tests.
const START: u64 = 512;

/// An overlay that does not let its pages be mapped elsewhere.
struct Stuck;
struct StuckPages;

impl Overlay for Stuck {
    fn mechanism(&self) -> &'static dyn OverlayMechanism {
        &StuckPages
    }

    fn check(&self, _: &AddressSpace, _: &mut Recount) -> Result<(), String> {
        Ok(())
    }
}

impl OverlayMechanism for StuckPages {
    fn leave(
        &self,
        _: &mut SpaceMut<'_>,
        _: &std::ops::Range<u64>,
        departure: Departure,
    ) -> Result<(), OsError> {
        assert_eq!(departure, Departure::Remapped);
        let (asked_bytes, free_bytes, memory_bytes, enough_bytes) = (4096, 0, 0, 0);
        Err(OsError::OutOfMemory { asked_bytes, free_bytes, memory_bytes, enough_bytes })
    }
}

fn kernel_of(config: KernelConfig, policy: impl Policy + 'static) -> Kernel {
    Kernel::new(config, Box::new(policy)).unwrap()
}

fn map(kernel: &mut Kernel, space: SpaceId, first: u64, pages: u64) {
    let event = ProgramEvent::Map {
        start: VirtualAddress::new(first * 4096),
        length: pages * 4096,
        permissions: RW,
        accessible: true,
        backing: Backing::Anonymous,
        shared: false,
        populate: false,
    };
    kernel.event_in(space, &event).unwrap();
}

fn touch(kernel: &mut Kernel, space: SpaceId, pages: impl IntoIterator<Item = u64>) {
    for page in pages {
        kernel.fault(space, VirtualPage::new(page), AccessKind::Write).unwrap();
    }
}

fn frame(kernel: &Kernel, space: SpaceId, page: u64) -> Option<u64> {
    kernel.core.space(space).unwrap().frame_of(page).map(Frame::number)
}

/// Kernel data that fill all blocks of memory; block `n` is allocation `n`.
fn fill(kernel: &mut Kernel) {
    let memory = &mut kernel.core.memory;
    let mut numbers = Vec::new();
    for _ in 0..memory.blocks() {
        let number = memory.add_other(OtherUse::Kernel, 1, BLOCK_ORDER).unwrap();
        numbers.push(memory.other_frame(number).unwrap().number() >> BLOCK_ORDER);
    }
    assert!(numbers.iter().copied().eq(0..memory.blocks()), "{numbers:?}");
}

fn clear(kernel: &mut Kernel, blocks: impl IntoIterator<Item = u64>) {
    for block in blocks {
        kernel.core.memory.remove_other(block);
    }
}

fn assert_sound(kernel: &mut Kernel, free: u64) {
    kernel.core.ledger.send();
    assert_eq!(kernel.core.free_frames(), free);
    kernel.check_invariants().unwrap();
}

/// Process 0 has 50 pages and a process whose pages cannot move has 50, all in block 0. Their tables
/// lie in block 4, blocks 1 and 2 are free and block 3 is full. Also returns the second space.
fn with_stuck_pages(last_are_stuck: bool) -> (Kernel, SpaceId) {
    let mut kernel = kernel_of(KernelConfig::new(10 * MB), BasePages);
    fill(&mut kernel);
    clear(&mut kernel, [4]);
    let other = kernel.create_space().unwrap();
    for space in [SPACE, other] {
        map(&mut kernel, space, START, 512);
        touch(&mut kernel, space, [START + 511]);
    }
    let rest = kernel.core.free_frames();
    assert_eq!(rest, 512 - 2 - 2 * 4, "a page and four tables each");
    let rest = kernel.core.memory.add_other(OtherUse::Kernel, rest, 0).unwrap();
    clear(&mut kernel, [0]);
    let order = if last_are_stuck { [SPACE, other] } else { [other, SPACE] };
    for space in order {
        touch(&mut kernel, space, START..START + 50);
    }
    clear(&mut kernel, [1, 2, rest]);
    let in_block = |space| frame(&kernel, space, START + 49).unwrap();
    assert_eq!((in_block(order[0]), in_block(order[1])), (49, 99));
    kernel.core.space_mut(other).unwrap().set_overlay(Box::new(Stuck));
    let free = kernel.core.free_frames();
    assert_eq!(free, 412 + 1024 + 502);
    (kernel, other)
}

#[test]
fn a_block_that_cannot_be_emptied_is_given_back() {
    let (mut kernel, other) = with_stuck_pages(true);
    let free = kernel.core.free_frames();
    let contents = kernel.core.memory.contents(Frame::new(0));
    assert_eq!((contents.movable.count(), contents.free.count()), (100, 412));
    assert!(!kernel.core.evacuate(Frame::new(0), &contents));
    assert_eq!(kernel.core.compaction.counts.frames_migrated, 50);
    assert_sound(&mut kernel, free);
    // Only what could move did.
    assert!(frame(&kernel, SPACE, START).unwrap() >= 512);
    assert_eq!(frame(&kernel, other, START), Some(50));
    assert!(kernel.core.memory.zones().is_free(Frame::new(0)));
    kernel.core.space_mut(other).unwrap().take_overlay();
    let contents = kernel.core.memory.contents(Frame::new(0));
    assert!(kernel.core.evacuate(Frame::new(0), &contents));
    assert_eq!(kernel.core.compaction.counts.frames_migrated, 100);
    kernel.core.memory.free(Frame::new(0), BLOCK_ORDER);
    assert_sound(&mut kernel, free);
}

#[test]
fn a_run_that_cannot_be_emptied_is_given_back() {
    for last_are_stuck in [true, false] {
        let (mut kernel, other) = with_stuck_pages(last_are_stuck);
        let free = kernel.core.free_frames();
        let request = RunRequest { compacts: true, ..RunRequest::free(3) };
        let longest = OsError::NoContiguousMemory { asked_bytes: 6 * MB, longest_bytes: 4 * MB };
        assert_eq!(kernel.core.take_run(&request), Err(longest));
        let moved = if last_are_stuck { 50 } else { 0 };
        assert_eq!(kernel.core.compaction.counts.frames_migrated, moved);
        assert_eq!(kernel.core.ledger.done.frames_migrated, moved);
        assert_eq!(kernel.core.compaction.counts.blocks_emptied, 0);
        assert_sound(&mut kernel, free);
        kernel.core.space_mut(other).unwrap().take_overlay();
        let run = kernel.core.take_run(&request).unwrap();
        assert_eq!((run.blocks.clone(), run.movable_frames), (0..3, 100 - moved));
        kernel.core.give_back_run(run.frames());
        assert_sound(&mut kernel, free);
    }
}

#[test]
fn slow_compaction_ends_where_pages_cannot_move() {
    use Approach::{Free, Impossible, Nearer};
    for last_are_stuck in [true, false] {
        let (mut kernel, other) = with_stuck_pages(last_are_stuck);
        let free = kernel.core.free_frames();
        let mut steps = Vec::new();
        for _ in 0..2 {
            steps.push(kernel.approach_run(3 * 512, 1000));
            assert_sound(&mut kernel, free);
        }
        let first = if last_are_stuck { Nearer } else { Impossible };
        assert_eq!(steps, [first, Impossible]);
        kernel.core.space_mut(other).unwrap().take_overlay();
        // More than can ever be free; exactly what can; and again what is free now.
        for (frames, expected) in [(4 * 512, Impossible), (3 * 512, Free), (3 * 512, Free)] {
            assert_eq!(kernel.approach_run(frames, 1000), expected);
        }
        assert_eq!(kernel.core.compaction.counts.frames_migrated, 100);
        assert_sound(&mut kernel, free);
    }
}

/// Blocks 0 and 1 are the run: 300 pages of a program, and 724 free frames that nothing may move to. Block 3
/// has 380 frames of page cache and 132 free ones, and all else is full. Page cache makes room for the 300
/// pages first; migration then keeps memory above the low watermark of 126 frames, up to the high one of 151.
#[test]
fn slow_compaction_drops_page_cache_for_the_pages_that_move() {
    let mut kernel = kernel_of(KernelConfig::new(10 * MB), BasePages);
    fill(&mut kernel);
    clear(&mut kernel, [4]);
    map(&mut kernel, SPACE, START, 512);
    touch(&mut kernel, SPACE, [START + 511]);
    let rest = kernel.core.free_frames();
    kernel.core.memory.add_other(OtherUse::Kernel, rest, 0).unwrap();
    clear(&mut kernel, [0]);
    touch(&mut kernel, SPACE, START..START + 300);
    assert_eq!(frame(&kernel, SPACE, START + 299), Some(299));
    let rest = kernel.core.memory.add_other(OtherUse::PageCache, 212, 0).unwrap();
    clear(&mut kernel, [3]);
    for _ in 0..380 {
        kernel.core.memory.add_other(OtherUse::PageCache, 1, 0).unwrap();
    }
    clear(&mut kernel, [rest, 1]);
    assert_eq!(kernel.core.free_frames(), 724 + 132);
    assert_eq!(kernel.core.memory.zones().free_in_pageblock(Frame::new(3 * 512)).count(), 132);
    let before = kernel.core.memory.pressure();
    assert_eq!(kernel.approach_run(2 * 512, 1000), Approach::Free);
    assert_eq!(kernel.core.compaction.counts.frames_migrated, 300);
    // The 176th page is the first for which fewer than 126 frames are free; so is every 26th from there.
    let after = kernel.core.memory.pressure();
    let reclaims = after.reclaims - before.reclaims;
    assert_eq!((reclaims, after.page_cache_frames - before.page_cache_frames), (5, 5 * 26));
    assert_eq!(kernel.core.memory.other_frames(OtherUse::PageCache), 380 - 168 - 5 * 26);
    assert_sound(&mut kernel, 1024 + 300 + 5 * 26 - 300);
}

/// Block 0 is a 2MB page, block 2 is full and block 4 has the tables. A run of two blocks is 0 and
/// 1, and block 3 is free for the page's data.
#[test]
fn a_2mb_page_that_cannot_move_costs_no_block() {
    for is_stuck in [true, false] {
        let mut kernel = kernel_of(KernelConfig::new(10 * MB), Thp::new("thp"));
        fill(&mut kernel);
        clear(&mut kernel, [4]);
        map(&mut kernel, SPACE, START, 512);
        map(&mut kernel, SPACE, 2 * START, 1);
        touch(&mut kernel, SPACE, [2 * START]);
        clear(&mut kernel, [0]);
        touch(&mut kernel, SPACE, [START]);
        clear(&mut kernel, [1, 3]);
        assert_eq!(frame(&kernel, SPACE, START), Some(0));
        if is_stuck {
            kernel.core.space_mut(SPACE).unwrap().set_overlay(Box::new(Stuck));
        }
        let free = kernel.core.free_frames();
        let request = RunRequest { compacts: true, ..RunRequest::free(2) };
        let run = kernel.core.take_run(&request);
        let migrated = kernel.core.compaction.counts.frames_migrated;
        assert_eq!(kernel.core.ledger.done.frames_migrated, migrated);
        if is_stuck {
            let (asked_bytes, longest_bytes) = (4 * MB, 2 * MB);
            assert_eq!(run, Err(OsError::NoContiguousMemory { asked_bytes, longest_bytes }));
            assert_eq!((migrated, frame(&kernel, SPACE, START)), (0, Some(0)));
            let failed = kernel.hard_fault(Frame::new(5));
            assert_eq!(failed, HardFault::Uncorrected);
        } else {
            assert_eq!(run.map(|run| (run.blocks, run.movable_frames)), Ok((0..2, 512)));
            assert_eq!((migrated, frame(&kernel, SPACE, START)), (512, Some(3 * 512)));
            kernel.core.give_back_run(0..1024);
        }
        assert_sound(&mut kernel, free);
    }
}

#[test]
fn a_frame_moves_only_for_the_page_that_maps_it() {
    let (mut kernel, other) = with_stuck_pages(true);
    let free = kernel.core.free_frames();
    // Frame 0 is of process 0; 50 cannot move; 200 is free; 3 × 512 is kernel data.
    let mut moves = |frame| migration::migrate(&mut kernel.core, Frame::new(frame));
    assert_eq!([0, 50, 200, 3 * 512].map(&mut moves), [true, false, false, false]);
    assert_eq!(kernel.core.ledger.done.frames_migrated, 1);
    assert_eq!(kernel.hard_fault(Frame::new(50)), HardFault::Uncorrected);
    // A record that is out of date: the page has another frame, or none, or its space is gone.
    let page = VirtualPage::new(START + 1);
    assert_eq!(frame(&kernel, SPACE, START + 1), Some(1));
    kernel.core.memory.set_owner(Frame::new(2), SPACE, page);
    assert!(!migration::migrate(&mut kernel.core, Frame::new(2)));
    kernel.core.memory.set_owner(Frame::new(2), SPACE, VirtualPage::new(START + 300));
    assert!(!migration::migrate(&mut kernel.core, Frame::new(2)));
    kernel.core.memory.set_owner(Frame::new(2), SpaceId(9), page);
    assert!(!migration::migrate(&mut kernel.core, Frame::new(2)));
    kernel.core.memory.set_owner(Frame::new(2), SPACE, VirtualPage::new(START + 2));
    assert_eq!(frame(&kernel, SPACE, START + 2), Some(2));
    assert_eq!(frame(&kernel, other, START), Some(50));
    assert_sound(&mut kernel, free);
}

/// Of a run of three blocks, the frames before and after those that are used are given back, but
/// not the faulty ones; likewise when all are given back.
#[test]
fn faulty_frames_of_a_run_are_not_given_back() {
    let mut kernel = kernel_of(KernelConfig::new(8 * MB), BasePages);
    let faulty = [1, 700, 701, 1124, 1535, 1536, 1537, 1538, 1539, 1540];
    faulty.iter().for_each(|&frame| assert!(kernel.core.memory.retire(Frame::new(frame))));
    let pages = START + 3..START + 3 + 1024;
    let refused = kernel.core.take_run_for(&pages, 4, false);
    let (asked_bytes, longest_bytes) = (6 * MB, 4 * MB);
    assert_eq!(refused, Err(OsError::NoContiguousMemory { asked_bytes, longest_bytes }));
    assert_sound(&mut kernel, 2048 - 10);
    let run = kernel.core.take_run_for(&pages, 5, false).unwrap();
    assert_eq!(run, 3..1027);
    assert_eq!(kernel.core.free_frames(), 2048 - 10 - (1024 - 2));
    for (frame, is_free) in
        [(0, true), (1, false), (2, true), (3, false), (1026, false), (1027, true), (1123, true)]
            .into_iter()
            .chain([(1124, false), (1125, true), (1534, true), (1535, false)])
    {
        assert_eq!(kernel.core.memory.is_free(Frame::new(frame)), is_free, "{frame}");
    }
    kernel.core.give_back_run(run);
    assert_sound(&mut kernel, 2048 - 10);
}

/// Number of frames of page tables.
fn tables(kernel: &Kernel) -> u64 {
    let mut counters = Counters::default();
    kernel.counters(&mut counters);
    counters.get("page_table_bytes").unwrap() as u64 / 4096
}

/// Backs pages from region 1 on in advance. Returns the frame of each page that is mapped then, and
/// what of the work was clearing.
fn in_advance(
    kernel: &mut Kernel,
    pages: std::ops::Range<u64>,
    large: bool,
) -> Result<(Vec<u64>, (u64, u64)), OsError> {
    let done = |kernel: &Kernel| kernel.core.ledger.done;
    let before = done(kernel);
    kernel.core.ledger.clears = false;
    let backed = kernel.core.back_in_advance(SPACE, pages.clone(), RW, large)?;
    let found = pages.clone().map_while(|page| frame(kernel, SPACE, page)).collect::<Vec<_>>();
    assert_eq!(backed, found.len() as u64);
    assert!((pages.start + backed..pages.end).all(|page| frame(kernel, SPACE, page).is_none()));
    let work = done(kernel) - before;
    assert_eq!(work.frames_zeroed_4k + 512 * work.blocks_zeroed_2m, backed, "all is cleared");
    assert_eq!(work.frames_zeroed_4k + work.blocks_zeroed_2m, work.pages_mapped);
    Ok((found, (work.frames_zeroed_4k, work.blocks_zeroed_2m)))
}

fn advance_kernel(memory_bytes: u64, swap: u64, fragmentation: Option<&str>) -> Kernel {
    let fragmentation = fragmentation.map(|text| read(text).unwrap());
    let swap = Size(swap);
    let config = KernelConfig { fragmentation, swap, ..KernelConfig::new(memory_bytes) };
    let mut kernel = kernel_of(config, BasePages);
    map(&mut kernel, SPACE, START, 16 * 512);
    kernel
}

#[test]
fn memory_is_backed_in_advance_by_one_run_of_frames() {
    // Pages, and whether large pages are asked for. The first frame, if there are 512 pages or more: it is
    // at the same place of its block as the page. Numbers of 4KB and 2MB pages.
    for (pages, large, first, small, whole) in [
        (START..START, true, None, 0, 0),
        (START..START + 1, true, None, 1, 0),
        (START + 7..START + 27, true, None, 20, 0),
        (START..START + 511, true, None, 511, 0),
        (START..START + 512, true, Some(0), 0, 1),
        (START..START + 512, false, Some(0), 512, 0),
        (START + 1..START + 513, true, Some(1), 512, 0),
        (START + 500..START + 512 * 3, true, Some(500), 12, 2),
        (START + 500..START + 512 * 3 - 1, true, Some(500), 12 + 511, 1),
        (START + 500..START + 512 * 3 + 9, true, Some(500), 12 + 9, 2),
        (START..START + 512 * 3 + 9, false, Some(0), 512 * 3 + 9, 0),
    ] {
        let mut kernel = advance_kernel(64 * MB, 0, None);
        let (frames, by_size) = in_advance(&mut kernel, pages.clone(), large).unwrap();
        let case = format!("{pages:?} {large}");
        assert!(frames.is_sorted_by(|a, b| a + 1 == *b), "{case}: {frames:?}");
        assert_eq!(frames.len() as u64, pages.end - pages.start, "{case}");
        assert!(first.is_none_or(|first| frames[0] == first), "{case}: {frames:?}");
        assert_eq!(by_size, (small, whole), "{case}");
        let free = 16_384 - frames.len() as u64 - tables(&kernel);
        assert_sound(&mut kernel, free);
    }
}

/// A kernel of 32 blocks: these are free, and all of the last one but a page of region 9 and its four
/// tables. 384 frames are to stay free.
fn with_free_blocks(blocks: &[u64]) -> Kernel {
    let mut kernel = advance_kernel(64 * MB, 0, None);
    fill(&mut kernel);
    clear(&mut kernel, [31]);
    touch(&mut kernel, SPACE, [9 * 512 - 1]);
    clear(&mut kernel, blocks.iter().copied());
    assert_eq!(kernel.core.free_frames(), 507 + 512 * blocks.len() as u64);
    kernel
}

fn leave_free(kernel: &mut Kernel, frames: u64) {
    let more = kernel.core.free_frames() - frames;
    kernel.core.memory.add_other(OtherUse::Kernel, more, 0).unwrap();
}

#[test]
fn memory_is_backed_in_advance_as_far_as_the_longest_run_goes() {
    let mut kernel = with_free_blocks(&[3, 4, 10, 11, 12]);
    // Five blocks are asked for, and three are a run. It is used from the place of the first page on.
    let first = START + 100;
    let (frames, _) = in_advance(&mut kernel, first..START + 5 * 512, false).unwrap();
    assert!(frames.iter().copied().eq(10 * 512 + 100..13 * 512));
    assert_sound(&mut kernel, 507 + 5 * 512 - (3 * 512 - 100) - 3);
    // One block of two.
    let first = START + 3 * 512;
    let (frames, _) = in_advance(&mut kernel, first..first + 512, false).unwrap();
    assert!(frames.iter().copied().eq(3 * 512..4 * 512));
    // What may still be taken is a block, although two were enough for all.
    let first = first + 512;
    let (frames, _) = in_advance(&mut kernel, first..first + 600, false).unwrap();
    assert!(frames.iter().copied().eq(4 * 512..5 * 512));
    // Then there is the largest free piece, 128 frames.
    let first = first + 512;
    let free = kernel.core.free_frames();
    assert_eq!(free, 507 + 100 - 5);
    assert!(!kernel.core.memory.has_free(8));
    let (frames, _) = in_advance(&mut kernel, first..first + 1000, false).unwrap();
    assert!(frames.iter().copied().eq(frames[0]..frames[0] + 128) && frames[0] > 31 * 512);
    assert_sound(&mut kernel, free - 129);
}

/// A whole free block is a piece like others if no run may be taken without going below the
/// watermark.
#[test]
fn a_piece_in_advance_may_be_a_block() {
    for (left, expected) in [(512 + 383, 512), (512 + 384, 512), (385, 1), (384, 0)] {
        let mut kernel = with_free_blocks(&[3]);
        if left < 512 {
            kernel.core.memory.add_other(OtherUse::Kernel, 1, BLOCK_ORDER).unwrap();
        }
        leave_free(&mut kernel, left);
        assert_eq!(kernel.core.is_memory_short(), left == 384);
        let pages = if left < 512 { 1 } else { 700 };
        let (frames, _) = in_advance(&mut kernel, START..START + pages, true).unwrap();
        assert_eq!(frames.len(), expected, "{left}");
        if expected == 512 {
            assert!(frames.iter().copied().eq(3 * 512..4 * 512));
        }
        let table = u64::from(expected == 1);
        assert_sound(&mut kernel, left - expected as u64 - table);
    }
}

/// Pages from a region with generated holes on are left to their touches.
#[test]
fn what_is_fragmented_or_in_swap_is_not_backed_in_advance() {
    let mut kernel = advance_kernel(64 * MB, 0, Some("portion=30%,holes=25%,clustered"));
    let holed: Vec<u64> = (1..17).filter(|&region| kernel.core.is_fragmented(region)).collect();
    let (first, last) = (holed[1], holed[holed.len() - 1]);
    assert!(first > holed[0] + 1 && last < 16, "{holed:?}");
    let (frames, _) = in_advance(&mut kernel, first * 512 - 500..16 * 512, false).unwrap();
    assert_eq!(frames.len(), 500);
    for pages in [first * 512..first * 512 + 1, first * 512 + 511..(first + 3) * 512] {
        let (frames, _) = in_advance(&mut kernel, pages, false).unwrap();
        assert!(frames.is_empty());
    }
    let (frames, _) = in_advance(&mut kernel, (last + 1) * 512..17 * 512, false).unwrap();
    assert_eq!(frames.len() as u64, (16 - last) * 512);
    let mut kernel = advance_kernel(64 * MB, MB, None);
    touch(&mut kernel, SPACE, [START + 20]);
    kernel.core.make_room(16_384, None);
    assert_eq!(kernel.core.space(SPACE).unwrap().swapped_pages(1).count(), 1);
    for (pages, expected) in
        [(START..START + 21, 0), (START + 20..START + 40, 0), (START + 21..START + 40, 19)]
    {
        let (frames, _) = in_advance(&mut kernel, pages, false).unwrap();
        assert_eq!(frames.len(), expected);
    }
    let none = kernel.core.back_in_advance(SpaceId(9), START..START + 1, RW, false);
    assert_eq!(none, Err(OsError::UnknownSpace { space: SpaceId(9) }));
    kernel.core.ledger.send();
    kernel.check_invariants().unwrap();
}

/// 16 frames, of which 13 are taken in one piece of 16: the tables of the first region take the rest, and
/// there is none for the second.
#[test]
fn what_was_taken_in_advance_and_could_not_be_mapped_is_free_again() {
    let mut kernel = kernel_of(KernelConfig::new(16 * 4096), BasePages);
    map(&mut kernel, SPACE, START, 1024);
    let pages = 2 * START - 6..2 * START + 6;
    let error = kernel.core.back_in_advance(SPACE, pages.clone(), RW, false);
    assert!(matches!(error, Err(OsError::OutOfMemory { free_bytes: 0, .. })), "{error:?}");
    let found: Vec<bool> = pages.map(|page| frame(&kernel, SPACE, page).is_some()).collect();
    assert_eq!(found, [[true; 6], [false; 6]].concat());
    assert_sound(&mut kernel, 16 - 6 - 4);
}

/// Page cache that suffices is left to the next allocation; page cache that does not goes with pages
/// of programs.
#[test]
fn page_cache_is_dropped_when_programs_give_memory_too() {
    for (cached, swapped) in [(84, 0), (83, 512)] {
        let mut kernel = advance_kernel(64 * MB, 16 * MB, None);
        touch(&mut kernel, SPACE, START..START + 512);
        for _ in 0..cached {
            kernel.core.memory.add_other(OtherUse::PageCache, 1, 0).unwrap();
        }
        leave_free(&mut kernel, 320);
        kernel.core.relieve(None);
        assert_eq!(kernel.core.free_frames(), 320, "memory is not short yet");
        kernel.core.make_room(384 + 20, None);
        assert_eq!(kernel.core.ledger.done.pages_swapped_out, swapped, "{cached}");
        let left = kernel.core.memory.other_frames(OtherUse::PageCache);
        // Dropped up to the high watermark, then one region and all four tables.
        let (left_now, free) = match swapped {
            0 => (cached, 320),
            _ => (cached - 64, 384 + 516),
        };
        assert_eq!(left, left_now);
        assert_sound(&mut kernel, free);
    }
}

fn shadow_leaf(page: u64) -> ShadowLeaf {
    ShadowLeaf {
        space: SpaceId(4),
        page: VirtualPage::new(page),
        size: PageSize::Size4K,
        guest_frame: GuestFrame::new(5),
        frame: Frame::new(9),
        permissions: Permissions::READ,
        is_in_tables: false,
    }
}

/// A host of 64MB with swap, and a guest that has touched 2MB.
fn host() -> Hypervisor {
    let config = KernelConfig { swap: Size(16 * MB), ..KernelConfig::new(64 * MB) };
    let kernel = kernel_of(config, BasePages);
    let mut host = Hypervisor::new(kernel, &[Frame::new(0)..Frame::new(4096)]).unwrap();
    for page in 0..512 {
        host.fault(GuestFrame::new(page), AccessKind::Write).unwrap();
    }
    host.with_shadow_paging(super::TableFormat::default())
}

#[test]
fn shadow_tables_take_and_give_back_frames_of_the_host() {
    let mut host = host();
    let free = host.kernel().core.free_frames();
    host.shadow(&shadow_leaf(7)).unwrap();
    host.shadow(&shadow_leaf(8)).unwrap();
    host.shadow(&shadow_leaf(7 + 512)).unwrap();
    assert_eq!(host.shadow_tables().unwrap().tables(), 5);
    assert_sound(host.kernel_mut(), free - 5);
    let gone = |level, page| TableOperation::RemoveNode {
        space: SpaceId(4),
        level,
        page: VirtualPage::new(page),
        branch: 0,
    };
    host.guest_changed(&gone(1, 512));
    assert_sound(host.kernel_mut(), free - 4);
    host.guest_changed(&gone(3, 0));
    assert_eq!(host.shadow_tables().unwrap().tables(), 1);
    assert_sound(host.kernel_mut(), free - 1);
}

#[test]
fn shadow_tables_that_fit_stay_when_memory_runs_out() {
    for left in 0..=4 {
        let mut host = host();
        leave_free(host.kernel_mut(), left);
        let result = host.shadow(&shadow_leaf(7));
        if left < 4 {
            let (asked_bytes, free_bytes, memory_bytes) = (4096, 0, 64 * MB);
            let error =
                OsError::OutOfMemory { asked_bytes, free_bytes, memory_bytes, enough_bytes: 0 };
            let expected = host.kernel().core.with_estimate(error);
            assert!(matches!(expected, OsError::OutOfMemory { enough_bytes: 1.., .. }));
            assert_eq!(result, Err(expected));
        } else {
            assert_eq!(result, Ok(()));
        }
        assert_eq!(host.shadow_tables().unwrap().tables() as u64, left);
        assert_eq!(host.shadow_tables().unwrap().entries() as u64, left / 4);
        assert_sound(host.kernel_mut(), 0);
        host.make_room();
        assert_eq!(host.shadow(&shadow_leaf(7)), Ok(()));
        assert_eq!(host.shadow_tables().unwrap().tables(), 4);
        assert_sound(host.kernel_mut(), 516 - (4 - left));
    }
}

/// Reclaim begins below 320 free frames, and a region of 512 pages and their four tables are taken.
#[test]
fn a_host_makes_room_for_shadow_tables_when_memory_is_short() {
    for (left, taken) in [(320, 0), (319, 512)] {
        let mut host = host();
        leave_free(host.kernel_mut(), left);
        host.make_room();
        let kernel = host.kernel();
        assert_eq!(kernel.core.ledger.done.pages_swapped_out, taken);
        assert!(!kernel.core.ledger.is_waiting(), "all shootdowns are sent");
        assert_eq!(kernel.core.ledger.done.shootdown_batches, u64::from(taken > 0));
        let more = if taken > 0 { 516 } else { 0 };
        assert_sound(host.kernel_mut(), left + more);
    }
}
