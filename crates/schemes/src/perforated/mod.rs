//! Perforated pages (P), in the three TLB variants of §IV.C and with other policies.
//!
//! - `kernel`: punching, patching, and other changes of a page.
//! - `operation`: operations that the operating-system half sends to the hardware half.
//! - `policy`, `options`: selection of blocks, and allocation of frames for holes.
//! - `dimension`: page tables with perforated pages.
//! - `holes`: walks to holes, and reads of bitmaps.

mod dimension;
mod holes;
mod kernel;
mod operation;
mod options;
mod policy;

use perforate_config::ConfigError;
use perforate_mmu::{BitmapLoading, Dimension};
use perforate_os::{HoleAllocation, Policy};

use crate::pages::BASE_PAGES;
use crate::{Hardware, PolicyOptions, Scheme, with_changes};
pub use dimension::{PerforatedPage, PerforatedRadix};
pub(crate) use kernel::PerforatedPages;
pub use operation::{HOLE_BRANCH, PerforatedOperation};
pub use options::{BlockCreation, PerforationOptions};
pub use policy::Perforated;

/// Schemes with perforated pages, with the proposal last.
pub(crate) const SCHEMES: &[&Scheme] =
    &[&NAIVE, &ON_DEMAND, &SELECTIVE, &LAZY, &RESERVE, &PERFORATED];

/// Builds page tables with hole bitmaps and shadow directories, whose entries point to the mappings
/// of holes (P §IV.B).
fn perforated_radix(hardware: &Hardware<'_>) -> Box<dyn Dimension> {
    let bitmaps = hardware.kernel.hole_bitmap().expect("the kernel reserved hole bitmaps");
    let loading = hardware.scheme.bitmap_loading.expect("the scheme says how bitmaps are loaded");
    let tables =
        PerforatedRadix::new(bitmaps, loading).with_shadow_reads(hardware.tlb.shadow_reads);
    Box::new(tables.with_five_levels(hardware.kernel.tables().five_levels))
}

/// Builds the policy from the scheme's options `own`, overridden by `options`. If memory is
/// fragmented by a simulated history of use, only blocks that P §III.C selects are perforated,
/// because a page that is mostly holes costs more TLB entries than it saves.
fn perforated(
    options: &PolicyOptions,
    own: PerforationOptions,
) -> Result<Box<dyn Policy>, ConfigError> {
    let own = if options.has_aged_blocks { own.selective() } else { own };
    with_changes("perforation", options.perforation.as_ref(), own, Perforated::new)
}

/// Scheme that the paper proposes: bitmap entries are loaded on demand, if the filter requires
/// them. With fragmentation generated before the run, every fragmented block becomes a perforated
/// page, as in the paper's evaluation (P §VII.B).
pub(crate) const PERFORATED: Scheme = Scheme {
    name: "perforated",
    summary: "perforated 2MB pages: filter and bitmap entries on demand (the proposal)",
    source: "P §IV",
    other_names: &[],
    colour: "perforated",
    shadow_directories: true,
    bitmap_loading: Some(BitmapLoading::Filtered),
    policy: |options| perforated(options, PerforationOptions::DEFAULT),
    dimension: perforated_radix,
    ..BASE_PAGES
};

/// Variant of `perforated` that loads all 16 bitmap entries together with the page.
const NAIVE: Scheme = Scheme {
    name: "perforated-naive",
    summary: "perforated pages, all 16 bitmap entries loaded with the page, no filter",
    source: "P §IV.C, Fig. 3 top",
    bitmap_loading: Some(BitmapLoading::Naive),
    ..PERFORATED
};

/// Variant of `perforated` that loads bitmap entries on demand, without the filter.
const ON_DEMAND: Scheme = Scheme {
    name: "perforated-on-demand",
    summary: "perforated pages, bitmap entries on demand, no filter",
    source: "P §IV.C, Fig. 3 middle",
    bitmap_loading: Some(BitmapLoading::OnDemand),
    ..PERFORATED
};

/// Variant of `perforated` that maps only blocks with less than 25 % holes in at most 4 of 8
/// regions (P §III.C).
const SELECTIVE: Scheme = Scheme {
    name: "perforated-selective",
    summary: "perforated pages where < 25 % are holes in at most 4 of 8 regions",
    source: "P §III.C",
    policy: |options| perforated(options, PerforationOptions::SELECTIVE),
    ..PERFORATED
};

/// Variant of `perforated` that allocates the frame of a hole at its first touch (P §VI).
const LAZY: Scheme = Scheme {
    name: "perforated-lazy",
    summary: "perforated pages whose holes get a frame at the first touch",
    source: "P §VI",
    policy: |options| {
        let holes = HoleAllocation::Lazy;
        perforated(options, PerforationOptions { holes, ..PerforationOptions::DEFAULT })
    },
    ..PERFORATED
};

/// Variant of `perforated` that reserves blocks whole and maps sub-pages at their first touch. It
/// avoids bloat but needs more shootdowns (P §VI).
const RESERVE: Scheme = Scheme {
    name: "perforated-reserve",
    summary: "perforated pages that reserve a block and map what is touched (no bloat)",
    source: "P §VI",
    policy: |options| {
        let create = BlockCreation::Reserve;
        perforated(options, PerforationOptions { create, ..PerforationOptions::DEFAULT })
    },
    ..PERFORATED
};
