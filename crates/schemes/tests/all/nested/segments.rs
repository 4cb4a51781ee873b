//! Direct segments at either level, and at both: references and checks of a walk (D Table II), the
//! four categories of addresses (D Table I), escaped pages, and cleared segments.

use super::tables::Paging::{Page2M, Pages4K, Perforated, Unmapped};
use super::tables::{
    BLOCK, DATA, FIRST, GUEST, MACHINE, Outcome, Paging, access, apply, apply_host, config,
    guest_changes, load, map, pair_with_segments, store, story,
};
use perforate_mmu::{Case, HostFault, Mmu, PageFault, Radix};
use perforate_schemes::segment::SegmentOperation;
use perforate_schemes::segment::{EscapeFilterConfig, Segmented};
use perforate_types::{
    AccessKind, Frame, GuestFrame, PageSize, Permissions, Shootdown, SpaceId, TableOperation,
    Update, VirtualPage,
};

/// References and checks of one walk.
type Cost = (u8, u8);

fn segment(space: SpaceId, first: u64, pages: u64, frame: u64) -> SegmentOperation {
    let (page, frame) = (VirtualPage::new(first), Frame::new(frame));
    SegmentOperation::Set { space, page, pages, frame, permissions: Permissions::READ_WRITE }
}

fn cold(mmu: &mut Mmu, index: u64) -> (Outcome, Cost) {
    mmu.flush();
    let (outcome, steps) = access(mmu, AccessKind::Read, index);
    (outcome, (steps.reads().iter().sum(), steps.checks()))
}

/// A machine in which both levels can have segments; none is set yet.
fn machine(guest: Paging<'_>, host: Paging<'_>) -> Mmu {
    pair_with_segments(&config(), (guest, host), (true, true), DATA, None)
}

/// A segment over the guest's half of the data: pages 0 to 255, mapped as in page tables.
fn guest_segment() -> SegmentOperation {
    segment(GUEST, FIRST, 256, DATA)
}

#[test]
fn unvirtualized_a_page_in_the_segment_takes_a_check_and_no_reference() {
    let config = config();
    let paging = Box::new(Segmented::new(Box::new(Radix::new()), EscapeFilterConfig::default()));
    let mut mmu = Mmu::new(&config, paging).unwrap();
    mmu.switch(GUEST);
    guest_changes(GUEST, Pages4K, DATA).into_iter().for_each(|change| apply(&mut mmu, change));
    assert_eq!(cold(&mut mmu, 5), (Ok((DATA + 5, Case::Regular, true)), (4, 0)));
    apply(&mut mmu, guest_segment());
    assert_eq!(cold(&mut mmu, 5), (Ok((DATA + 5, Case::Beside, false)), (0, 1)));
    assert_eq!(mmu.l2_contents().page_4k, 0, "only the first level is filled");
    assert_eq!(cold(&mut mmu, 255), (Ok((DATA + 255, Case::Beside, false)), (0, 1)));
    // LIMIT is the first page after the segment.
    assert_eq!(cold(&mut mmu, 256), (Ok((DATA + 256, Case::Regular, true)), (4, 0)));
}

/// D Table II: 24 references; 0 and 1 check; 4 and 5; 4 and 1.
#[test]
fn references_and_checks_of_each_mode() {
    // Page tables map the guest's tables and data to other frames than the host's segment, so that
    // the frame shows which of the two translated.
    let host_segment = segment(MACHINE, 0, 0x4000, 0x2_0000);
    for (in_guest, in_host, cost, frame, case, walked) in [
        (false, false, (24, 0), BLOCK + 5, Case::Regular, true),
        (true, true, (0, 1), 0x2_0000 + DATA + 5, Case::Beside, false),
        (false, true, (4, 5), 0x2_0000 + DATA + 5, Case::Regular, true),
        (true, false, (4, 1), BLOCK + 5, Case::Regular, true),
    ] {
        let mut mmu = machine(Pages4K, Pages4K);
        if in_guest {
            apply(&mut mmu, guest_segment());
        }
        if in_host {
            apply_host(&mut mmu, host_segment);
        }
        let (outcome, got) = cold(&mut mmu, 5);
        assert_eq!((outcome, got), (Ok((frame, case, walked)), cost), "{in_guest} {in_host}");
        // The second level holds the result of the walk.
        mmu.flush_first_level();
        let (outcome, steps) = access(&mut mmu, AccessKind::Read, 5);
        assert_eq!(outcome.map(|(frame, ..)| frame), Ok(frame));
        let expected = if in_guest && in_host { ["check"] } else { ["l2 hit"] };
        assert_eq!(story(&steps), expected);
    }
}

