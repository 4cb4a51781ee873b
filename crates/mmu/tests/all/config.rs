//! Limits of TLBs and walk caches with the messages of values beyond them, the text of machine files, and
//! the simulating computer's memory that a configuration needs.

use perforate_mmu::{
    BitmapUpdates, Coalescing, CoalescingForm, L2Part, MmuConfig, NestedEntries, ShadowReads,
    TlbConfig, TlbGeometry, WalkCacheConfig, Ways,
};
use perforate_types::PageSize;

const SMALL: TlbGeometry = TlbGeometry { entries: 16, ways: 4 };

fn plain() -> MmuConfig {
    MmuConfig::plain(SMALL, TlbGeometry { entries: 64, ways: 8 })
}

fn range(first: usize, last: usize) -> L2Part {
    L2Part::Ways(Ways::Range { first, last })
}

/// Puts a geometry in one place of the configuration.
type Put = fn(&mut MmuConfig, TlbGeometry);

/// Every place of a geometry, with the key that its message names.
const PLACES: [(&str, Put); 10] = [
    ("tlb.l1_data_4k", |config, geometry| config.tlb.l1_data_4k = geometry),
    ("tlb.l1_data_2m", |config, geometry| config.tlb.l1_data_2m = Some(geometry)),
    ("tlb.l1_data_1g", |config, geometry| config.tlb.l1_data_1g = Some(geometry)),
    ("tlb.l1_instruction_4k", |config, geometry| config.tlb.l1_instruction_4k = geometry),
    ("tlb.l1_instruction_2m", |config, geometry| config.tlb.l1_instruction_2m = Some(geometry)),
    ("tlb.l2", |config, geometry| config.tlb.l2 = geometry),
    ("tlb.l2_2m", |config, geometry| config.tlb.l2_2m = L2Part::Own(geometry)),
    ("tlb.l2_1g", |config, geometry| config.tlb.l2_1g = L2Part::Own(geometry)),
    ("tlb.gap_tolerant", |config, geometry| config.tlb.gap_tolerant = Some(geometry)),
    ("virtualization.nested_tlb", |config, geometry| {
        config.virtualization.nested_tlb = Some(geometry);
    }),
];

#[test]
fn every_tlb_has_at_most_16_million_entries_in_whole_sets() {
    const MOST: usize = 1 << 24;
    for (key, put) in PLACES {
        let checked = |entries, ways| {
            let mut config = plain();
            put(&mut config, TlbGeometry { entries, ways });
            config.validate().map_err(|error| error.to_string())
        };
        for (entries, ways) in [(1, 1), (12, 3), (MOST, 4), (MOST, MOST)] {
            assert_eq!(checked(entries, ways), Ok(()), "{key}: {entries} in {ways}");
        }
        for (entries, ways) in [(3, 2), (12, 4), (8, 16), (8, 0), (2 * MOST, 4), (MOST + 4, 4)] {
            let refused = format!(
                "{key}: {entries} entries in {ways} ways is no TLB; entries must be ways × a power \
                 of two"
            );
            assert_eq!(checked(entries, ways), Err(refused));
        }
        // A nested TLB without entries caches nothing. Any other TLB has entries.
        let is_nested = key == "virtualization.nested_tlb";
        assert_eq!([checked(0, 4), checked(0, 0)].map(|it| it.is_ok()), [is_nested; 2], "{key}");
    }
}

#[test]
fn refused_walk_caches_are_named() {
    for (section, put) in [
        ("walk_cache", (|config, caches| config.walk_cache = caches) as fn(&mut MmuConfig, _)),
        ("virtualization.host_walk_cache", |config, caches| {
            config.virtualization.host_walk_cache = Some(caches);
        }),
    ] {
        let refused = |caches: WalkCacheConfig| {
            let mut config = plain();
            put(&mut config, caches);
            config.validate().map(|()| String::new()).unwrap_or_else(|error| error.to_string())
        };
        let most = WalkCacheConfig::fully_associative(4096, 4096, 4096);
        assert_eq!(refused(most), "");
        for (caches, key) in [
            (WalkCacheConfig { level4_entries: 4097, ..most }, "level4_entries"),
            (WalkCacheConfig { level3_entries: 4097, ..most }, "level3_entries"),
            (WalkCacheConfig { level2_entries: 4097, ..most }, "level2_entries"),
        ] {
            let expected = format!("{section}.{key}: 4097 entries; at most 4096 are possible");
            assert_eq!(refused(caches), expected);
        }
        let odd = WalkCacheConfig { level3_entries: 12, level3_ways: Some(2), ..most };
        assert_eq!(
            refused(odd),
            format!(
                "{section}.level3_ways: 12 entries in 2 ways is no cache; level3_entries must be \
                 ways × a power of two"
            )
        );
    }
}

