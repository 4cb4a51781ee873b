//! Permissions, accessed and dirty bits, tags and faults of page tables, as the tests of KVM and of RISC-V
//! specify them.
//!
//! The program's tables have nodes of all levels around 1GB. A 4KB page, a 2MB page and a 1GB page lie at
//! fixed places. If nested, the host maps the guest's tables by one 2MB page and its data by 1GB pages.

use perforate_mmu::{
    CachedEntry, Coalescing, CoalescingForm, Dimension, Host, HostFault, Mmu, MmuConfig, Nested,
    PageFault, Radix, TlbGeometry, Translated,
};
use perforate_types::{
    AccessKind, Contiguity, Frame, GuestFrame, PageSize, PageTableEntry, Permissions, Shootdown,
    SpaceId, Steps, TableOperation, Update, VirtualPage,
};

use crate::table::{Row, check, differs, held, mended};

const SPACE: SpaceId = SpaceId(1);
const MACHINE: SpaceId = SpaceId(7);
const GIGABYTE: u64 = 1 << 18;
const KINDS: [AccessKind; 3] = [AccessKind::Read, AccessKind::Write, AccessKind::Fetch];
const SIZES: [PageSize; 3] = [PageSize::Size4K, PageSize::Size2M, PageSize::Size1G];
/// Page-table nodes of the program, from level 1 to level 4.
const NODES: [u64; 4] = [0x13, 0x12, 0x11, 0x10];
/// Distance from a guest frame to its machine frame.
const HOST: u64 = 16 * GIGABYTE;

/// First page of the tested page of this size.
fn page_of(size: PageSize) -> VirtualPage {
    VirtualPage::new(match size {
        PageSize::Size4K => GIGABYTE + 5,
        PageSize::Size2M => GIGABYTE + 512,
        PageSize::Size1G => 2 * GIGABYTE,
    })
}

/// First frame of the tested page of any size.
const FRAME: Frame = Frame::new(3 * GIGABYTE);

fn level_of(size: PageSize) -> usize {
    SIZES.iter().position(|&other| other == size).expect("a page size") + 1
}

/// An access to the tested page of a size, not at its beginning.
fn access(mmu: &mut Mmu, kind: AccessKind, size: PageSize) -> Result<Translated, PageFault> {
    translate(mmu, kind, page_of(size).add(size.pages() / 3))
}

fn translate(mmu: &mut Mmu, kind: AccessKind, page: VirtualPage) -> Result<Translated, PageFault> {
    mmu.translate(kind, page.address().add(0x123), &mut Steps::new())
}

fn add_node(mmu: &mut Mmu, space: SpaceId, level: u8, page: u64, frame: u64) {
    let (page, frame) = (VirtualPage::new(page), Frame::new(frame));
    let node = TableOperation::AddNode { space, level, page, frame, branch: 0 };
    apply(mmu, space, &node.into());
}

fn apply(mmu: &mut Mmu, space: SpaceId, update: &Update) {
    if space == MACHINE { mmu.apply_host(update) } else { mmu.apply(update) }
}

fn map(
    mmu: &mut Mmu,
    space: SpaceId,
    page: VirtualPage,
    size: PageSize,
    frame: Frame,
    permissions: Permissions,
) {
    apply(mmu, space, &TableOperation::Map { space, page, size, frame, permissions }.into());
}

