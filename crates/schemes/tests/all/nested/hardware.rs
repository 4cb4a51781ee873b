//! Loading policies of bitmaps, updates of cached bitmaps, the register with the location of the guest's
//! bitmaps, and small second-level TLBs, for a guest over a host.

use perforate_mmu::{
    BitmapLoading, BitmapUpdates, CachedContent, CachedEntry, Case, Dimension, Host, L2Part, Mmu,
    MmuConfig, Nested, PageFault, Radix, RegisteredRun, allow,
};
use perforate_schemes::perforated::{PerforatedOperation, PerforatedRadix};
use perforate_types::{
    AccessKind, Frame, GuestFrame, PageRun, PageSize, Permissions, PhysicalAddress, Purpose,
    Shootdown, SpaceId, TableOperation, Truth, Unit, VirtualPage,
};

use super::tables::Paging::{self, Page2M, Pages4K, Perforated};
use super::tables::{
    DATA, FIRST, GUEST, MACHINE, access, apply, apply_host, config, guest_changes, host_changes,
    load, pair, pair_at, pair_with_segments, store, story,
};

/// A configuration that caches guest-physical addresses in the second-level TLB.
fn shared() -> MmuConfig {
    let mut config = config();
    config.virtualization.nested_tlb = None;
    config
}

fn with_holes(bitmaps: u64, loading: BitmapLoading) -> Box<dyn Dimension> {
    Box::new(PerforatedRadix::new(PhysicalAddress::new(bitmaps), loading))
}

fn over(config: &MmuConfig, guest: Box<dyn Dimension>, host: Box<dyn Dimension>) -> Mmu {
    let nested = Nested::new(guest, Host::new(config, host, MACHINE));
    let mut mmu = Mmu::new(config, Box::new(nested)).unwrap();
    mmu.switch(GUEST);
    mmu
}

fn set_up(mmu: &mut Mmu, guest: Paging<'_>, host: Paging<'_>) {
    guest_changes(GUEST, guest, DATA).into_iter().for_each(|change| apply(mmu, change));
    host_changes(host, DATA).into_iter().for_each(|change| apply_host(mmu, change));
}

/// Bitmap entries that the second level holds after loads of sub-pages 5 and 300 of a guest's page over 4KB
/// host pages. Only 256KB region 0 has a hole.
#[test]
fn intermediate_entries_load_bitmaps_as_the_variant_says() {
    use BitmapLoading::{Filtered, Naive, OnDemand};
    for (loading, guest, expected) in [
        (Filtered, Perforated(&[1]), [1, 1]),
        (OnDemand, Perforated(&[1]), [1, 2]),
        (Naive, Perforated(&[1]), [16, 16]),
        (Filtered, Page2M, [0, 0]),
        (OnDemand, Page2M, [0, 0]),
        (Naive, Page2M, [0, 0]),
    ] {
        let mut config = shared();
        config.virtualization.intermediate_entries = true;
        let mut mmu = over(&config, with_holes(0x80_0000, loading), Box::new(Radix::new()));
        set_up(&mut mmu, guest, Pages4K);
        let bitmaps = [5, 300].map(|index| {
            load(&mut mmu, index).unwrap();
            mmu.l2_contents().bitmap
        });
        assert_eq!(
            (bitmaps, mmu.l2_contents().intermediate),
            (expected, 1),
            "{loading:?} {guest:?}"
        );
    }
}

/// Reads of the host's bitmap for guests' pages of 4KB over a host's 2MB page with and without holes.
#[test]
fn a_host_page_without_holes_needs_no_bitmap() {
    use BitmapLoading::{Filtered, OnDemand};
    for (loading, host, expected) in [
        (Filtered, Perforated(&[1]), [1, 0]),
        (OnDemand, Perforated(&[1]), [1, 1]),
        (Filtered, Page2M, [0, 0]),
        (OnDemand, Page2M, [0, 0]),
    ] {
        let mut mmu = over(&config(), Box::new(Radix::new()), with_holes(0x100_0000, loading));
        set_up(&mut mmu, Pages4K, host);
        let reads = [5, 300].map(|index| {
            let (outcome, steps) = access(&mut mmu, AccessKind::Read, index);
            outcome.unwrap();
            steps.reads()[Purpose::HostBitmap as usize]
        });
        assert_eq!(reads, expected, "{loading:?} {host:?}");
    }
}

