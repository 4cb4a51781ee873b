//! Storage of tables and registers (G Table 1, §3.7, §3.8).

use perforate_config::{Count, Key, Size, keys};
use perforate_types::{GapTolerance, PageSize};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::capacity::{Design, availability_bytes, leaf_table_bytes, translation_hardware_bytes};
use crate::kind::{Kind, Measurement, Settings};

/// Bytes of tables and hardware.
pub struct Storage;

#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct StorageSettings {
    /// Memory that is mapped.
    size: Size,
    /// PDE-cache entries.
    pde_cache: Count<0, 1_000_000>,
}

impl Default for StorageSettings {
    fn default() -> Self {
        Self { size: Size(1 << 30), pde_cache: Count::new(32) }
    }
}

const PAGES: [(&str, PageSize); 3] =
    [("4k", PageSize::Size4K), ("2m", PageSize::Size2M), ("1g", PageSize::Size1G)];

/// A page size or a mode of gap-tolerant superpages.
fn subject_of(name: &str) -> Result<(Option<PageSize>, Option<GapTolerance>), String> {
    if let Some((_, page)) = PAGES.iter().find(|(known, _)| *known == name) {
        return Ok((Some(*page), None));
    }
    match Design::mode(name) {
        Some(mode) => Ok((None, Some(mode))),
        None => Err(format!("{name:?}: expected 4k, 2m, 1g or a mode such as gt-pde-4m")),
    }
}

impl Kind for Storage {
    fn name(&self) -> &'static str {
        "storage"
    }

    fn summary(&self) -> &'static str {
        "closed forms of sizes: leaf_table_bytes of pages; availability_bytes, hardware_bytes of GTSM"
    }

    fn subjects(&self) -> &'static str {
        "4k, 2m, 1g, or modes such as gt-pde-4m"
    }

    fn settings(&self) -> Vec<Key> {
        keys::<StorageSettings>()
    }

    fn check(&self, settings: &Settings, subject: &str) -> Result<(), String> {
        self.measure(settings, &[subject.to_owned()], 0, &mut |_| {}).map(|_| ())
    }

    fn measure(
        &self,
        settings: &Settings,
        subjects: &[String],
        _seed: u64,
        _progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String> {
        let StorageSettings { size, pde_cache } = settings.read()?;
        let bytes = size.bytes();
        let hardware_bytes = translation_hardware_bytes(pde_cache.get()) as f64;
        let measure = |subject: &String| {
            let (page, mode) = subject_of(subject)?;
            let mut figures = Measurement::new();
            if let Some(page) = page {
                let leaf_bytes = leaf_table_bytes(bytes, page) as f64;
                figures.insert("leaf_table_bytes".into(), leaf_bytes);
            }
            if let Some(mode) = mode {
                let vectors = availability_bytes(bytes, mode) as f64;
                figures.insert("availability_bytes".into(), vectors);
                figures.insert("hardware_bytes".into(), hardware_bytes);
            }
            Ok(figures)
        };
        subjects.iter().map(measure).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_pages_and_modes() {
        assert_eq!(subject_of("2m"), Ok((Some(PageSize::Size2M), None)));
        let (page, mode) = subject_of("gt-pde-4m").unwrap();
        assert!(page.is_none() && mode.is_some());
        for name in ["8k", "4k+4k", "perforated"] {
            let problem = subject_of(name).unwrap_err();
            assert!(problem.starts_with(&format!("{name:?}: expected 4k, 2m, 1g")), "{problem}");
        }
    }
}