/// An MMU whose program has nodes for all tested pages. If nested, the host allows its guest `host`.
fn unit(host: Option<Permissions>, change: impl Fn(&mut MmuConfig)) -> Mmu {
    let mut config =
        MmuConfig::plain(TlbGeometry { entries: 4, ways: 4 }, TlbGeometry { entries: 64, ways: 4 });
    change(&mut config);
    let own: Box<dyn Dimension> = Box::new(Radix::new());
    let dimension = match host {
        Some(_) => Box::new(Nested::new(own, Host::new(&config, Box::new(Radix::new()), MACHINE))),
        None => own,
    };
    let mut mmu = Mmu::new(&config, dimension).unwrap();
    mmu.switch(SPACE);
    for (level, page) in [(4, 0), (3, 0), (2, GIGABYTE), (1, GIGABYTE)] {
        add_node(&mut mmu, SPACE, level, page, NODES[usize::from(level) - 1]);
    }
    if let Some(permissions) = host {
        add_node(&mut mmu, MACHINE, 4, 0, 1 << 30);
        add_node(&mut mmu, MACHINE, 3, 0, (1 << 30) + 1);
        add_node(&mut mmu, MACHINE, 2, 0, (1 << 30) + 2);
        map(
            &mut mmu,
            MACHINE,
            VirtualPage::new(0),
            PageSize::Size2M,
            Frame::new(HOST),
            Permissions::ALL,
        );
        let data = VirtualPage::new(FRAME.number());
        map(&mut mmu, MACHINE, data, PageSize::Size1G, FRAME.add(HOST), permissions);
    }
    mmu
}

fn native() -> Mmu {
    unit(None, |_| {})
}

/// An MMU with the tested page of a size mapped.
fn mapped(host: Option<Permissions>, size: PageSize, permissions: Permissions) -> Mmu {
    let mut mmu = unit(host, |_| {});
    map(&mut mmu, SPACE, page_of(size), size, FRAME, permissions);
    mmu
}

/// Entry of `level` for a page in the program's own tables.
fn entry(mmu: &Mmu, level: usize, page: VirtualPage) -> PageTableEntry {
    let index = page.number() >> (9 * (level - 1)) & 511;
    let node = Frame::new(NODES[level - 1]).address();
    mmu.dimension().memory().entry(node.add(index * 8))
}

/// Entry of the host that maps the guest's data.
fn host_entry(mmu: &Mmu) -> PageTableEntry {
    let index = FRAME.number() / GIGABYTE;
    let node = Frame::new((1 << 30) + 1).address();
    let host = mmu.dimension().host().expect("it is nested");
    host.dimension().memory().entry(node.add(index * 8))
}

fn all_permissions() -> impl Iterator<Item = Permissions> {
    (0..8).map(|bits| Permissions {
        write: bits & 1 != 0,
        execute: bits & 2 != 0,
        user: bits & 4 != 0,
    })
}

/// Checks all combinations of a page's size and permissions, the kind of an access, and a load before it.
/// `after` checks the entries after an access: the MMU, the size, the kind, and whether it and the load
/// before it succeeded.
fn all(host: Option<Permissions>, after: fn(&Mmu, PageSize, AccessKind, [bool; 2])) -> usize {
    let mut tried = 0;
    for (size, permissions) in
        SIZES.into_iter().flat_map(|size| all_permissions().map(move |it| (size, it)))
    {
        for (kind, twice) in KINDS.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
            let mut mmu = mapped(host, size, permissions);
            let loaded = twice && access(&mut mmu, AccessKind::Read, size).is_ok();
            assert_eq!(loaded, twice && permissions.user);
            let result = access(&mut mmu, kind, size);
            let what = format!("{size:?} {permissions:?} {kind:?} {twice}");
            match permissions.allow(kind) {
                true => {
                    let frame = FRAME.add(size.pages() / 3 + if host.is_some() { HOST } else { 0 });
                    let physical = result.expect(&what).physical;
                    assert_eq!(physical, frame.address().add(0x123), "{what}");
                }
                false => assert_eq!(result.err(), Some(PageFault::Protection), "{what}"),
            }
            after(&mmu, size, kind, [permissions.allow(kind), loaded]);
            tried += 1;
        }
    }
    tried
}

/// Checks the marks on the path to the tested page after an access.
fn assert_marked(mmu: &Mmu, size: PageSize, kind: AccessKind, [succeeded, loaded]: [bool; 2]) {
    let (page, last) = (page_of(size), level_of(size));
    for level in last..=4 {
        let entry = entry(mmu, level, page);
        assert!(entry.is_accessed() || !(succeeded || loaded), "{size:?} {kind:?}: level {level}");
        let is_dirty = level == last && succeeded && kind == AccessKind::Write;
        assert_eq!(entry.is_dirty(), is_dirty, "{size:?} {kind:?}: level {level}");
    }
}

