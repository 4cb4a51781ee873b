//! Measurements that were made, in a file of JSON lines: each line is whole or, after a crash, the last
//! one is not and counts for nothing.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use perforate_config::NewFile;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::error::ExperimentError;
use crate::kind::Measurement;
use crate::plan::Point;

/// A hash of all that a measurement depends on: this program, the point, and files it reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(String);

impl Key {
    /// The key of a point; `inputs` are contents of files, or hashes of them.
    pub fn of(build: &str, point: &Point, inputs: &[String]) -> Self {
        let Point { kind, settings, seed, subject } = point;
        Self::of_all(&serde_json::json!([build, kind, settings, seed, subject, inputs]))
    }

    /// The key of whatever these values make.
    pub fn of_all(all: &serde_json::Value) -> Self {
        let mut hash = Xxh3::new();
        hash.update(all.to_string().as_bytes());
        Self(format!("{:032x}", hash.digest128()))
    }
}

impl From<String> for Key {
    /// A key as it was printed.
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// What tells this build of the program from another: a hash of its file. Other code may measure
/// something else.
///
/// # Errors
/// The file cannot be read.
pub fn build() -> Result<String, ExperimentError> {
    let failed = |source| ExperimentError::File { path: "this program's own file".into(), source };
    let path = perforate_config::Program::own().map_err(failed)?.file;
    let mut hash = Xxh3::new();
    std::io::copy(&mut File::open(path).map_err(failed)?, &mut hash).map_err(failed)?;
    Ok(format!("{:032x}", hash.digest128()))
}

/// One line of the file, as it is written.
#[derive(Serialize)]
struct Line<'a, P, M> {
    key: &'a Key,
    build: &'a str,
    /// For readers: the key says all.
    #[serde(flatten)]
    point: &'a P,
    figures: &'a M,
}

/// One line of the file, as it is read.
#[derive(Deserialize)]
struct Kept<M> {
    key: Key,
    build: String,
    figures: M,
}

/// Measurements by key, and the file that new ones are added to. Those of experiments are figures;
/// what else is measured once and kept may be anything that JSON can hold.
pub struct Store<M = Measurement> {
    build: String,
    known: BTreeMap<Key, M>,
    file: Option<(PathBuf, File)>,
    /// Lines of the file that other builds wrote.
    others: usize,
    /// Numbers of the lines of the file that cannot be read.
    unreadable: Vec<usize>,
}

impl<M: Serialize + DeserializeOwned> Store<M> {
    /// Measurements in memory only.
    pub fn in_memory(build: String) -> Self {
        Self { build, known: BTreeMap::new(), file: None, others: 0, unreadable: Vec::new() }
    }

    /// Measurements of this build in a file, which is made if there is none. Other builds may measure
    /// something else: their measurements stay in the file, but are not used, and neither are lines
    /// that are no measurements ([`Store::remarks`]). A last line that a crash cut off is removed.
    ///
    /// # Errors
    /// A file that cannot be read or written.
    pub fn open(path: &Path, build: String) -> Result<Self, ExperimentError> {
        let failed = |source| ExperimentError::File { path: path.into(), source };
        let bytes = match perforate_config::read_file(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed(error)),
        };
        let mut store = Self::in_memory(build);
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        for (number, line) in bytes[..whole].split_inclusive(|&byte| byte == b'\n').enumerate() {
            match serde_json::from_slice::<Kept<M>>(line) {
                Ok(read) if read.build == store.build => {
                    store.known.insert(read.key, read.figures);
                }
                Ok(_) => store.others += 1,
                Err(_) => store.unreadable.push(number + 1),
            }
        }
        let file = OpenOptions::new().append(true).create(true).open(path).map_err(failed)?;
        if whole < bytes.len() {
            file.set_len(whole as u64).map_err(failed)?;
        }
        store.file = Some((path.into(), file));
        Ok(store)
    }

    /// Removes what this build measured from a file, if there is one, so that it is measured anew.
    ///
    /// # Errors
    /// A file that cannot be read or written.
    pub fn forget(path: &Path, build: &str) -> Result<(), ExperimentError> {
        let failed = |source| ExperimentError::File { path: path.into(), source };
        let bytes = match perforate_config::read_file(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        let is_own = |line: &&[u8]| {
            serde_json::from_slice::<Kept<M>>(line).is_ok_and(|read| read.build == build)
        };
        let lines = bytes.split_inclusive(|&byte| byte == b'\n');
        let mut file = NewFile::create(path).map_err(failed)?;
        for line in lines.filter(|line| !is_own(line)) {
            file.write_all(line).map_err(failed)?;
        }
        file.finish().map_err(failed)
    }

    /// Sentences about what is in the file and not used.
    pub fn remarks(&self) -> Vec<String> {
        let Some((path, _)) = &self.file else { return Vec::new() };
        let path = path.display();
        let others = (self.others > 0).then(|| {
            format!(
                "{path} has {} of another build of this program too, which may measure something \
                 else: they are kept there and not used here",
                counted(self.others, "measurement")
            )
        });
        let unreadable = self.unreadable.first().map(|first| {
            let lines = counted(self.unreadable.len(), "line");
            let which = if self.unreadable.len() == 1 { "" } else { "the first " };
            format!("{path}: {lines} that cannot be read passed over ({which}number {first})")
        });
        others.into_iter().chain(unreadable).collect()
    }

    /// Adds what other runs of this build measured. What other builds measured is left out.
    ///
    /// # Errors
    /// An unreadable file, a line that is no measurement, measurements of other builds only.
    pub fn add_from(&mut self, path: &Path) -> Result<usize, ExperimentError> {
        let text = perforate_config::read_text(path)
            .map_err(|source| ExperimentError::File { path: path.into(), source })?;
        let wrong = |number: usize, problem: &str| {
            ExperimentError::Parts(format!("{}, line {}: {problem}", path.display(), number + 1))
        };
        let (mut added, mut own, mut other) = (0, 0, None);
        for (number, line) in text.lines().enumerate() {
            let line: Kept<M> = serde_json::from_str(line)
                .map_err(|_| wrong(number, "no measurement; was the part interrupted?"))?;
            if line.build != self.build {
                other.get_or_insert(number);
                continue;
            }
            own += 1;
            added += usize::from(self.known.insert(line.key, line.figures).is_none());
        }
        match other {
            Some(number) if own == 0 => {
                Err(wrong(number, "measured by another build of this program"))
            }
            _ => Ok(added),
        }
    }

    /// The measurement of this key.
    pub fn get(&self, key: &Key) -> Option<&M> {
        self.known.get(key)
    }

    /// The build whose measurements these are.
    pub fn build(&self) -> &str {
        &self.build
    }

    /// Keeps a measurement, in the file at once.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn insert(
        &mut self,
        key: Key,
        point: &impl Serialize,
        figures: M,
    ) -> Result<(), ExperimentError> {
        if let Some((path, file)) = &mut self.file {
            let line = Line { key: &key, build: &self.build, point, figures: &figures };
            let text = serde_json::to_string(&line).expect("measurements are plain data") + "\n";
            file.write_all(text.as_bytes())
                .map_err(|source| ExperimentError::File { path: path.clone(), source })?;
        }
        self.known.insert(key, figures);
        Ok(())
    }
}

