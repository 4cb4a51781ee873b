//! Folders for results: one for each run, or the one that the user names.
//!
//! Nothing is made before there is something to write, so that a run that fails or is interrupted leaves
//! nothing. A new folder is filled under another name; into a folder that is there, all files are written
//! before the first of them takes its name.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::Failure;

/// Folder of the numbered folders.
const ALL: &str = "results";
/// File of the results themselves.
const RESULTS: &str = "results.jsonl";
/// Link to the last numbered folder.
const LATEST: &str = "latest";
/// Characters of a folder's name behind its number.
const MOST_IN_NAME: usize = 40;

/// A folder for results, which was found before long work began to be one that can be written.
pub struct ResultFolder(Place);

enum Place {
    /// Folder that the user names.
    Named(PathBuf),
    /// The next number in `results`, with this name behind it.
    Numbered(String),
}

/// Files that belong to a result, by their names in the folder, and their contents.
pub type Files = Vec<(String, String)>;

/// Location of written results, displayed as a message.
pub struct Written {
    path: PathBuf,
    /// The results took the place of others.
    is_replaced: bool,
    /// True if `results/latest` is a file of the user and was left alone.
    is_latest_kept: bool,
}

impl ResultFolder {
    /// The folder that the user names, else a new one in `results`, called after what is run.
    ///
    /// # Errors
    /// The folder cannot be made or written.
    pub fn of(named: Option<&Path>, what: &str) -> Result<Self, Failure> {
        if let Some(path) = named {
            return Self::named(path);
        }
        check(Path::new(ALL))?;
        Ok(Self(Place::Numbered(name(what))))
    }

    /// The folder in `results` for a part of what is run, with which later runs of this part go on.
    ///
    /// # Errors
    /// The folder cannot be made or written.
    pub fn of_part(what: &str, index: usize, count: usize) -> Result<Self, Failure> {
        Self::named(&Path::new(ALL).join(format!("{}-part-{index}-of-{count}", name(what))))
    }

    /// The folder that the user names with `--out`.
    ///
    /// # Errors
    /// The folder cannot be made or written.
    pub fn named(path: &Path) -> Result<Self, Failure> {
        if !path.is_dir() && path.symlink_metadata().is_ok() {
            let what =
                if path.exists() { "a file of that name exists" } else { "a link to nothing" };
            let path = path.display();
            return Err(Failure::Usage(format!("--out {path}: {what}; expected a folder")));
        }
        check(path)?;
        Ok(Self(Place::Named(path.into())))
    }

    /// Writes all files, or none if one of the files fails.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, files: &Files) -> Result<Written, Failure> {
        match &self.0 {
            Place::Named(path) => {
                let is_replaced = path.join(RESULTS).exists();
                if path.exists() || !write_new(path, files)? {
                    write_into(path, files)?;
                }
                Ok(Written { path: path.clone(), is_replaced, is_latest_kept: false })
            }
            Place::Numbered(name) => {
                let all = Path::new(ALL);
                let failed = |source| Failure::Write { path: all.into(), source };
                fs::create_dir_all(all).map_err(failed)?;
                let mut number = last_number(all).map_err(failed)? + 1;
                let numbered = |number| all.join(format!("{number:03}-{name}"));
                // Another run may be quicker.
                while !write_new(&numbered(number), files)? {
                    number += 1;
                }
                let path = numbered(number);
                let is_latest_kept = !link(all, &path);
                Ok(Written { path, is_replaced: false, is_latest_kept })
            }
        }
    }

    /// Path of a file that later runs go on with, in a folder that is made now: beside the folders of all
    /// runs, or in the folder that the user named.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn kept_file(&self, name: &str) -> Result<PathBuf, Failure> {
        let folder = match &self.0 {
            Place::Named(path) => path,
            Place::Numbered(_) => Path::new(ALL),
        };
        fs::create_dir_all(folder)
            .map_err(|source| Failure::Write { path: folder.into(), source })?;
        Ok(folder.join(name))
    }
}

impl Written {
    /// Path of a file in the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl fmt::Display for Written {
    /// Path of the results, and what became of others.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file(RESULTS).display())?;
        if self.is_replaced {
            f.write_str(" (replaced)")?;
        }
        if self.is_latest_kept {
            write!(f, " ({ALL}/{LATEST} is no link, and was left alone)")?;
        }
        Ok(())
    }
}

/// Finds that files can be written into a folder, or into the one that it will be made in.
fn check(path: &Path) -> Result<(), Failure> {
    let is_there = |folder: &&Path| folder.as_os_str().is_empty() || folder.exists();
    let there = path.ancestors().find(is_there).filter(|folder| !folder.as_os_str().is_empty());
    tempfile::tempfile_in(there.unwrap_or(Path::new(".")))
        .map_err(|source| Failure::Write { path: path.into(), source })?;
    Ok(())
}