const ALL: Option<Permissions> = Some(Permissions::ALL);

fn access_rows() -> Vec<Row> {
    vec![
        held(
            "an access succeeds exactly if the page allows its kind: 144 combinations of size, \
             permissions, kind, and a load before",
            "kvm-unit-tests x86/access.c, ac_test_permissions",
            || {
                assert_eq!(all(None, |_, _, _, _| {}), 144);
            },
        ),
        held(
            "the same under a host that allows everything",
            "kvm-unit-tests x86/access.c, with nested paging",
            || {
                assert_eq!(all(ALL, |_, _, _, _| {}), 144);
            },
        ),
        held(
            "every entry on the path is marked accessed; only the leaf is marked dirty, by \
             stores that succeed",
            "kvm-unit-tests x86/access.c, ac_emulate_access",
            || {
                all(None, assert_marked);
            },
        ),
        held(
            "under a host, the guest's entries are marked the same, and the host's for data",
            "kvm-unit-tests x86/access.c, with nested paging",
            || {
                all(ALL, |mmu, size, kind, [succeeded, loaded]| {
                    assert_marked(mmu, size, kind, [succeeded, loaded]);
                    let host = host_entry(mmu);
                    assert!(host.is_accessed() || !(succeeded || loaded));
                    assert!(host.is_dirty() || !(succeeded && kind == AccessKind::Write));
                });
            },
        ),
        held(
            "a store after a load marks the page dirty, though a TLB holds the translation",
            "kvm-unit-tests x86/access.c, AC_ACCESS_TWICE",
            || {
                for (host, size) in
                    [None, ALL].into_iter().flat_map(|host| SIZES.map(|size| (host, size)))
                {
                    let mut mmu = mapped(host, size, Permissions::READ_WRITE);
                    access(&mut mmu, AccessKind::Read, size).unwrap();
                    assert!(!entry(&mmu, level_of(size), page_of(size)).is_dirty());
                    let walks = mmu.counters().walks;
                    access(&mut mmu, AccessKind::Write, size).unwrap();
                    assert!(entry(&mmu, level_of(size), page_of(size)).is_dirty());
                    assert!(size == PageSize::Size1G || mmu.counters().walks == walks);
                }
            },
        ),
        held(
            "an absent entry of any level is a fault of its own, whatever the kind of the access",
            "kvm-unit-tests x86/access.c, AC_PTE_PRESENT, AC_PDE_PRESENT",
            || {
                for page in [GIGABYTE + 5, GIGABYTE + 512, 2 * GIGABYTE, 512 * GIGABYTE] {
                    for kind in KINDS {
                        let fault = translate(&mut native(), kind, VirtualPage::new(page)).err();
                        assert_eq!(fault, Some(PageFault::NotMapped), "{page:#x}");
                    }
                }
            },
        ),
        differs(
            "a forbidden access leaves the accessed bit of the leaf clear",
            "kvm-unit-tests x86/access.c, ac_test_permissions",
            "the walk marks what it reads before the access is checked; no kernel here reads \
             accessed bits",
            || {
                let mut mmu = mapped(None, PageSize::Size4K, Permissions::READ);
                access(&mut mmu, AccessKind::Write, PageSize::Size4K).unwrap_err();
                assert!(entry(&mmu, 1, page_of(PageSize::Size4K)).is_accessed());
            },
        ),
        differs(
            "entries above the leaf restrict what the leaf allows",
            "kvm-unit-tests x86/access.c, AC_PDE_WRITABLE, AC_PDE_USER, AC_PDE_NX, \
             check_effective_sp_permissions",
            "Linux sets all permissions in the entries of tables for programs, and so do the \
             kernels here: the leaf decides",
            || {
                let mmu = mapped(None, PageSize::Size4K, Permissions::READ);
                for level in 2..=4 {
                    assert_eq!(
                        entry(&mmu, level, page_of(PageSize::Size4K)).permissions(),
                        Permissions::ALL
                    );
                }
            },
        ),
        differs(
            "reserved bits of an entry are a fault",
            "kvm-unit-tests x86/access.c, AC_PTE_BIT51, AC_PTE_BIT36, AC_PDE_BIT13",
            "the kernel writes no such entries; an address of 2³⁷ and more is an address as any \
             other",
            || {
                let mut mmu = native();
                let (page, frame) = (page_of(PageSize::Size4K), Frame::new(1 << 25));
                map(&mut mmu, SPACE, page, PageSize::Size4K, frame, Permissions::READ);
                let found = access(&mut mmu, AccessKind::Read, PageSize::Size4K).unwrap();
                assert_eq!(found.physical.page().number(), frame.number());
            },
        ),
        differs(
            "the supervisor may access user pages, as CR0.WP, SMEP and protection keys say",
            "kvm-unit-tests x86/access.c, AC_CPU_CR0_WP, AC_CPU_CR4_SMEP, AC_PKU_*",
            "all simulated accesses are those of programs in user mode",
            || {
                for kind in KINDS {
                    let kernel_page = Permissions { user: false, ..Permissions::ALL };
                    let mut mmu = mapped(None, PageSize::Size2M, kernel_page);
                    assert_eq!(
                        access(&mut mmu, kind, PageSize::Size2M).err(),
                        Some(PageFault::Protection)
                    );
                }
            },
        ),
        held(
            "two mappings of one 2MB of memory keep permissions of their own",
            "kvm-unit-tests x86/access.c, corrupt_hugepage_trigger",
            || {
                let (mut mmu, other) = two_mappings(Permissions::READ);
                assert!(access(&mut mmu, AccessKind::Read, PageSize::Size2M).is_ok());
                assert!(translate(&mut mmu, AccessKind::Write, other).is_ok());
                let refused = access(&mut mmu, AccessKind::Write, PageSize::Size2M).err();
                assert_eq!(refused, Some(PageFault::Protection));
            },
        ),
        held(
            "two mappings of one 2MB of memory keep dirty bits of their own",
            "kvm-unit-tests x86/access.c, check_large_pte_dirty_for_nowp",
            || {
                let (mut mmu, other) = two_mappings(Permissions::READ_WRITE);
                access(&mut mmu, AccessKind::Read, PageSize::Size2M).unwrap();
                translate(&mut mmu, AccessKind::Write, other).unwrap();
                let is_dirty = |mmu: &Mmu, page| entry(mmu, 2, page).is_dirty();
                assert!(!is_dirty(&mmu, page_of(PageSize::Size2M)) && is_dirty(&mmu, other));
                access(&mut mmu, AccessKind::Write, PageSize::Size2M).unwrap();
                assert!(is_dirty(&mmu, page_of(PageSize::Size2M)));
            },
        ),
        held(
            "a fault at a page says nothing about its neighbour in the same table",
            "kvm-unit-tests x86/access.c, check_pfec_on_prefetch_pte",
            || {
                let mut mmu = mapped(None, PageSize::Size4K, Permissions::ALL);
                let neighbour = page_of(PageSize::Size4K).add(2);
                map(&mut mmu, SPACE, neighbour, PageSize::Size4K, FRAME.add(9), Permissions::READ);
                assert!(access(&mut mmu, AccessKind::Fetch, PageSize::Size4K).is_ok());
                assert_eq!(
                    translate(&mut mmu, AccessKind::Fetch, neighbour).err(),
                    Some(PageFault::Protection)
                );
                assert!(translate(&mut mmu, AccessKind::Read, neighbour).is_ok());
            },
        ),
        held(
            "a forbidden access fills no TLB: once the entry allows it, it succeeds",
            "kvm-unit-tests x86/access.c, __ac_set_expected_status without invlpg",
            || {
                for size in SIZES {
                    let mut mmu = mapped(None, size, Permissions::READ);
                    access(&mut mmu, AccessKind::Write, size).unwrap_err();
                    let mut held = Vec::new();
                    mmu.inspect(&mut held);
                    assert!(
                        held.iter().all(|entry: &CachedEntry| entry.space != SPACE),
                        "{size:?}: {held:?}"
                    );
                    let (page, permissions) = (page_of(size), Permissions::READ_WRITE);
                    mmu.apply(
                        &TableOperation::Protect { space: SPACE, page, size, permissions }.into(),
                    );
                    assert!(access(&mut mmu, AccessKind::Write, size).is_ok());
                }
            },
        ),
        held(
            "what the host forbids is a fault of the host that names the guest's page, and what \
             both forbid one of the guest",
            "kvm-unit-tests x86/access.c, with nested paging",
            || {
                let host = Some(Permissions::READ);
                let mut mmu = mapped(host, PageSize::Size4K, Permissions::READ_WRITE);
                assert!(access(&mut mmu, AccessKind::Read, PageSize::Size4K).is_ok());
                let page = GuestFrame::new(FRAME.number());
                let fault = PageFault::Host(HostFault { page, kind: AccessKind::Write });
                assert_eq!(
                    translate(&mut mmu, AccessKind::Write, page_of(PageSize::Size4K)).err(),
                    Some(fault)
                );
                let mut mmu = mapped(host, PageSize::Size4K, Permissions::READ);
                assert_eq!(
                    access(&mut mmu, AccessKind::Write, PageSize::Size4K).err(),
                    Some(PageFault::Protection)
                );
            },
        ),
    ]
}

