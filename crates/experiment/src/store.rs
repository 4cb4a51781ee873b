//! Measurements that were made, in a file of JSON lines: each line is whole or, after a crash, the last
//! one is not and counts for nothing.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

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
}

impl<M: Serialize + DeserializeOwned> Store<M> {
    /// Measurements in memory only.
    pub fn in_memory(build: String) -> Self {
        Self { build, known: BTreeMap::new(), file: None }
    }

    /// Measurements of this build in a file, which is made if there is none. What other builds
    /// measured is dropped from it, and so is a line that a crash cut off.
    ///
    /// # Errors
    /// A file that cannot be read or written.
    pub fn open(path: &Path, build: String) -> Result<Self, ExperimentError> {
        let failed = |source| ExperimentError::File { path: path.into(), source };
        let text = match perforate_config::read_text(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(failed(error)),
        };
        let mut known = BTreeMap::new();
        let mut kept = String::new();
        for line in text.split_inclusive('\n') {
            let read =
                serde_json::from_str::<Kept<M>>(line).ok().filter(|line| line.build == build);
            if let Some(read) = read.filter(|_| line.ends_with('\n')) {
                known.insert(read.key, read.figures);
                kept += line;
            }
        }
        if kept.len() < text.len() {
            write_whole(path, &kept).map_err(failed)?;
        }
        let file = OpenOptions::new().append(true).create(true).open(path).map_err(failed)?;
        Ok(Self { build, known, file: Some((path.into(), file)) })
    }

    /// Adds what other runs of this build measured.
    ///
    /// # Errors
    /// An unreadable file, a line that is no measurement, a measurement of another build.
    pub fn add_from(&mut self, path: &Path) -> Result<usize, ExperimentError> {
        let text = perforate_config::read_text(path)
            .map_err(|source| ExperimentError::File { path: path.into(), source })?;
        let wrong = |number: usize, problem: &str| {
            ExperimentError::Parts(format!("{}, line {}: {problem}", path.display(), number + 1))
        };
        let mut added = 0;
        for (number, line) in text.lines().enumerate() {
            let line: Kept<M> = serde_json::from_str(line)
                .map_err(|_| wrong(number, "no measurement; was the part interrupted?"))?;
            if line.build != self.build {
                return Err(wrong(number, "measured by another build of this program"));
            }
            added += usize::from(self.known.insert(line.key, line.figures).is_none());
        }
        Ok(added)
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

/// Under another name first, so that the old file is there until the new one is whole.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let partial = path.with_extension("partial");
    std::fs::write(&partial, text)?;
    std::fs::rename(&partial, path)
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
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
    }
}