/// The second-level TLB has 8 ways.
#[test]
fn ways_of_each_page_size_are_those_of_the_array() {
    type Put = fn(&mut TlbConfig, Ways);
    let sizes: [(&str, Put); 3] = [
        ("tlb.l2_4k", |tlb, ways| tlb.l2_4k = ways),
        ("tlb.l2_2m", |tlb, ways| tlb.l2_2m = L2Part::Ways(ways)),
        ("tlb.l2_1g", |tlb, ways| tlb.l2_1g = L2Part::Ways(ways)),
    ];
    for (key, put) in sizes {
        let checked = |ways| {
            let mut config = plain();
            put(&mut config.tlb, ways);
            config.validate().map_err(|error| error.to_string())
        };
        for (first, last) in [(1, 1), (1, 8), (8, 8)] {
            assert_eq!(checked(Ways::Range { first, last }), Ok(()), "{key} {first}-{last}");
        }
        for (first, last) in [(0, 8), (1, 9), (9, 9), (5, 4)] {
            let expected = format!(
                "{key}: ways {first}-{last} of 8; expected ways from 1 to 8, such as \"1-8\""
            );
            assert_eq!(checked(Ways::Range { first, last }), Err(expected));
        }
        assert_eq!(checked(Ways::All), Ok(()));
        let none = "tlb.l2_4k: 4KB entries need one way at least; expected \"all\" or ways such as \
                    \"1-8\"";
        let expected = if key == "tlb.l2_4k" { Err(none.into()) } else { Ok(()) };
        assert_eq!(checked(Ways::None), expected, "{key}");
    }
}

#[test]
fn windows_have_2_to_32_pages_and_blocks_16() {
    use CoalescingForm::{AlignedGroups, ContiguousBit, Groups, Napot, Runs};
    let checked = |pages, form, l1_coalescing| {
        let mut config = plain();
        config.tlb.l2_coalescing = Some(Coalescing { pages, form });
        config.tlb.l1_coalescing = l1_coalescing;
        config.validate().map_err(|error| error.to_string())
    };
    for form in [Groups, AlignedGroups, Runs, ContiguousBit, Napot] {
        let is_block = form.contiguity().is_some();
        for pages in [0, 1, 2, 3, 4, 8, 16, 24, 32, 33, 64] {
            let possible: &[u64] = if is_block { &[16] } else { &[2, 4, 8, 16, 32] };
            let refused = format!(
                "tlb.l2_coalescing: windows of {pages} pages; a power of two from 2 to 32 is \
                 possible, and 16 with a contiguous bit or NAPOT entries"
            );
            let expected = if possible.contains(&pages) { Ok(()) } else { Err(refused) };
            assert_eq!(checked(pages, form, false), expected, "{form:?}");
        }
        let first_level = "tlb.l1_coalescing: the first level holds whole windows only; \
                           tlb.l2_coalescing must be there, with another form than \"runs\"";
        let expected = if form == Runs { Err(first_level.into()) } else { Ok(()) };
        assert_eq!(checked(16, form, true), expected, "{form:?}");
    }
}

#[test]
fn pages_of_each_size_have_the_entries_of_their_ways_or_array() {
    let sizes = [PageSize::Size4K, PageSize::Size2M, PageSize::Size1G];
    let entries = |l2_4k, l2_2m, l2_1g| {
        let tlb = TlbConfig { l2_4k, l2_2m, l2_1g, ..plain().tlb };
        (sizes.map(|size| tlb.l2_entries(size)), [l2_2m, l2_1g].map(|part| part.holds_pages()))
    };
    // 8 sets of 8 ways.
    let half = Ways::Range { first: 1, last: 4 };
    assert_eq!(entries(Ways::All, L2Part::ALL, L2Part::NONE), ([64, 64, 0], [true, false]));
    assert_eq!(entries(half, range(5, 8), range(8, 8)), ([32, 32, 8], [true; 2]));
    let own = L2Part::Own(TlbGeometry { entries: 12, ways: 3 });
    assert_eq!(entries(half, L2Part::NONE, own), ([32, 0, 12], [false, true]));
    assert_eq!((own.own(), own.ways()), (Some(TlbGeometry { entries: 12, ways: 3 }), Ways::None));
    assert_eq!((range(2, 3).own(), range(2, 3).ways()), (None, Ways::Range { first: 2, last: 3 }));
}

