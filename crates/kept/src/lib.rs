//! Comparison of test outputs with a file in git. An intended change renews the file, whose difference shows
//! what the change affects.

use std::fmt;
use std::path::Path;

/// FNV-1a hash over text, whose values never change with the version of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextHash(pub u64);

impl TextHash {
    /// Hash of a text.
    pub fn of(text: &str) -> Self {
        let mut hash = Self::default();
        hash.add(text);
        hash
    }

    fn add(&mut self, text: &str) {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

impl Default for TextHash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl fmt::Write for TextHash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add(text);
        Ok(())
    }
}

impl fmt::Display for TextHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Compares lines with those of a file. If `UPDATE_KEPT` is set in the environment, it writes the file
/// first.
///
/// # Panics
///
/// If a line differs, with the first five that do.
pub fn compare(path: impl AsRef<Path>, now: &str) {
    let path = path.as_ref();
    if std::env::var_os("UPDATE_KEPT").is_some() {
        std::fs::write(path, now).expect("the file can be written");
    }
    let before = std::fs::read_to_string(path).unwrap_or_default();
    let differs = before.lines().zip(now.lines()).filter(|(before, now)| before != now);
    let differs = differs.map(|(before, now)| format!("before: {before}\nnow:    {now}"));
    let differs: Vec<String> = differs.take(5).collect();
    assert!(
        before == now,
        "{} differs ({} lines, {} before); UPDATE_KEPT=1 keeps the new ones\n{}",
        path.display(),
        now.lines().count(),
        before.lines().count(),
        differs.join("\n")
    );
}
