//! Settings of transparent huge pages: `/sys/kernel/mm/transparent_hugepage`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";

/// Readable settings of transparent huge pages: values by name, such as `enabled` and
/// `khugepaged/pages_to_scan`. If a file lists choices, the value is the chosen one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LargePageSettings(BTreeMap<String, String>);

impl LargePageSettings {
    /// Settings of transparent huge pages on this machine; empty if the kernel lacks such pages.
    pub fn now() -> Self {
        Self::read(Path::new(FOLDER))
    }

    /// Reads the settings from the files in `folder`, and from those in its folders `khugepaged` and
    /// `hugepages-…kB`.
    pub fn read(folder: &Path) -> Self {
        let mut values = BTreeMap::new();
        read_files(folder, "", &mut values);
        for path in entries(folder).filter(|path| path.is_dir()) {
            let name = name(&path);
            if name == "khugepaged" || name.starts_with("hugepages-") {
                read_files(&path, &format!("{name}/"), &mut values);
            }
        }
        Self(values)
    }

    /// Names and values of all settings, in order of name.
    pub fn all(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// Value of the setting called `name`; `None` if the kernel lacks it.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// Reads the files in `folder`, and stores their values under their names after `prefix`.
fn read_files(folder: &Path, prefix: &str, values: &mut BTreeMap<String, String>) {
    for path in entries(folder).filter(|path| path.is_file()) {
        if let Ok(text) = fs::read(&path) {
            values.insert(format!("{prefix}{}", name(&path)), value(&text));
        }
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn value(text: &[u8]) -> String {
    chosen(text).unwrap_or_else(|| {
        let text = String::from_utf8_lossy(text);
        text.lines().next().unwrap_or_default().trim().chars().take(80).collect()
    })
}

/// Selected word of a setting such as `always [madvise] never`; `None` if none is selected.
pub fn chosen(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let (_, rest) = text.split_once('[')?;
    let (chosen, _) = rest.split_once(']')?;
    let is_word = |c: char| c.is_ascii_alphanumeric() || "+_-".contains(c);
    (!chosen.is_empty() && chosen.chars().all(is_word)).then(|| chosen.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_is_in_brackets() {
        assert_eq!(chosen(b"always [madvise] never\n").as_deref(), Some("madvise"));
        assert_eq!(chosen(b"always defer [defer+madvise] never").as_deref(), Some("defer+madvise"));
        for wrong in [&b""[..], b"always", b"[]", b"]x[", b"[a b]", b"[\xff]", b"[always"] {
            assert_eq!(chosen(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_folder_of_settings() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &[u8]| fs::write(folder.path().join(name), text).unwrap();
        fs::create_dir(folder.path().join("khugepaged")).unwrap();
        fs::create_dir(folder.path().join("hugepages-64kB")).unwrap();
        write("enabled", b"always [madvise] never\n");
        write("hpage_pmd_size", b"2097152\n");
        write("khugepaged/pages_to_scan", b"4096\n");
        write("hugepages-64kB/enabled", b"always [inherit] madvise never\n");
        let settings = LargePageSettings::read(folder.path());
        assert_eq!(settings.get("enabled"), Some("madvise"));
        assert_eq!(settings.get("hpage_pmd_size"), Some("2097152"));
        assert_eq!(settings.get("khugepaged/pages_to_scan"), Some("4096"));
        assert_eq!(settings.get("hugepages-64kB/enabled"), Some("inherit"));
        assert_eq!(settings.all().len(), 4);
        assert_eq!(settings.get("defrag"), None);
        assert_eq!(LargePageSettings::read(Path::new("/nowhere")), LargePageSettings::default());
    }
}