/// An MMU with two mappings of the same 2MB: the tested page with these permissions, and another 2MB page,
/// which may be written.
fn two_mappings(permissions: Permissions) -> (Mmu, VirtualPage) {
    let mut mmu = mapped(None, PageSize::Size2M, permissions);
    let other = page_of(PageSize::Size2M).add(512);
    map(&mut mmu, SPACE, other, PageSize::Size2M, FRAME, Permissions::READ_WRITE);
    (mmu, other)
}

#[test]
fn accesses_are_checked_as_kvm_tests_it() {
    check("Accesses: permissions, accessed and dirty bits", &access_rows());
}

/// An MMU with two address spaces that have one page at the same address, both in the TLBs.
fn two_spaces(other: SpaceId, tagged: bool) -> Mmu {
    let mut mmu = unit(None, |config| config.tlb.tagged = tagged);
    for (level, page) in [(4, 0), (3, 0), (2, GIGABYTE), (1, GIGABYTE)] {
        add_node(&mut mmu, other, level, page, NODES[usize::from(level) - 1] + 0x100);
    }
    for (space, frame) in [(SPACE, FRAME), (other, FRAME.add(77))] {
        map(&mut mmu, space, page_of(PageSize::Size4K), PageSize::Size4K, frame, Permissions::READ);
        let next = page_of(PageSize::Size4K).add(1);
        map(&mut mmu, space, next, PageSize::Size4K, frame.add(1), Permissions::READ);
    }
    assert_eq!([walks(&mut mmu, SPACE, 0), walks(&mut mmu, SPACE, 1)], [true; 2]);
    assert_eq!([walks(&mut mmu, other, 0), walks(&mut mmu, other, 1)], [true; 2]);
    mmu
}