/// A guest's segment over cached guest-physical addresses takes checks, but no walk.
#[test]
fn checks_per_walk_are_those_of_walks() {
    let mut config = config();
    config.virtualization.nested_tlb = None;
    let pagings = (Pages4K, Page2M);
    let mut mmu = pair_with_segments(&config, pagings, (true, false), DATA, None);
    apply(&mut mmu, guest_segment());
    for index in 0..5 {
        load(&mut mmu, index).unwrap();
    }
    let counters = mmu.counters();
    // The reach is 4KB at best, as the segment begins and ends inside a 2MB page.
    assert_eq!((counters.l2_misses, counters.walks), (5, 1));
    assert_eq!((counters.segment_checks, counters.segment_checks_in_walks), (5, 1));
    let mut figures = perforate_types::Counters::default();
    mmu.counters().record(1000, &mut figures);
    mmu.record_sideband(&mut figures);
    assert_eq!(figures.get("segment_checks_per_walk"), Some(1.0));
}

/// D Table I: both segments are set; each address is in both, in one, or in none.
#[test]
fn the_four_categories_of_dual_direct_mode() {
    let mut mmu = machine(Pages4K, Pages4K);
    // The guest's segment has sub-pages 0 to 255, the host's has guest frames up to that of
    // sub-page 99. The guest's tables map sub-page 300 to guest frame 0x900, inside the host's
    // segment.
    apply(&mut mmu, guest_segment());
    apply_host(&mut mmu, segment(MACHINE, 0, DATA + 100, 0x2_0000));
    let (size, page) = (PageSize::Size4K, VirtualPage::new(FIRST + 300));
    apply(&mut mmu, TableOperation::Unmap { space: GUEST, page, size });
    apply(&mut mmu, map(GUEST, FIRST + 300, size, 0x900));
    for (index, frame, case, walked, cost) in [
        // In both segments.
        (99, 0x2_0000 + DATA + 99, Case::Beside, false, (0, 1)),
        // In the host's only: four tables and the page are each checked.
        (300, 0x2_0900, Case::Regular, true, (4, 5)),
        // In the guest's only: each side checks, and the host is walked.
        (100, BLOCK + 100, Case::Regular, true, (4, 2)),
        // In neither: the tables are in the host's segment, but the page is not.
        (256, BLOCK + 256, Case::Regular, true, (8, 5)),
    ] {
        let (outcome, got) = cold(&mut mmu, index);
        assert_eq!((outcome, got), (Ok((frame, case, walked)), cost), "{index}");
    }
    // Misses count for the segments that have the page, and each translation once.
    for index in [300, 100, 100, 99, 99, 99] {
        cold(&mut mmu, index).0.unwrap();
    }
    assert_eq!(misses(&mmu), [4.0, 4.0, 3.0, 2.0]);
    mmu.reset_counters();
    assert_eq!(misses(&mmu), [0.0; 4]);
}

/// First-level misses that segments translated, under both names, and misses in one segment only: the
/// guest's, the host's.
fn misses(mmu: &Mmu) -> [f64; 4] {
    let mut figures = perforate_types::Counters::default();
    mmu.record_sideband(&mut figures);
    let names = [
        "segment_translations",
        "misses_in_both_segments",
        "misses_in_guest_segment_only",
        "misses_in_host_segment_only",
    ];
    names.map(|id| figures.get(id).unwrap())
}

/// Only one side has segments. Every miss of its pages counts for this side.
#[test]
fn misses_in_the_segment_of_one_side() {
    for (in_guest, in_host) in [(true, false), (false, true)] {
        let pagings = (Pages4K, Pages4K);
        let mut mmu = pair_with_segments(&config(), pagings, (in_guest, in_host), DATA, None);
        match in_guest {
            true => apply(&mut mmu, guest_segment()),
            false => apply_host(&mut mmu, segment(MACHINE, DATA, 256, BLOCK)),
        }
        // Page 256 is in no segment.
        for index in [5, 6, 255, 256] {
            cold(&mut mmu, index).0.unwrap();
        }
        let expected = if in_guest { [0.0, 0.0, 3.0, 0.0] } else { [0.0, 0.0, 0.0, 3.0] };
        assert_eq!(misses(&mmu), expected);
        assert_eq!(mmu.dimension().sideband_tlb().unwrap().name(), "direct segment");
    }
}