/// The keys of a `[tlb]` section that have no default.
const LEAST: &str = "tagged = true
l1_data_4k = { entries = 16, ways = 4 }
l1_instruction_4k = { entries = 16, ways = 4 }
l2 = { entries = 64, ways = 8 }
";

fn read(text: &str) -> Result<TlbConfig, String> {
    toml::from_str(text).map_err(|error| error.message().into())
}

#[test]
fn a_machine_file_leaves_out_what_has_a_default() {
    let least = read(LEAST).unwrap();
    assert_eq!(least, plain().tlb);
    assert_eq!((least.l2_4k, least.l2_2m, least.l2_1g), (Ways::All, L2Part::ALL, L2Part::NONE));
    assert_eq!((least.beside_entries, least.l1_coalescing), (32, false));
    assert_eq!(least.shadow_reads, ShadowReads::WhenNeeded);
    assert_eq!(least.bitmap_updates, BitmapUpdates::Invalidate);
    assert_eq!(NestedEntries::default(), NestedEntries::All);
    let written = toml::to_string(&least).unwrap();
    let keys: Vec<_> = written.lines().filter(|line| line.contains('=')).collect();
    assert_eq!(keys[..3], ["tagged = true", "l2_2m = \"all\"", "l2_1g = \"none\""], "{written}");
    assert_eq!(keys.len(), 3 + 2 * 3, "{written}");
    for key in ["tagged", "l1_data_4k", "l1_instruction_4k", "l2"] {
        let rest: Vec<_> =
            LEAST.lines().filter(|line| !line.starts_with(&format!("{key} "))).collect();
        assert_eq!(read(&rest.join("\n")), Err(format!("missing field `{key}`")));
    }
    assert!(read(&format!("{LEAST}l3 = 1")).unwrap_err().starts_with("unknown field `l3`"));
    let more = LEAST.replace("ways = 8", "ways = 8, sets = 8");
    assert!(read(&more).unwrap_err().starts_with("unknown field `sets`"));
}

/// Every key that a machine file may leave out, with a value that is not its default. What is written is
/// read again.
#[test]
fn every_key_of_a_machine_file_is_read_and_written() {
    let own = TlbGeometry { entries: 12, ways: 3 };
    type Change = fn(&mut TlbConfig, TlbGeometry);
    let keys: [(&str, Change); 17] = [
        ("l1_data_2m = { entries = 12, ways = 3 }", |tlb, own| tlb.l1_data_2m = Some(own)),
        ("l1_data_1g = { entries = 12, ways = 3 }", |tlb, own| tlb.l1_data_1g = Some(own)),
        ("l1_instruction_2m = { entries = 12, ways = 3 }", |tlb, own| {
            tlb.l1_instruction_2m = Some(own);
        }),
        ("l2_4k = \"1-4\"", |tlb, _| tlb.l2_4k = Ways::Range { first: 1, last: 4 }),
        ("l2_2m = \" 3 - 4 \"", |tlb, _| tlb.l2_2m = range(3, 4)),
        ("l2_2m = \"none\"", |tlb, _| tlb.l2_2m = L2Part::NONE),
        ("l2_2m = false", |tlb, _| tlb.l2_2m = L2Part::NONE),
        ("l2_2m = { entries = 12, ways = 3 }", |tlb, own| tlb.l2_2m = L2Part::Own(own)),
        ("l2_1g = true", |tlb, _| tlb.l2_1g = L2Part::ALL),
        ("l2_1g = \"5-8\"", |tlb, _| tlb.l2_1g = range(5, 8)),
        ("beside_entries = 33", |tlb, _| tlb.beside_entries = 33),
        ("beside_entries = 0", |tlb, _| tlb.beside_entries = 0),
        ("gap_tolerant = { entries = 12, ways = 3 }", |tlb, own| tlb.gap_tolerant = Some(own)),
        ("l2_coalescing = { pages = 4, form = \"aligned-groups\" }", |tlb, _| {
            let form = CoalescingForm::AlignedGroups;
            tlb.l2_coalescing = Some(Coalescing { pages: 4, form });
        }),
        ("l1_coalescing = true", |tlb, _| tlb.l1_coalescing = true),
        ("shadow_reads = \"with-directory-entry\"", |tlb, _| {
            tlb.shadow_reads = ShadowReads::WithDirectoryEntry;
        }),
        ("bitmap_updates = \"in-place\"", |tlb, _| tlb.bitmap_updates = BitmapUpdates::InPlace),
    ];
    for (line, change) in keys {
        let mut expected = plain().tlb;
        change(&mut expected, own);
        let found =
            read(&format!("{LEAST}{line}\n")).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(found, expected, "{line}");
        assert_ne!(found, plain().tlb, "{line}");
        let written = toml::to_string(&found).unwrap();
        assert_eq!(read(&written), Ok(expected), "{written}");
    }
}

