//! Folders for results: one for each run, or the one that the user names.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::Failure;

/// Where runs have folders of their own.
const ALL: &str = "results";
/// The results themselves.
const RESULTS: &str = "results.jsonl";
/// What leads to the last of them.
const LATEST: &str = "latest";
/// Characters of a folder's name behind its number.
const MOST_IN_NAME: usize = 40;

/// A folder for results, checked before long work begins: made if need be, and removed again if
/// it was made and nothing came to lie in it.
pub struct ResultFolder {
    path: PathBuf,
    made: bool,
    /// There were results in it.
    had_results: bool,
    /// It is one of many, and `results/latest` will lead to it.
    is_numbered: bool,
}

impl ResultFolder {
    /// The folder that the user names, else a new one in `results`, called after what is run.
    ///
    /// # Errors
    /// The folder cannot be made or written.
    pub fn of(named: Option<&Path>, what: &str) -> Result<Self, Failure> {
        named.map_or_else(|| Self::numbered(what), Self::prepare)
    }

    /// Makes the folder or finds that files can be written into it.
    ///
    /// # Errors
    /// The folder cannot be made or written.
    pub fn prepare(path: &Path) -> Result<Self, Failure> {
        let failed = |source| Failure::Write { path: path.into(), source };
        let made = !path.exists();
        if !made && !path.is_dir() {
            return Err(Failure::Usage(format!(
                "--out {}: a file of that name exists; expected a folder",
                path.display()
            )));
        }
        fs::create_dir_all(path).map_err(failed)?;
        let had_results = path.join(RESULTS).exists();
        let folder = Self { path: path.into(), made, had_results, is_numbered: false };
        tempfile::tempfile_in(path).map_err(failed)?;
        Ok(folder)
    }

    /// A folder with the next number that nobody has.
    fn numbered(what: &str) -> Result<Self, Failure> {
        let all = Path::new(ALL);
        let failed = |source| Failure::Write { path: all.into(), source };
        fs::create_dir_all(all).map_err(failed)?;
        let mut number = last_number(all).map_err(failed)? + 1;
        loop {
            let path = all.join(format!("{number:03}-{}", name(what)));
            match fs::create_dir(&path) {
                Ok(()) => {
                    return Ok(Self { path, made: true, had_results: false, is_numbered: true });
                }
                // Another run was quicker.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
                Err(source) => return Err(Failure::Write { path, source }),
            }
        }
    }

    /// Path of a file in the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Path of the results, and a word where it takes the place of others, as users read it.
    pub fn results_text(&self) -> String {
        let replaced = if self.had_results { " (replaced)" } else { "" };
        format!("{}{replaced}", self.file(RESULTS).display())
    }

    /// Path of a file that later runs go on with: beside the folders of all runs, or in the folder
    /// that the user named.
    pub fn kept_file(&self, name: &str) -> PathBuf {
        if self.is_numbered { Path::new(ALL).join(name) } else { self.file(name) }
    }

    /// Has `results/latest` lead here. Where there are no symbolic links, there is none.
    fn link(&self) -> Option<()> {
        let own = self.path.file_name()?;
        let temporary = Path::new(ALL).join(format!(".{LATEST}-{}", std::process::id()));
        #[cfg(unix)]
        std::os::unix::fs::symlink(own, &temporary).ok()?;
        // Replaces a link, and leaves alone a folder that somebody has called so.
        let moved = fs::rename(&temporary, Path::new(ALL).join(LATEST)).ok();
        if moved.is_none() {
            let _ = fs::remove_file(&temporary);
        }
        moved
    }
}

impl Drop for ResultFolder {
    fn drop(&mut self) {
        // Refused where there is something in it.
        let is_empty = self.made && fs::remove_dir(&self.path).is_ok();
        if is_empty {
            if self.is_numbered {
                let _ = fs::remove_dir(ALL);
            }
        } else if self.is_numbered {
            self.link();
        }
    }
}

/// The greatest number of a folder here; 0 without any.
fn last_number(all: &Path) -> std::io::Result<u64> {
    let mut last = 0;
    for entry in fs::read_dir(all)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.split('-').next()?.parse().ok());
        last = last.max(number.unwrap_or(0));
    }
    Ok(last)
}

/// What is run as a part of a folder's name: letters, digits, dots and hyphens.
fn name(what: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let kept: String = what.chars().map(keep).take(MOST_IN_NAME).collect();
    kept.trim_matches(['-', '.']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_is_run() {
        assert_eq!(name("compare random:size=1G,writes=0%"), "compare-random-size-1G-writes-0");
        assert_eq!(name("../../etc"), "etc");
        assert_eq!(name(&"x".repeat(200)).len(), MOST_IN_NAME);
    }

    #[test]
    fn numbers_go_on() {
        let all = tempfile::tempdir().unwrap();
        assert_eq!(last_number(all.path()).unwrap(), 0);
        for name in ["001-a", "012-compare-b", "latest", "old-7"] {
            fs::create_dir(all.path().join(name)).unwrap();
        }
        assert_eq!(last_number(all.path()).unwrap(), 12);
    }
}