/// A guest's kernel may rewrite cached bitmap entries unless they also have holes of the host.
#[test]
fn a_bitmap_with_holes_of_the_host_is_not_rewritten() {
    let hosts: [(Paging<'_>, u64, Case); 2] =
        [(Page2M, 1, Case::BitmapInPlace), (Perforated(&[7]), 0, Case::ReadInPlace)];
    for (host, updates, case) in hosts {
        let mut config = config();
        config.tlb.bitmap_updates = BitmapUpdates::InPlace;
        let mut mmu = pair_at(&config, Perforated(&[1]), host, DATA);
        load(&mut mmu, 2).unwrap();
        let (space, page) = (GUEST, VirtualPage::new(FIRST + 3));
        apply(&mut mmu, PerforatedOperation::Punch { space, page });
        mmu.apply(&Shootdown::Bitmap { space, page }.into());
        assert_eq!(mmu.counters().bitmap_updates, updates, "{host:?}");
        assert_eq!(access(&mut mmu, AccessKind::Read, 4).0.unwrap().1, case, "{host:?}");
        assert!(load(&mut mmu, 3).is_err(), "a hole without a frame");
    }
}

/// The register has guest frames 0x800 to 0x80f. It loses them if the host unmaps one of them.
#[test]
fn a_moved_page_of_the_run_clears_the_register() {
    for (space, first, pages, is_moved) in [
        (MACHINE, 0x7f0, 16, false),
        (MACHINE, 0x7f0, 17, true),
        (MACHINE, 0x80f, 1, true),
        (MACHINE, 0x810, 16, false),
        (MACHINE, 0, 0x4000, true),
        (SpaceId(5), 0x800, 16, false),
    ] {
        let run =
            RegisteredRun { first: GuestFrame::new(0x800), pages: 16, located: Frame::new(0x7800) };
        let pagings = (Perforated(&[1]), Page2M);
        let mut mmu = pair_with_segments(&config(), pagings, (false, false), DATA, Some(run));
        assert!(!mmu.take_moved_run());
        let run = PageRun::new(space, VirtualPage::new(first), pages);
        mmu.apply_host(&Truth::Unmap { run }.into());
        let case = format!("{pages} pages from {first:#x} of {space:?}");
        assert_eq!([mmu.take_moved_run(), mmu.take_moved_run()], [is_moved, false], "{case}");
        // A read of the guest's bitmap takes no host walk while the register has its place.
        let (outcome, steps) = access(&mut mmu, AccessKind::Read, 2);
        outcome.unwrap();
        assert_eq!(steps.reads()[Purpose::Bitmap as usize], 1);
        let walks = 4 + 1 + u8::from(is_moved);
        assert_eq!(steps.reads()[Purpose::HostLevel3 as usize], walks - 1, "{case}");
    }
}

/// Without ways for 2MB, the second level holds a host's perforated page in no form: a part of it would
/// need the bitmap. A part of an ordinary 2MB page is held as a 4KB entry.
#[test]
fn parts_of_pages_with_holes_are_not_cached() {
    let hosts: [(Paging<'_>, u64); 2] = [(Perforated(&[1]), 4), (Page2M, 5)];
    for (host, nested) in hosts {
        let mut config = shared();
        config.tlb.l2_2m = L2Part::NONE;
        let mut mmu = pair_at(&config, Pages4K, host, DATA);
        load(&mut mmu, 100).unwrap();
        let contents = mmu.l2_contents();
        // The guest's four tables are in 4KB pages of the host.
        assert_eq!((contents.nested, contents.page_4k), (nested, 1), "{host:?}");
    }
}

#[test]
fn parts_are_found_on_both_sides_of_their_own_type_alone() {
    let mut mmu = pair(Perforated(&[1]), Page2M);
    let dimension = mmu.dimension_mut();
    assert!(dimension.part::<Nested>().is_some() && dimension.part_mut::<Nested>().is_some());
    assert!(dimension.part::<PerforatedRadix>().is_some(), "the guest's");
    assert!(dimension.part_mut::<PerforatedRadix>().is_some());
    assert!(dimension.part::<Radix>().is_none() && dimension.part_mut::<Radix>().is_none());
    let host = mmu.dimension().host().unwrap().dimension();
    assert!(host.part::<Radix>().is_some() && host.part::<Nested>().is_none());
}

/// A load leaves a clean entry of guest-physical addresses. A store by this entry marks it dirty.
#[test]
fn a_store_by_a_cached_guest_physical_entry_marks_it_dirty() {
    let mut mmu = pair_at(&shared(), Pages4K, Pages4K, DATA);
    let allows = |mmu: &Mmu| {
        let mut entries = Vec::new();
        mmu.inspect(&mut entries);
        let own = |entry: &&CachedEntry| {
            entry.is_guest_physical && entry.first.number() == DATA + 5 && entry.unit == Unit::L2Tlb
        };
        let entry = entries.iter().find(own).expect("the second level holds the page");
        match entry.content {
            CachedContent::Page { allows, .. } => allows & (allow::WRITE | allow::DIRTY),
            _ => unreachable!("it is an entry of a page"),
        }
    };
    load(&mut mmu, 5).unwrap();
    assert_eq!(allows(&mmu), allow::WRITE);
    mmu.flush_first_level();
    mmu.evict_page(GUEST, VirtualPage::new(FIRST + 5));
    store(&mut mmu, 5).unwrap();
    assert_eq!(allows(&mmu), allow::WRITE | allow::DIRTY);
}

/// The first page of 4KB over a host's perforated page misses the cached bitmap, the second hits it.
#[test]
fn look_ups_of_the_hosts_bitmap_are_steps() {
    let mut mmu = pair_at(&shared(), Pages4K, Perforated(&[1]), DATA);
    for (index, expected) in [(5, "host bitmap l2 miss"), (6, "host bitmap l2 hit")] {
        let (outcome, steps) = access(&mut mmu, AccessKind::Read, index);
        outcome.unwrap();
        let words = story(&steps);
        let bitmap: Vec<_> = words.iter().filter(|word| word.contains("bitmap l2")).collect();
        assert_eq!(bitmap, [expected]);
    }
}

/// The second level has no ways for 2MB, so that the page is walked to although its bitmap is cached. The walk
/// to the hole then knows the guest's frames.
#[test]
fn a_walk_whose_bitmap_is_cached_finds_the_guests_leaf_once() {
    let mut config = config();
    config.tlb.l2_2m = L2Part::NONE;
    let mut mmu = pair_at(&config, Perforated(&[1]), Page2M, DATA);
    load(&mut mmu, 2).unwrap();
    let (outcome, steps) = access(&mut mmu, AccessKind::Read, 1);
    assert_eq!(outcome.map(|(_, case, walked)| (case, walked)), Ok((Case::BitmapHole, true)));
    let reads = |purpose| steps.reads()[purpose as usize];
    assert_eq!([reads(Purpose::Level2), reads(Purpose::Shadow), reads(Purpose::Hole)], [1; 3]);
}

/// Sub-page 7 is a hole of the host, in a region where the guest has one. A store needs the permission of both.
#[test]
fn a_hole_of_the_host_has_the_permissions_of_the_guests_page() {
    for (permissions, expected) in
        [(Permissions::READ_WRITE, Ok(0x9007)), (Permissions::READ, Err(PageFault::Protection))]
    {
        let mut mmu = pair(Perforated(&[1]), Perforated(&[7]));
        let (space, page, size) = (GUEST, VirtualPage::new(FIRST), PageSize::Size2M);
        apply(&mut mmu, TableOperation::Protect { space, page, size, permissions });
        assert_eq!(load(&mut mmu, 7), Ok(0x9007));
        assert_eq!(store(&mut mmu, 7), expected);
    }
}