#[test]
fn an_escaped_page_is_translated_by_paging() {
    for in_guest in [true, false] {
        let mut mmu = machine(Pages4K, Pages4K);
        apply(&mut mmu, guest_segment());
        apply_host(&mut mmu, segment(MACHINE, 0, 0x4000, 0x2_0000));
        assert_eq!(cold(&mut mmu, 5).0, Ok((0x2_0000 + DATA + 5, Case::Beside, false)));
        let (space, page, apply): (_, _, fn(&mut Mmu, Update)) =
            if in_guest { (GUEST, FIRST + 5, apply) } else { (MACHINE, DATA + 5, apply_host) };
        let page = VirtualPage::new(page);
        apply(&mut mmu, SegmentOperation::Escape { space, page }.into());
        let shootdown = Update::Shootdown(Shootdown::Page { space, page });
        if in_guest {
            mmu.apply(&shootdown)
        } else {
            mmu.apply_host(&shootdown)
        }
        let (outcome, cost) = cold(&mut mmu, 5);
        // The guest's tables map the same guest frame; the host's tables map another frame.
        let (frame, expected) =
            if in_guest { (0x2_0000 + DATA + 5, (4, 5)) } else { (BLOCK + 5, (4, 2)) };
        assert_eq!((outcome, cost), (Ok((frame, Case::Regular, true)), expected), "{in_guest}");
        assert_eq!(store(&mut mmu, 5), Ok(frame));
        // Without a page-table entry, a false positive faults until the page is mapped.
        let size = PageSize::Size4K;
        apply(&mut mmu, TableOperation::Unmap { space, page, size }.into());
        if in_guest {
            mmu.apply(&shootdown)
        } else {
            mmu.apply_host(&shootdown)
        }
        let fault = HostFault { page: GuestFrame::new(DATA + 5), kind: AccessKind::Read };
        let fault = if in_guest { PageFault::NotMapped } else { PageFault::Host(fault) };
        assert_eq!(load(&mut mmu, 5), Err(fault));
    }
}

#[test]
fn base_equal_to_limit_is_no_segment() {
    let mut mmu = machine(Pages4K, Pages4K);
    apply(&mut mmu, guest_segment());
    apply_host(&mut mmu, segment(MACHINE, 0, 0x4000, 0x2_0000));
    apply(&mut mmu, SegmentOperation::Clear { space: GUEST });
    assert_eq!(cold(&mut mmu, 5).1, (4, 5), "VMM Direct");
    apply_host(&mut mmu, SegmentOperation::Clear { space: MACHINE });
    assert_eq!(cold(&mut mmu, 5), (Ok((BLOCK + 5, Case::Regular, true)), (24, 0)));
}

#[test]
fn a_forbidden_store_is_attributed_to_the_segment() {
    let read_only = |space, first: u64, pages, frame: u64| SegmentOperation::Set {
        space,
        page: VirtualPage::new(first),
        pages,
        frame: Frame::new(frame),
        permissions: Permissions::READ,
    };
    let mut mmu = machine(Unmapped, Unmapped);
    apply(&mut mmu, read_only(GUEST, FIRST, 256, DATA));
    apply_host(&mut mmu, segment(MACHINE, 0, 0x4000, 0x2_0000));
    assert_eq!(load(&mut mmu, 5), Ok(0x2_0000 + DATA + 5));
    assert_eq!(store(&mut mmu, 5), Err(PageFault::Protection));
    let mut mmu = machine(Unmapped, Unmapped);
    apply(&mut mmu, guest_segment());
    apply_host(&mut mmu, read_only(MACHINE, DATA, 0x100, 0x2_0000));
    let fault = HostFault { page: GuestFrame::new(DATA + 5), kind: AccessKind::Write };
    assert_eq!(store(&mut mmu, 5), Err(PageFault::Host(fault)));
    assert_eq!(load(&mut mmu, 5), Ok(0x2_0005));
}

/// Pairs that are in no paper: perforated pages of the guest over the host's segment, and of the
/// host under the guest's segment.
#[test]
fn perforated_pages_beside_segments() {
    let mut mmu = machine(Perforated(&[1]), Unmapped);
    apply_host(&mut mmu, segment(MACHINE, 0, 0x4000, 0x2_0000));
    assert_eq!(load(&mut mmu, 5), Ok(0x2_1005));
    assert_eq!(mmu.l2_contents().perforated, 1, "the segment's 2MB with the guest's holes");
    // The bitmap and the hole's node are checked like any table; no entry of the host is read.
    let (outcome, steps) = access(&mut mmu, AccessKind::Read, 1);
    assert_eq!(outcome, Ok((0x2_2001, Case::BitmapHole, false)));
    assert!(story(&steps).iter().all(|word| !word.starts_with("Host")));
    // An escaped page of the guest's memory: only its 4KB need a walk.
    let page = VirtualPage::new(DATA + 100);
    apply_host(&mut mmu, SegmentOperation::Escape { space: MACHINE, page });
    mmu.apply_host(&Update::Shootdown(Shootdown::Space { space: MACHINE }));
    let fault = HostFault { page: GuestFrame::new(DATA + 100), kind: AccessKind::Read };
    assert_eq!(load(&mut mmu, 100), Err(PageFault::Host(fault)));
    assert_eq!(load(&mut mmu, 101), Ok(0x2_1065));
    assert_eq!(load(&mut mmu, 1), Ok(0x2_2001));

    let mut mmu = machine(Unmapped, Perforated(&[1]));
    apply(&mut mmu, segment(GUEST, FIRST, 512, DATA));
    assert_eq!(cold(&mut mmu, 100), (Ok((BLOCK + 100, Case::Filtered, true)), (3, 1)));
    assert_eq!(mmu.l2_contents().perforated, 1, "the segment's 2MB with the host's holes");
    assert_eq!(load(&mut mmu, 1), Ok(0x9001));
    assert_eq!(load(&mut mmu, 2), Ok(BLOCK + 2));
}
