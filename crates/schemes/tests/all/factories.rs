//! The hardware that schemes build for a kernel and a machine.

use perforate_mmu::{BitmapLoading, Mmu, MmuConfig, TlbGeometry, WalkCacheConfig};
use perforate_os::{FolioSizes, Kernel, KernelConfig, TableFormat};
use perforate_schemes::segment::EscapeFilterConfig;
use perforate_schemes::{Hardware, PolicyOptions, Scheme, all, hosts_only};
use perforate_types::{
    AccessKind, Action, Backing, Permissions, ProgramEvent, Purpose, Steps, VirtualAddress,
};

const PAGE: VirtualAddress = VirtualAddress::new(5 << 39 | 6 << 30 | 7 << 21);

/// Levels of page tables that the scheme's hardware reads for the one page of a program.
fn levels(scheme: &Scheme, five_levels: bool) -> Vec<Purpose> {
    let tables = TableFormat {
        five_levels,
        shadow_directories: scheme.shadow_directories,
        gap_tolerance: scheme.gap_tolerance,
        ..TableFormat::default()
    };
    let config = KernelConfig { tables, ..KernelConfig::new(64 << 20) };
    let policy = (scheme.policy)(&PolicyOptions::default()).expect(scheme.name);
    let mut kernel = Kernel::new(config, policy).expect("a kernel");
    let geometry = TlbGeometry { entries: 16, ways: 4 };
    let mut config = MmuConfig::plain(geometry, geometry);
    config.walk_cache = WalkCacheConfig::NONE;
    let escape_filter = EscapeFilterConfig::default();
    let dimension =
        (scheme.dimension)(&Hardware { scheme, kernel: &kernel, tlb: &config.tlb, escape_filter });
    let mut mmu = Mmu::new(&config, dimension).expect("a unit");
    let event = ProgramEvent::Map {
        start: PAGE,
        length: 4096,
        permissions: Permissions::READ_WRITE,
        accessible: true,
        backing: Backing::Anonymous,
        shared: false,
        populate: false,
    };
    kernel.event(&event).expect("room for a page");
    let space = kernel.current();
    mmu.switch(space);
    if kernel.fault(space, PAGE.page(), AccessKind::Read).is_ok() {
        kernel.updates().drain(..).for_each(|update| mmu.apply(&update));
    }
    let mut steps = Steps::new();
    mmu.translate(AccessKind::Read, PAGE, &mut steps).expect(scheme.name);
    let reads = steps.as_slice().iter().filter(|step| matches!(step.action, Action::Read { .. }));
    reads.map(|step| step.purpose).collect()
}

#[test]
fn tables_of_every_scheme_have_the_levels_of_its_kernel() {
    let mut walks = vec![Purpose::Level4, Purpose::Level3, Purpose::Level2, Purpose::Level1];
    for five_levels in [false, true] {
        for scheme in all().chain(hosts_only().filter(|scheme| !scheme.flat_table)) {
            if (scheme.policy)(&PolicyOptions::default()).is_err() {
                assert!(scheme.name.ends_with("scripted"), "{}", scheme.name);
                continue;
            }
            assert_eq!(levels(scheme, five_levels), walks, "{} {five_levels}", scheme.name);
        }
        walks.insert(0, Purpose::Level5);
    }
}

/// Each of these schemes has folios of the size in its name, whatever the advice.
#[test]
fn schemes_of_folios_have_the_size_in_their_name() {
    let sizes = ["16k", "32k", "64k", "128k", "256k", "512k", "1m"];
    for (size, order) in sizes.into_iter().zip(2..) {
        let name = format!("mthp-{size}");
        let scheme = all().find(|scheme| scheme.name == name).expect("it is listed");
        let policy = (scheme.policy)(&PolicyOptions::default()).expect("it has no options");
        let rules = policy.rules();
        let sizes: Vec<_> =
            rules.iter().filter_map(|rule| rule.downcast_ref::<FolioSizes>()).collect();
        assert_eq!(sizes, [&FolioSizes::always(order)], "{name}");
    }
}

/// Hardware of a scheme with perforated pages loads bitmap entries as the scheme says.
#[test]
fn bitmaps_are_loaded_as_the_scheme_says() {
    let mut loadings = Vec::new();
    for scheme in all().filter(|scheme| scheme.shadow_directories) {
        let Ok(policy) = (scheme.policy)(&PolicyOptions::default()) else { continue };
        let tables = TableFormat { shadow_directories: true, ..TableFormat::default() };
        let config = KernelConfig { tables, ..KernelConfig::new(64 << 20) };
        let kernel = Kernel::new(config, policy).expect("a kernel");
        let geometry = TlbGeometry { entries: 16, ways: 4 };
        let tlb = &MmuConfig::plain(geometry, geometry).tlb;
        let escape_filter = EscapeFilterConfig::default();
        let hardware = Hardware { scheme, kernel: &kernel, tlb, escape_filter };
        let dimension = (scheme.dimension)(&hardware);
        let loading = dimension.holes().expect("it has holes").bitmap_loading();
        assert_eq!(Some(loading), scheme.bitmap_loading, "{}", scheme.name);
        loadings.push(loading);
    }
    for loading in [BitmapLoading::Naive, BitmapLoading::OnDemand, BitmapLoading::Filtered] {
        assert!(loadings.contains(&loading), "{loading:?}");
    }
}
