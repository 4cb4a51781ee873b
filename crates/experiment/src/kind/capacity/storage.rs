//! Sizes of page tables, availability vectors and additional translation hardware (G Table 1, §3.7, §3.8).

use perforate_config::{Count, Size};
use perforate_types::{GapTolerance, PageSize};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Design;
use crate::kind::case_study::named;
use crate::kind::{Measurement, Settings, Study};

/// Sizes of page tables (`4k`, `2m`, `1g`), and of the vectors and hardware of modes such as `gt-pde-4m`, in
/// closed form.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Storage {
    /// Memory that is mapped.
    size: Size,
    /// PDE-cache entries.
    pde_cache: Count<0, 1_000_000>,
}

impl Default for Storage {
    fn default() -> Self {
        Self { size: Size(1 << 30), pde_cache: Count::new(32) }
    }
}

impl Study for Storage {
    const NAME: &'static str = "storage";
    type Settings = Self;

    fn read(settings: &Settings) -> Result<Self, String> {
        settings.read()
    }

    fn check(&self, subject: &str) -> Result<(), String> {
        self.measure(subject, 0).map(|_| ())
    }

    fn measure(&self, subject: &str, _seed: u64) -> Result<Measurement, String> {
        let bytes = self.size.bytes();
        let page = match subject {
            "4k" => PageSize::Size4K,
            "2m" => PageSize::Size2M,
            "1g" => PageSize::Size1G,
            name => {
                let Some(mode) = Design::mode(name) else {
                    let expected = "expected 4k, 2m, 1g or a mode such as gt-pde-4m";
                    return Err(format!("{name:?}: {expected}"));
                };
                let hardware_bytes = translation_hardware_bytes(self.pde_cache.get());
                return Ok(named([
                    ("availability_bytes", availability_bytes(bytes, mode) as f64),
                    ("hardware_bytes", hardware_bytes as f64),
                ]));
            }
        };
        Ok(named([("leaf_table_bytes", leaf_table_bytes(bytes, page) as f64)]))
    }
}

/// Size of an ordinary page-table entry in bytes.
const ENTRY_BYTES: u64 = 8;
/// Size in bytes of GTPTCR, the control register of gap-tolerant page tables.
const REGISTER_BYTES: u64 = 8;
/// Number of bytes by which gap tolerance enlarges a PDE-cache entry: a bitmap of 64 bits, and seven prefix
/// sums of its bits of a byte each.
const SELECTION_BYTES: u64 = 8 + 7;

/// Returns the size in bytes of the leaf entries that map `footprint_bytes` with pages of one size. Upper
/// levels of the page table are excluded (G Table 1).
fn leaf_table_bytes(footprint_bytes: u64, page: PageSize) -> u64 {
    footprint_bytes.div_ceil(page.bytes()) * ENTRY_BYTES
}

/// Returns the size in bytes of the availability vectors, one of 64 bits for each slice of memory (G §3.8).
fn availability_bytes(memory_bytes: u64, mode: GapTolerance) -> u64 {
    memory_bytes.div_ceil(mode.slice_frames() * PageSize::Size4K.bytes()) * ENTRY_BYTES
}

/// Returns the size in bytes of additional hardware: GTPTCR, and the growth of the PDE cache (G §3.7).
fn translation_hardware_bytes(pde_cache_entries: u64) -> u64 {
    REGISTER_BYTES + pde_cache_entries * SELECTION_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: u64 = 1 << 10;
    const M: u64 = 1 << 20;
    const G: u64 = 1 << 30;

    /// Sizes of leaf page tables in G Table 1, for footprints of 1GB and 16GB.
    #[test]
    fn table_1() {
        let table = |page| [G, 16 * G].map(|footprint| leaf_table_bytes(footprint, page));
        assert_eq!(table(PageSize::Size4K), [2 * M, 32 * M]);
        assert_eq!(table(PageSize::Size2M), [4 * K, 64 * K]);
        assert_eq!(table(PageSize::Size1G), [8, 128]);
    }

    /// Claim G-C6: 128KB for 128GB with B-blocks of 128KB, twice that for B-blocks of half the
    /// size.
    #[test]
    fn availability_and_hardware() {
        let sizes = [GapTolerance::SINGLE_4M, GapTolerance::SINGLE_2M, GapTolerance::SINGLE_1M]
            .map(|mode| availability_bytes(128 * G, mode));
        assert_eq!(sizes, [128 * K, 256 * K, 512 * K]);
        assert_eq!(translation_hardware_bytes(32), 488);
    }

    #[test]
    fn subjects_are_pages_and_modes() {
        let measure = |subject| Storage::default().measure(subject, 1);
        let names = |subject| measure(subject).unwrap().into_keys().collect::<Vec<_>>();
        assert_eq!(names("2m"), ["leaf_table_bytes"]);
        assert_eq!(names("gt-pde-4m"), ["availability_bytes", "hardware_bytes"]);
        for name in ["8k", "4k+4k", "perforated"] {
            let problem = measure(name).unwrap_err();
            assert!(problem.starts_with(&format!("{name:?}: expected 4k, 2m, 1g")), "{problem}");
        }
    }
}
