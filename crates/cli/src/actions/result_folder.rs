//! Folders for results: a new one for each run, or the one that the user names.
//!
//! Nothing is created before there are results, so a failed or interrupted run leaves no files
//! behind. A new folder is filled under a temporary name and then renamed. In an existing folder,
//! all files are written under temporary names before the first is renamed.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::Failure;

/// Name of the folder that contains the numbered folders of results.
const ALL: &str = "results";
/// File name of the results in their folder.
pub const RESULTS: &str = "results.jsonl";
/// File name of the report in a folder of results.
pub const REPORT: &str = "report.html";
/// Name of the symbolic link to the latest numbered folder.
const LATEST: &str = "latest";
/// Maximum number of characters of a numbered folder's name after its number.
const MOST_IN_NAME: usize = 40;

/// A folder for results. It was checked to be writable before the run started.
pub struct ResultFolder(Place);

enum Place {
    /// A folder whose path the user gives.
    Named(PathBuf),
    /// A new folder in `results`: the next number, followed by this name.
    Numbered(String),
}

/// Files to write into a folder: names and contents.
pub type Files = Vec<(String, String)>;

/// Folder of the written results; displays as a message to the user.
pub struct Written {
    path: PathBuf,
    /// True if the folder had earlier results, which were replaced.
    is_replaced: bool,
    /// True if `results/latest` is not a link, and was left unchanged.
    is_latest_kept: bool,
}

impl ResultFolder {
    /// Returns the folder that the user names, otherwise a new folder in `results` that is named
    /// after `what`.
    ///
    /// # Errors
    /// A folder that cannot be created or written.
    pub fn of(named: Option<&Path>, what: &str) -> Result<Self, Failure> {
        if let Some(path) = named {
            return Self::named(path);
        }
        check(Path::new(ALL))?;
        Ok(Self(Place::Numbered(name(what))))
    }

    /// Returns the folder in `results` for part `index` of `count` of the points of experiments, which `what`
    /// names. Later runs of the same part use this folder again, and measure only what it lacks.
    ///
    /// # Errors
    /// A folder that cannot be created or written.
    pub fn of_part(what: &str, index: usize, count: usize) -> Result<Self, Failure> {
        Self::named(&Path::new(ALL).join(format!("{}-part-{index}-of-{count}", name(what))))
    }

    /// Returns the folder that the user names with `--out`.
    ///
    /// # Errors
    /// A folder that cannot be created or written.
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
    /// A file that cannot be written.
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
                // Another process may have created a folder with this number.
                while !write_new(&numbered(number), files)? {
                    number += 1;
                }
                let path = numbered(number);
                let is_latest_kept = !link(all, &path);
                Ok(Written { path, is_replaced: false, is_latest_kept })
            }
        }
    }

    /// Returns the path of a file to which later runs append. The file is in the folder that the user
    /// names, otherwise directly in `results`. The folder is created if necessary.
    ///
    /// # Errors
    /// A folder that cannot be created.
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
    /// Path of a file in the folder of the results.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl fmt::Display for Written {
    /// Writes the path of the results, with a remark on replaced results or an unchanged `latest`.
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

/// Checks that files can be written to a folder, or to its nearest existing parent.
fn check(path: &Path) -> Result<(), Failure> {
    let is_there = |folder: &&Path| folder.as_os_str().is_empty() || folder.exists();
    let there = path.ancestors().find(is_there).filter(|folder| !folder.as_os_str().is_empty());
    tempfile::tempfile_in(there.unwrap_or(Path::new(".")))
        .map_err(|source| Failure::Write { path: path.into(), source })?;
    Ok(())
}

/// Creates a folder with these files. Returns false, and writes nothing, if a folder of that name exists and
/// is not empty.
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

/// True if renaming a folder failed because the new name is taken.
fn is_taken(error: &io::Error) -> bool {
    use ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotADirectory};
    matches!(error.kind(), AlreadyExists | DirectoryNotEmpty | NotADirectory)
}

/// Writes all files into an existing folder, or none if one fails.
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

/// Makes `latest` a link to a folder. Returns false if `latest` is not a link, because it belongs
/// to the user. Does nothing on systems without symbolic links.
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

/// Highest number of the numbered folders; 0 if no folder has a number.
fn last_number(all: &Path) -> io::Result<u64> {
    let mut last = 0;
    for entry in fs::read_dir(all)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.split('-').next()?.parse().ok());
        last = last.max(number.unwrap_or(0));
    }
    Ok(last)
}

/// Converts a title to a folder's name of letters, digits, dots and hyphens.
fn name(what: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let kept: String = what.chars().map(keep).take(MOST_IN_NAME).collect();
    kept.trim_matches(['-', '.']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(contents: &[&str]) -> Files {
        let names = [RESULTS, REPORT, "figures/a.svg"];
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

    /// If the report cannot be written, old results and old report stay together.
    #[cfg(unix)]
    #[test]
    fn all_files_are_new_or_none() {
        let out = tempfile::tempdir().unwrap();
        let folder = ResultFolder::named(out.path()).unwrap();
        folder.write(&files(&["old"])).unwrap();
        std::os::unix::fs::symlink("/dev/full", out.path().join(REPORT)).unwrap();
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
