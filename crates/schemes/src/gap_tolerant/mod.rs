//! Gap-tolerant superpages (G), in the modes of G Table 3.
//!
//! - `kernel`: allocation of slices, and changes of superpages.
//! - `operation`: operations that the operating-system half sends to the hardware half.
//! - `policy`, `options`: conditions on slices.
//! - `dimension`: page tables with gap-tolerant entries: operations, and look-ups without hardware
//!   effects.
//! - `walk`: the page walk.
//! - `layout`: positions of entries in a page directory.
//! - `entry`: the 16 bytes of an entry.
//! - `native`: a TLB of gap-tolerant entries.
//! - `decode`: location of a B-block by prefix sums.

mod decode;
mod dimension;
mod entry;
mod error;
mod kernel;
mod layout;
mod native;
mod operation;
mod options;
mod policy;
mod walk;

use perforate_config::ConfigError;
use perforate_mmu::Dimension;
use perforate_os::Policy;
use perforate_types::{GapTolerance, registered};

use crate::pages::BASE_PAGES;
use crate::{Hardware, PolicyOptions, Scheme, with_changes};
pub use dimension::{GapTolerantRadix, Superpage};
pub use entry::{GapTolerantEntry, added_storage_bytes};
pub use error::SuperpageError;
pub use kernel::{ChunkPairing, SlicePair, availability_vectors, lowest_blocks};
pub use operation::SuperpageOperation;
pub use options::SuperpageOptions;
pub use policy::{GapTolerant, SuperpageRule};

/// Schemes with gap-tolerant superpages: with one superpage in each page-directory entry, with
/// pairs in an entry, with TLB entries for whole superpages, and with superpage sizes by process.
pub(crate) const SCHEMES: &[&Scheme] =
    &[&SINGLE_4M, &SINGLE_2M, &SINGLE_1M, &PAIRED_4M, &PAIRED_2M, &NATIVE_4M, &PER_PROCESS];

/// Builds page tables with gap-tolerant entries and 4KB pages.
fn gap_tolerant_radix(hardware: &Hardware<'_>) -> Box<dyn Dimension> {
    let mode = hardware.kernel.tables().gap_tolerance.expect("the scheme has gap-tolerant entries");
    Box::new(GapTolerantRadix::new(mode).with_five_levels(hardware.kernel.tables().five_levels))
}

/// Builds page tables with gap-tolerant entries, and a TLB of such entries that is looked up in
/// parallel with the second-level TLB.
fn with_native_tlb(hardware: &Hardware<'_>) -> Box<dyn Dimension> {
    let mode = hardware.kernel.tables().gap_tolerance.expect("the scheme has gap-tolerant entries");
    let geometry = hardware.tlb.gap_tolerant.unwrap_or(hardware.tlb.l2);
    let tables = GapTolerantRadix::with_native_tlb(mode, geometry);
    Box::new(tables.with_five_levels(hardware.kernel.tables().five_levels))
}

fn gap_tolerant(
    options: &PolicyOptions,
    own: SuperpageOptions,
) -> Result<Box<dyn Policy>, ConfigError> {
    with_changes("superpages", options.superpages.as_ref(), own, GapTolerant::new)
}

/// Scheme of 4MB superpages in B-blocks of 128KB. A page directory takes 4KB, as without
/// superpages.
const SINGLE_4M: Scheme = Scheme {
    name: "gt-pde-4m",
    summary: "gap-tolerant superpages of 4MB in B-blocks of 128KB, 4KB pages elsewhere",
    source: "G §3.3, Table 3: GT-PDE-4MB",
    other_names: &["128K"],
    colour: "gt-pde-4m",
    counters: || registered(kernel::SUPERPAGES),
    gap_tolerance: Some(GapTolerance::SINGLE_4M),
    policy: |options| gap_tolerant(options, SuperpageOptions::DEFAULT),
    dimension: gap_tolerant_radix,
    ..BASE_PAGES
};

/// Scheme of 2MB superpages in B-blocks of 64KB. A page directory takes 8KB.
const SINGLE_2M: Scheme = Scheme {
    name: "gt-pde-2m",
    summary: "gap-tolerant superpages of 2MB in B-blocks of 64KB, 4KB pages elsewhere",
    source: "G §3.4, Table 3: GT-PDE-2MB",
    other_names: &["64K"],
    colour: "gt-pde-2m",
    gap_tolerance: Some(GapTolerance::SINGLE_2M),
    ..SINGLE_4M
};

/// Scheme of 1MB superpages in B-blocks of 32KB. A page directory takes 16KB.
const SINGLE_1M: Scheme = Scheme {
    name: "gt-pde-1m",
    summary: "gap-tolerant superpages of 1MB in B-blocks of 32KB, 4KB pages elsewhere",
    source: "G §3.4, Table 3: GT-PDE-1MB",
    other_names: &["32K"],
    colour: "gt-pde-1m",
    gap_tolerance: Some(GapTolerance::SINGLE_1M),
    ..SINGLE_4M
};

/// Scheme with pairs of 2MB superpages in one entry. A page directory takes 4KB, as without
/// superpages.
const PAIRED_4M: Scheme = Scheme {
    name: "p-gt-pde-4m",
    summary: "two gap-tolerant superpages of 2MB in one entry, B-blocks of 64KB",
    source: "G §3.6, Table 3: P-GT-PDE-4MB",
    other_names: &[],
    colour: "p-gt-pde-4m",
    gap_tolerance: Some(GapTolerance::PAIRED_4M),
    ..SINGLE_4M
};

/// Scheme with pairs of 1MB superpages in one entry. A page directory takes 8KB.
const PAIRED_2M: Scheme = Scheme {
    name: "p-gt-pde-2m",
    summary: "two gap-tolerant superpages of 1MB in one entry, B-blocks of 32KB",
    source: "G §3.6, Table 3: P-GT-PDE-2MB",
    other_names: &[],
    colour: "p-gt-pde-2m",
    gap_tolerance: Some(GapTolerance::PAIRED_2M),
    ..SINGLE_4M
};

/// Scheme of 4MB superpages with a TLB entry for each whole superpage.
const NATIVE_4M: Scheme = Scheme {
    name: "gt-pde-4m-native",
    summary: "as gt-pde-4m, with a TLB of gap-tolerant entries beside the L2 TLB",
    source: "G §3.7: native TLB support, named as an alternative",
    other_names: &[],
    colour: "gt-pde-native",
    counters: || [registered(kernel::SUPERPAGES), registered(native::NATIVE_TLB)].concat(),
    dimension: with_native_tlb,
    ..SINGLE_4M
};

/// Scheme with single entries, in which the operating system chooses the superpage size of each
/// process.
const PER_PROCESS: Scheme = Scheme {
    name: "gt-pde-process",
    summary: "gap-tolerant superpages; each process has the largest B-blocks that memory suits",
    source: "G §3.8: block size per process, availability at several granularities",
    other_names: &[],
    colour: "gt-pde-process",
    policy: |options| {
        gap_tolerant(options, SuperpageOptions { per_process: true, ..SuperpageOptions::DEFAULT })
    },
    ..SINGLE_4M
};