/// True if a load from a page of a space needs a walk.
fn walks(mmu: &mut Mmu, space: SpaceId, index: u64) -> bool {
    mmu.switch(space);
    let found = translate(mmu, AccessKind::Read, page_of(PageSize::Size4K).add(index)).unwrap();
    let frame = if space == SPACE { FRAME } else { FRAME.add(77) };
    assert_eq!(found.physical.page().number(), frame.number() + index);
    found.walked
}

const OTHER: SpaceId = SpaceId(2);

#[test]
fn spaces_are_told_apart_as_kvm_tests_it() {
    check(
        "Address-space tags",
        &[
            held(
                "with tags, a switch keeps the entries of both address spaces",
                "kvm-unit-tests x86/pcid.c, test_pcid_enabled",
                || {
                    let mut mmu = two_spaces(OTHER, true);
                    assert!(
                        ![(SPACE, 0), (OTHER, 0), (SPACE, 1), (OTHER, 1)]
                            .map(|(space, index)| walks(&mut mmu, space, index))
                            .contains(&true)
                    );
                },
            ),
            held(
                "without tags, a switch flushes",
                "kvm-unit-tests x86/pcid.c, test_pcid_disabled",
                || {
                    let mut mmu = two_spaces(OTHER, false);
                    assert!(walks(&mut mmu, SPACE, 0) && walks(&mut mmu, OTHER, 0));
                },
            ),
            held(
                "an address of one space is invalidated alone",
                "kvm-unit-tests x86/pcid.c, INVPCID type 0",
                || {
                    let mut mmu = two_spaces(OTHER, true);
                    mmu.apply(
                        &Shootdown::Page { space: SPACE, page: page_of(PageSize::Size4K) }.into(),
                    );
                    assert_eq!(
                        [
                            walks(&mut mmu, OTHER, 0),
                            walks(&mut mmu, SPACE, 1),
                            walks(&mut mmu, SPACE, 0)
                        ],
                        [false, false, true]
                    );
                },
            ),
            held(
                "all of one space is invalidated, and nothing of the others",
                "kvm-unit-tests x86/pcid.c, INVPCID type 1",
                || {
                    let mut mmu = two_spaces(OTHER, true);
                    mmu.apply(&Shootdown::Space { space: SPACE }.into());
                    assert_eq!([walks(&mut mmu, OTHER, 0), walks(&mut mmu, OTHER, 1)], [false; 2]);
                    assert_eq!([walks(&mut mmu, SPACE, 0), walks(&mut mmu, SPACE, 1)], [true; 2]);
                },
            ),
            held("all spaces are invalidated", "kvm-unit-tests x86/pcid.c, INVPCID type 2", || {
                let mut mmu = two_spaces(OTHER, true);
                mmu.flush();
                assert_eq!([walks(&mut mmu, OTHER, 0), walks(&mut mmu, SPACE, 0)], [true; 2]);
            }),
            differs(
                "a tag has 12 bits, and may be set in CR3 only while CR4.PCIDE is",
                "kvm-unit-tests x86/pcid.c, test_pcid_enabled, test_invpcid_enabled",
                "every address space has a tag of its own for good, as if the kernel never ran \
                 out of them (Linux gives 6 to a processor in turn); control registers are not \
                 simulated",
                || {
                    let mut mmu = two_spaces(SpaceId(SPACE.0 + 4096), true);
                    assert!(!walks(&mut mmu, SPACE, 0));
                    assert!(!walks(&mut mmu, SpaceId(SPACE.0 + 4096), 0));
                },
            ),
        ],
    );
}