/// A number with what is counted.
fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Settings;

    fn point(subject: &str) -> Point {
        Point { kind: "k", settings: Settings::default(), seed: 1, subject: subject.into() }
    }

    fn key(subject: &str) -> Key {
        Key::of("build", &point(subject), &[])
    }

    #[test]
    fn keys_tell_everything_apart() {
        let other = Point { seed: 2, ..point("a") };
        let keys = [
            key("a"),
            key("b"),
            Key::of("build", &other, &[]),
            Key::of("other", &point("a"), &[]),
            Key::of("build", &point("a"), &["trace".into()]),
        ];
        for (index, key) in keys.iter().enumerate() {
            assert!(!keys[..index].contains(key), "{index}");
        }
        assert_eq!(key("a"), key("a"));
    }

    #[test]
    fn only_a_file_that_is_missing_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let open = |name: &str| Store::<Measurement>::open(&folder.path().join(name), "b".into());
        assert!(open("missing.jsonl").is_ok());
        let error = open("").err().expect("a folder").to_string();
        assert!(error.contains(folder.path().to_str().unwrap()), "{error}");
    }

    #[test]
    fn measurements_survive_a_crash() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("points.jsonl");
        let figures = |value: f64| Measurement::from([("x".to_owned(), value)]);
        let mut store = Store::open(&path, "build".into()).unwrap();
        store.insert(key("a"), &point("a"), figures(0.1)).unwrap();
        let value = 1.074_897_014_265_389_6e-64; // not every reader of JSON gets it right
        store.insert(key("b"), &point("b"), figures(value)).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        // Killed in the middle of the second line.
        std::fs::write(&path, &text[..text.len() - 5]).unwrap();
        let mut store = Store::open(&path, "build".into()).unwrap();
        assert_eq!((store.get(&key("a")), store.get(&key("b"))), (Some(&figures(0.1)), None));
        store.insert(key("b"), &point("b"), figures(value)).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        let store = Store::open(&path, "build".into()).unwrap();
        assert_eq!(store.get(&key("b")), Some(&figures(value)), "to the last digit");
        // Another build has other measurements, and says so where parts are joined.
        let mut other = Store::<Measurement>::in_memory("new build".into());
        let message = other.add_from(&path).unwrap_err().to_string();
        assert!(message.contains("line 1") && message.contains("another build"), "{message}");
        assert_eq!(
            Store::<Measurement>::open(&path, "new build".into()).unwrap().get(&key("a")),
            None
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "kept for the other build");
    }

    #[test]
    fn what_is_not_used_stays_in_the_file_and_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("points.jsonl");
        let figures = |value: f64| Measurement::from([("x".to_owned(), value)]);
        for (build, subject) in [("old", "a"), ("new", "b")] {
            let mut store = Store::open(&path, build.into()).unwrap();
            store.insert(key(subject), &point(subject), figures(1.0)).unwrap();
        }
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.splice(0..0, *b"{\"key\": \"\xff\"}\nno measurement\n");
        std::fs::write(&path, &bytes).unwrap();
        let store = Store::<Measurement>::open(&path, "new".into()).unwrap();
        assert_eq!((store.get(&key("a")), store.get(&key("b"))), (None, Some(&figures(1.0))));
        let remarks = store.remarks().join("\n");
        assert!(remarks.contains("points.jsonl has 1 measurement of another build"), "{remarks}");
        assert!(remarks.contains("2 lines that cannot be read passed over (the first number 1)"));
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        Store::<Measurement>::forget(&path, "new").unwrap();
        let store = Store::<Measurement>::open(&path, "old".into()).unwrap();
        assert_eq!((store.get(&key("a")), store.get(&key("b"))), (Some(&figures(1.0)), None));
        assert_eq!(store.unreadable.len(), 2, "what is not ours is not thrown away");
    }
}
