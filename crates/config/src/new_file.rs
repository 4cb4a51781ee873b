//! Output files: complete or absent. Every path that a user names for output is written through here.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Maximum number of symbolic links from a path to its target; Linux has the same limit.
const MAX_LINKS: usize = 40;
/// Maximum number of unfinished temporary files for one output file.
const MAX_UNFINISHED: usize = 1000;

/// An output file that gets its name when it is complete, replacing a regular file of that name.
/// Until then it is called `NAME.partial` (or `NAME.partial2` and so on if such a file exists).
/// Dropping it before [`NewFile::finish`] removes the temporary file.
///
/// A device or a pipe is not replaced, but written to directly. A symbolic link is kept, and its target
/// is replaced or written to.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    /// Temporary and final path of the file; `None` if the file is written to directly.
    renamed: Option<(PathBuf, PathBuf)>,
}

/// Target of an output path, after all symbolic links.
enum Target {
    /// Path of a regular file that is to be written, which may not exist yet.
    Regular(PathBuf),
    /// A device, a pipe, or an open file that was deleted; written to directly.
    Direct,
}

impl NewFile {
    /// Opens the temporary file that becomes the file at `path`.
    ///
    /// # Errors
    /// The path is a directory, or the file or its folder cannot be written.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        match target(path.as_ref())? {
            Target::Direct => {
                let file = OpenOptions::new().write(true).open(path)?;
                Ok(Self { file, renamed: None })
            }
            Target::Regular(path) => {
                let (partial, file) = create_partial(&path)?;
                let new = Self { file, renamed: Some((partial, path)) };
                if let Some((_, replaced)) = &new.renamed
                    && let Ok(facts) = fs::metadata(replaced)
                {
                    new.file.set_permissions(facts.permissions())?;
                }
                Ok(new)
            }
        }
    }

    /// Folder in which the file at `path` would be created; `None` for a device or a pipe.
    ///
    /// # Errors
    /// The path is a directory, or its folder does not exist.
    pub fn folder(path: impl AsRef<Path>) -> io::Result<Option<PathBuf>> {
        let Target::Regular(path) = target(path.as_ref())? else { return Ok(None) };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).to_owned();
        match folder.is_dir() {
            true => Ok(Some(folder)),
            false => Err(io::Error::new(ErrorKind::NotFound, "its folder does not exist")),
        }
    }

    /// Duplicate of the open file, for writers that take a [`File`]. Both share one position for
    /// reading and writing.
    ///
    /// # Errors
    /// Too many files are open.
    pub fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Renames the complete temporary file to its final name.
    ///
    /// # Errors
    /// The temporary file cannot be renamed. It is removed then.
    pub fn finish(mut self) -> io::Result<()> {
        if let Some((partial, path)) = self.renamed.take() {
            fs::rename(&partial, path).inspect_err(|_| drop(fs::remove_file(&partial)))?;
        }
        Ok(())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some((partial, _)) = &self.renamed {
            let _ = fs::remove_file(partial); // the error that led here is reported
        }
    }
}

/// Writes a text to a file. After an error, the file is unchanged.
///
/// # Errors
/// Errors of [`NewFile::create`] and of writing.
pub fn write_text(path: impl AsRef<Path>, text: &str) -> io::Result<()> {
    write_texts(&[(path, text)]).map_err(|(_, error)| error)
}

/// Writes several files: all are written under temporary names before the first gets its name, so
/// that all old files remain if the disk is full.
///
/// # Errors
/// Index of the file that cannot be written, and the error.
pub fn write_texts<P: AsRef<Path>, T: AsRef<str>>(
    files: &[(P, T)],
) -> Result<(), (usize, io::Error)> {
    let mut written = Vec::new();
    for (number, (path, text)) in files.iter().enumerate() {
        let mut file = NewFile::create(path).map_err(|error| (number, error))?;
        file.write_all(text.as_ref().as_bytes()).map_err(|error| (number, error))?;
        written.push(file);
    }
    let numbered = written.into_iter().enumerate();
    numbered
        .map(|(number, file)| (number, file.finish()))
        .try_for_each(|(number, finished)| finished.map_err(|error| (number, error)))
}