/// An MMU that coalesces blocks of 16 pages, with such a group of contiguous pages at the 4KB page
/// number `first` of 1GB.
fn group(first: u64, form: CoalescingForm) -> Mmu {
    let coalescing = Coalescing { pages: 16, form };
    let mut mmu = unit(None, |config| {
        config.tlb.l1_data_4k = TlbGeometry { entries: 1, ways: 1 };
        config.tlb.l2_coalescing = Some(coalescing);
    });
    for index in 0..16 {
        let page = VirtualPage::new(GIGABYTE + first + index);
        map(&mut mmu, SPACE, page, PageSize::Size4K, FRAME.add(index), Permissions::ALL);
    }
    mmu
}

#[test]
fn translations_are_as_riscv_tests_them() {
    check(
        "RISC-V: 64KB pages and two stages",
        &[
            held(
                "sixteen aligned pages are one TLB entry, and each keeps its own offset",
                "riscv-tests rv64ssvnapot/napot.S",
                || {
                    let mut mmu = group(16, CoalescingForm::Groups);
                    for index in (0..16).rev() {
                        let page = VirtualPage::new(GIGABYTE + 16 + index);
                        let found = translate(&mut mmu, AccessKind::Read, page).unwrap();
                        assert_eq!(found.physical, FRAME.add(index).address().add(0x123));
                        assert_eq!(found.walked, index == 15);
                    }
                    assert_eq!(mmu.l2_contents().coalesced, 1);
                },
            ),
            mended(
                "one entry of a table says that sixteen pages belong together",
                "riscv-tests rv64ssvnapot/napot.S",
                || {
                    let mut mmu = group(16, CoalescingForm::Napot);
                    let page = VirtualPage::new(GIGABYTE + 16);
                    let contiguity = Some(Contiguity::Napot);
                    let join = TableOperation::Join { space: SPACE, page, contiguity };
                    apply(&mut mmu, SPACE, &join.into());
                    for index in 0..16 {
                        let page = page.add(index);
                        assert_eq!(entry(&mmu, 1, page).frame(), FRAME.add(8));
                        let found = translate(&mut mmu, AccessKind::Read, page).unwrap();
                        assert_eq!(found.physical, FRAME.add(index).address().add(0x123));
                        assert_eq!(found.walked, index == 0);
                    }
                },
            ),
            held(
                "a guest's page at 2MB of its memory is found through tables in other pages of \
                 its memory",
                "riscv-tests hypervisor/2-stage_translation.S",
                || {
                    let mut mmu = two_stages(4);
                    let mut steps = Steps::new();
                    for kind in [AccessKind::Read, AccessKind::Write] {
                        let found =
                            mmu.translate(kind, VirtualPage::new(0).address(), &mut steps).unwrap();
                        assert_eq!(found.physical.page().number(), DATA);
                        if kind == AccessKind::Read {
                            let reads: u8 = steps.reads().iter().sum();
                            assert_eq!(
                                reads, 24,
                                "five walks of the host, and four entries of the guest"
                            );
                        }
                    }
                },
            ),
            held(
                "a table of the guest that the host does not map is a fault of the host at that \
                 table",
                "riscv-tests hypervisor/2-stage_translation_implicit_load_error.S",
                || {
                    for missing in 0..4 {
                        let fault = translate(
                            &mut two_stages(missing),
                            AccessKind::Read,
                            VirtualPage::new(0),
                        )
                        .err();
                        let Some(PageFault::Host(fault)) = fault else { panic!("{fault:?}") };
                        assert_eq!(fault.page.number(), missing);
                    }
                },
            ),
        ],
    );
}