/// Makes a folder with these files in it; false if there is one of that name with something in it.
fn write_new(path: &Path, files: &Files) -> Result<bool, Failure> {
    let failed = |source| Failure::Write { path: path.into(), source };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(path.file_name().unwrap_or_default());
    hidden.push(format!(".{}.partial", std::process::id()));
    let partial = path.with_file_name(hidden);
    fs::create_dir(&partial).map_err(failed)?;
    let written = write_into(&partial, files).and_then(|()| match fs::rename(&partial, path) {
        Ok(()) => Ok(true),
        Err(error) if is_taken(&error) => Ok(false),
        Err(source) => Err(failed(source)),
    });
    if !matches!(written, Ok(true)) {
        let _ = fs::remove_dir_all(&partial); // the first error is the one to tell
    }
    written.map_err(|failure| match failure {
        Failure::Write { path: own, source } => {
            let name = own.strip_prefix(&partial).map_or(own.clone(), |name| path.join(name));
            Failure::Write { path: name, source }
        }
        other => other,
    })
}

/// True of the error of renaming a folder to a name that is taken.
fn is_taken(error: &io::Error) -> bool {
    use ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotADirectory};
    matches!(error.kind(), AlreadyExists | DirectoryNotEmpty | NotADirectory)
}

/// Writes all files into a folder that is there, or none.
fn write_into(folder: &Path, files: &Files) -> Result<(), Failure> {
    let paths: Vec<(PathBuf, &str)> =
        files.iter().map(|(name, text)| (folder.join(name), text.as_str())).collect();
    for (path, _) in &paths {
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent)
            .map_err(|source| Failure::Write { path: parent.into(), source })?;
    }
    perforate_config::write_texts(&paths)
        .map_err(|(number, source)| Failure::Write { path: paths[number].0.clone(), source })
}

/// Makes `latest` lead to a folder; false where it is no link, but something of the user's. Where there
/// are no symbolic links, there is none.
fn link(all: &Path, folder: &Path) -> bool {
    let latest = all.join(LATEST);
    if latest.symlink_metadata().is_ok_and(|facts| !facts.is_symlink()) {
        return false;
    }
    let temporary = all.join(format!(".{LATEST}-{}", std::process::id()));
    #[cfg(unix)]
    if let Some(own) = folder.file_name()
        && std::os::unix::fs::symlink(own, &temporary).is_ok()
        && fs::rename(&temporary, latest).is_err()
    {
        let _ = fs::remove_file(&temporary);
    }
    true
}

/// The greatest number of a folder here; 0 without any.
fn last_number(all: &Path) -> io::Result<u64> {
    let mut last = 0;
    for entry in fs::read_dir(all)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.split('-').next()?.parse().ok());
        last = last.max(number.unwrap_or(0));
    }
    Ok(last)
}

/// The folder's name for what is run: letters, digits, dots and hyphens.
fn name(what: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let kept: String = what.chars().map(keep).take(MOST_IN_NAME).collect();
    kept.trim_matches(['-', '.']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(contents: &[&str]) -> Files {
        let names = [RESULTS, "report.html", "figures/a.svg"];
        names
            .iter()
            .zip(contents)
            .map(|(name, text)| (name.to_string(), text.to_string()))
            .collect()
    }

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

    #[test]
    fn a_named_folder_is_made_when_there_is_something_to_write() {
        let place = tempfile::tempdir().unwrap();
        let out = place.path().join("deep/out");
        let folder = ResultFolder::named(&out).unwrap();
        assert!(!place.path().join("deep").exists());
        let written = folder.write(&files(&["1", "2", "3"])).unwrap();
        assert_eq!(written.to_string(), out.join(RESULTS).display().to_string());
        assert_eq!(fs::read_to_string(out.join("figures/a.svg")).unwrap(), "3");
        assert_eq!(fs::read_dir(out.parent().unwrap()).unwrap().count(), 1, "nothing else");
        fs::write(out.join("own"), "kept").unwrap();
        let written = folder.write(&files(&["new"])).unwrap();
        assert!(written.to_string().ends_with(" (replaced)"), "{written}");
        assert_eq!(fs::read_to_string(out.join("own")).unwrap(), "kept");
    }

    /// A report that cannot be written leaves the old results beside the old report.
    #[cfg(unix)]
    #[test]
    fn all_files_are_new_or_none() {
        let out = tempfile::tempdir().unwrap();
        let folder = ResultFolder::named(out.path()).unwrap();
        folder.write(&files(&["old"])).unwrap();
        std::os::unix::fs::symlink("/dev/full", out.path().join("report.html")).unwrap();
        let failure = folder.write(&files(&["new", "new"])).err().unwrap().to_string();
        assert!(failure.contains("report.html: cannot be written: No space left"), "{failure}");
        assert_eq!(fs::read_to_string(out.path().join(RESULTS)).unwrap(), "old");
        assert_eq!(fs::read_dir(out.path()).unwrap().count(), 2, "nothing half written");
    }

    #[cfg(unix)]
    #[test]
    fn the_link_to_the_last_run_replaces_a_link_only() {
        let all = tempfile::tempdir().unwrap();
        let latest = all.path().join(LATEST);
        assert!(link(all.path(), Path::new("results/001-a")));
        assert!(link(all.path(), Path::new("results/002-b")));
        assert_eq!(fs::read_link(&latest).unwrap(), Path::new("002-b"));
        fs::remove_file(&latest).unwrap();
        fs::write(&latest, "precious").unwrap();
        assert!(!link(all.path(), Path::new("results/003-c")));
        assert_eq!(fs::read_to_string(&latest).unwrap(), "precious");
        assert_eq!(fs::read_dir(all.path()).unwrap().count(), 1);
    }
}
