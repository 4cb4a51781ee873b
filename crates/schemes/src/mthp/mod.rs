//! Multi-size THP: folios of 16KB to 1MB, mapped by 4KB entries (Linux since 6.8). The kernel's
//! half is in `os` (`kernel/folios.rs`), because folios go with 2MB pages and with any scheme
//! (option `mthp`). What a TLB gains by them is a property of the machine (`tlb.l2_coalescing`).

use perforate_config::ConfigError;
use perforate_os::{FolioSizes, Mthp, Policy};

use crate::pages::BASE_PAGES;
use crate::{PolicyOptions, Scheme};

/// Schemes with folios of one size, in ascending order of size.
pub(crate) const SCHEMES: &[&Scheme] = &[
    &sized::<2>("mthp-16k", "16KB folios (multi-size THP) where a block is free, else 4KB pages"),
    &sized::<3>("mthp-32k", "32KB folios where a block is free, else 4KB pages"),
    &sized::<4>("mthp-64k", "64KB folios where a block is free, else 4KB pages"),
    &sized::<5>("mthp-128k", "128KB folios where a block is free, else 4KB pages"),
    &sized::<6>("mthp-256k", "256KB folios where a block is free, else 4KB pages"),
    &sized::<7>("mthp-512k", "512KB folios where a block is free, else 4KB pages"),
    &sized::<8>("mthp-1m", "1MB folios where a block is free, else 4KB pages"),
];

/// Linux setting of the scheme called `name`; `None` if it is not one of these.
pub(crate) fn setting(name: &str) -> Option<String> {
    let order = SCHEMES.iter().zip(FolioSizes::ORDERS).find(|(scheme, _)| scheme.name == name)?.1;
    Some(format!("transparent_hugepage/hugepages-{}kB/enabled=always", 4 << order))
}

/// Scheme with folios of 2^`ORDER` pages in all areas.
const fn sized<const ORDER: u32>(name: &'static str, summary: &'static str) -> Scheme {
    let source = "Linux (6.8 and later) with this size's hugepages-SIZEkB/enabled=always";
    let policy = policy::<ORDER>;
    Scheme { name, summary, source, other_names: &[], colour: "folio", policy, ..BASE_PAGES }
}

fn policy<const ORDER: u32>(_: &PolicyOptions) -> Result<Box<dyn Policy>, ConfigError> {
    Ok(Box::new(Mthp { name: "mthp", sizes: FolioSizes::always(ORDER) }))
}