fn target(path: &Path) -> io::Result<Target> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::metadata(&path) {
            Ok(facts) if facts.is_dir() => {
                return Err(io::Error::other("this is a directory; expected a file"));
            }
            Ok(facts) if !facts.is_file() => return Ok(Target::Direct),
            // /proc/self/fd/1 may be an open file that has been deleted.
            Ok(_) => return Ok(fs::canonicalize(&path).map_or(Target::Direct, Target::Regular)),
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Err(_) => {}
        }
        // The target of a dangling link is the new file.
        match fs::read_link(&path) {
            Ok(next) => path = path.parent().unwrap_or(Path::new("")).join(next),
            Err(_) => return Ok(Target::Regular(path)),
        }
    }
    Err(io::Error::other("too many links lead on from one to the next"))
}

/// Creates the temporary file in the folder of `path`. Existing files are not touched.
fn create_partial(path: &Path) -> io::Result<(PathBuf, File)> {
    if path.file_name().is_none() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "no name of a file"));
    }
    for number in 1..=MAX_UNFINISHED {
        let mut partial: OsString = path.as_os_str().to_owned();
        partial.push(".partial");
        if number > 1 {
            partial.push(number.to_string());
        }
        match OpenOptions::new().write(true).create_new(true).open(&partial) {
            Ok(file) => return Ok((partial.into(), file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    let problem = format!("{MAX_UNFINISHED} unfinished files of this name lie beside it");
    Err(io::Error::new(ErrorKind::AlreadyExists, problem))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> =
            entries.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_whole_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let mut given_up = NewFile::create(&path).unwrap();
        given_up.write_all(b"half").unwrap();
        assert_eq!(names(folder.path()), ["x.partial"]);
        drop(given_up);
        assert!(names(folder.path()).is_empty());
        write_text(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let mut new = NewFile::create(&path).unwrap();
        new.write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        new.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "as the replaced file");
        assert_eq!(names(folder.path()), ["x"]);
    }

    #[test]
    fn what_lies_where_the_unfinished_file_would_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("precious"), "kept").unwrap();
        symlink("precious", at("x.partial")).unwrap();
        fs::write(at("x.partial2"), "of a crash").unwrap();
        write_text(at("x"), "text").unwrap();
        assert_eq!(fs::read_to_string(at("precious")).unwrap(), "kept");
        assert_eq!(fs::read_to_string(at("x.partial2")).unwrap(), "of a crash");
        assert_eq!(names(folder.path()), ["precious", "x", "x.partial", "x.partial2"]);
    }

    #[test]
    fn links_stay_and_what_they_lead_to_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("elsewhere")).unwrap();
        symlink("elsewhere/new", at("to nothing")).unwrap();
        symlink("to nothing", at("chain")).unwrap();
        symlink("round", at("round")).unwrap();
        for text in ["first", "second"] {
            write_text(at("chain"), text).unwrap();
            assert_eq!(fs::read_to_string(at("elsewhere/new")).unwrap(), text);
        }
        assert!(["chain", "to nothing"].iter().all(|name| at(name).is_symlink()));
        assert_eq!(names(&at("elsewhere")), ["new"]);
        assert_eq!(
            NewFile::folder(at("chain")).unwrap(),
            Some(fs::canonicalize(at("elsewhere")).unwrap())
        );
        assert!(write_text(at("round"), "").is_err());
    }

    /// Writing to a pipe does not replace it by a file: its reader gets the text.
    #[test]
    fn pipes_are_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read_to_string(pipe).unwrap()
        });
        write_text(&pipe, "through").unwrap();
        assert_eq!(reader.join().unwrap(), "through");
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
        assert_eq!(names(folder.path()), ["pipe"]);
        assert_eq!(NewFile::folder(&pipe).unwrap(), None);
    }

    /// If one of several files cannot be written (`/dev/full` has no room for any byte), all old
    /// files remain.
    #[test]
    fn without_room_for_all_none_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join("old");
        fs::write(&old, "old").unwrap();
        let files = [(old.as_path(), "new"), (Path::new("/dev/full"), "more")];
        assert_eq!(write_texts(&files).unwrap_err().0, 1);
        assert_eq!(fs::read_to_string(&old).unwrap(), "old");
        assert_eq!(names(folder.path()), ["old"]);
    }

    #[test]
    fn what_cannot_be_written_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let problem = |path: &Path| write_text(path, "x").unwrap_err().to_string();
        assert_eq!(problem(folder.path()), "this is a directory; expected a file");
        assert_eq!(problem(Path::new("")), "no name of a file");
        assert!(problem(&folder.path().join("no/such")).contains("No such file"));
        assert!(write_text("/dev/full", "x").is_err() && Path::new("/dev/full").exists());
        let error = NewFile::folder(folder.path().join("no/such")).unwrap_err().to_string();
        assert_eq!(error, "its folder does not exist");
    }
}