#[test]
fn texts_that_name_no_ways_are_refused() {
    for text in ["", "8", "1-", "-8", "1-2-3", "1..8", "some", "All", "1-8x"] {
        let expected = format!(
            "{text:?} names no ways; expected \"all\", \"none\", or the first and the last, such as \
             \"1-8\""
        );
        for key in ["l2_4k", "l2_2m", "l2_1g"] {
            assert_eq!(read(&format!("{LEAST}{key} = {text:?}\n")), Err(expected.clone()), "{key}");
        }
    }
    // The message has the first 40 characters of a long text.
    let long = format!("1-{}", "é".repeat(50)).parse::<Ways>().unwrap_err().to_string();
    assert!(long.starts_with(&format!("\"1-{}\" names", "é".repeat(38))), "{long}");
    for (line, expected) in [
        ("l2_4k = 8", "expected ways such as \"1-8\", or \"all\""),
        ("l2_4k = true", "expected ways such as \"1-8\", or \"all\""),
        (
            "l2_2m = 8",
            "expected ways of tlb.l2 such as \"1-8\", \"all\" or \"none\", or an array of its own such \
             as { entries = 16, ways = 4 }",
        ),
        ("l2_2m = { entries = 16 }", "missing field `ways`"),
        ("l2_coalescing = { pages = 4, form = \"pairs\" }", "unknown variant `pairs`"),
        ("bitmap_updates = \"later\"", "unknown variant `later`"),
    ] {
        let error = read(&format!("{LEAST}{line}\n")).unwrap_err();
        assert!(error.contains(expected), "{line}: {error}");
    }
}

/// Sets of up to 16 ways take 16 slots of 16 bytes, and 24 bytes for tags and order. Larger sets take 32
/// bytes for each way, and 1,028 for lists.
#[test]
fn memory_of_the_simulating_computer() {
    let mut config = plain();
    let tlb = &mut config.tlb;
    tlb.beside_entries = 33;
    let least: [(&str, u64, u64); 4] = [
        ("tlb.l1_data_4k.entries", 16, 4 * 280),
        ("tlb.l1_instruction_4k.entries", 16, 4 * 280),
        ("tlb.l2.entries", 64, 8 * 280),
        ("tlb.beside_entries", 33, 33 * 32),
    ];
    assert_eq!(config.host_bytes(), least);
    let of = |sets, ways| TlbGeometry { entries: sets * ways, ways };
    let tlb = &mut config.tlb;
    (tlb.l1_data_4k, tlb.l1_data_2m, tlb.l1_data_1g) = (of(1, 1), Some(of(2, 2)), Some(of(1, 16)));
    (tlb.l1_instruction_4k, tlb.l1_instruction_2m) = (of(2, 3), Some(of(4, 3)));
    (tlb.l2, tlb.l2_2m, tlb.l2_1g) = (of(2, 17), L2Part::Own(of(1, 20)), L2Part::Own(of(8, 1)));
    tlb.gap_tolerant = Some(of(1, 100));
    config.virtualization.nested_tlb = Some(of(16, 1));
    assert_eq!(
        config.host_bytes(),
        [
            ("tlb.l1_data_4k.entries", 1, 280),
            ("tlb.l1_data_2m.entries", 4, 2 * 280),
            ("tlb.l1_data_1g.entries", 16, 280),
            ("tlb.l1_instruction_4k.entries", 6, 2 * 280),
            ("tlb.l1_instruction_2m.entries", 12, 4 * 280),
            ("tlb.l2.entries", 34, 2 * (17 * 32 + 1028)),
            ("tlb.l2_2m.entries", 20, 20 * 32 + 1028),
            ("tlb.l2_1g.entries", 8, 8 * 280),
            ("tlb.gap_tolerant.entries", 100, 100 * 32 + 1028),
            ("virtualization.nested_tlb.entries", 16, 16 * 280),
            ("tlb.beside_entries", 33, 33 * 32),
        ]
    );
    // Values that a file may have before they are checked, also the largest.
    config.virtualization.nested_tlb = Some(TlbGeometry { entries: 0, ways: 0 });
    assert_eq!(config.host_bytes()[9], ("virtualization.nested_tlb.entries", 0, 0));
    config.tlb.beside_entries = usize::MAX;
    config.tlb.l2 = of(1, usize::MAX);
    assert_eq!(config.host_bytes()[5], ("tlb.l2.entries", u64::MAX, u64::MAX));
    assert_eq!(config.host_bytes()[10], ("tlb.beside_entries", u64::MAX, u64::MAX));
}