/// Machine frame of the guest's page at 2MB of its memory.
const DATA: u64 = HOST + 12_345;

/// A guest whose four tables are pages 0 to 3 of its memory, all mapped by 4KB pages of the host except
/// `missing`. The guest's page 0 is page 512 of its memory.
fn two_stages(missing: u64) -> Mmu {
    let config =
        MmuConfig::plain(TlbGeometry { entries: 4, ways: 4 }, TlbGeometry { entries: 64, ways: 4 });
    let host = Host::new(&config, Box::new(Radix::new()), MACHINE);
    let mut mmu = Mmu::new(&config, Box::new(Nested::new(Box::new(Radix::new()), host))).unwrap();
    mmu.switch(SPACE);
    for (level, frame) in [(4, 0), (3, 1), (2, 2), (1, 3)] {
        add_node(&mut mmu, SPACE, level, 0, frame);
        add_node(&mut mmu, MACHINE, level, 0, (1 << 30) + u64::from(level));
    }
    add_node(&mut mmu, MACHINE, 1, 512, (1 << 30) + 9);
    let guest = VirtualPage::new(512);
    map(&mut mmu, SPACE, VirtualPage::new(0), PageSize::Size4K, Frame::new(512), Permissions::ALL);
    map(&mut mmu, MACHINE, guest, PageSize::Size4K, Frame::new(DATA), Permissions::ALL);
    for table in (0..4).filter(|&table| table != missing) {
        let frame = Frame::new(HOST + 3 * table);
        map(&mut mmu, MACHINE, VirtualPage::new(table), PageSize::Size4K, frame, Permissions::ALL);
    }
    mmu
}
