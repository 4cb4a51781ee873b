//! Store of completed measurements in a file of JSON lines. After a crash, the last line may be
//! incomplete and is then ignored.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use perforate_config::NewFile;
use perforate_types::counted;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::ExperimentError;
use crate::identity::Key;
use crate::kind::Measurement;

/// One line of the store's file. The point is written for people only, and ignored when reading.
#[derive(Serialize, Deserialize)]
struct Line<P, M> {
    key: Key,
    build: String,
    #[serde(flatten, skip_deserializing)]
    point: P,
    figures: M,
}

/// Measurements by key, and the file to which new ones are appended. For experiments, a measurement
/// `M` is a [`Measurement`]; other users store other values, which must be serialisable as JSON.
pub struct Store<M = Measurement> {
    build: String,
    known: BTreeMap<Key, M>,
    file: Option<(PathBuf, File)>,
    /// Number of lines in the file that other builds of the program wrote.
    others: usize,
    /// Numbers of the lines in the file that cannot be read.
    unreadable: Vec<usize>,
}

impl<M: Serialize + DeserializeOwned> Store<M> {
    /// Creates an empty store in memory, without a file.
    pub fn in_memory(build: String) -> Self {
        Self { build, known: BTreeMap::new(), file: None, others: 0, unreadable: Vec::new() }
    }

    /// Opens the store's file, or creates it, and reads the measurements of this build. Measurements of other
    /// builds and unreadable lines stay in the file, but are not used, because other builds may measure
    /// different results ([`Store::remarks`] reports them). An incomplete last line is removed.
    ///
    /// # Errors
    /// A file that cannot be read or written.
    pub fn open(path: &Path, build: String) -> Result<Self, ExperimentError> {
        let failed = |source| ExperimentError::File { path: path.into(), source };
        let bytes = read_if_any(path).map_err(failed)?;
        let mut store = Self::in_memory(build);
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        for (number, line) in bytes[..whole].split_inclusive(|&byte| byte == b'\n').enumerate() {
            match serde_json::from_slice::<Line<(), M>>(line) {
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

    /// Removes the measurements of this build from a store's file, if it exists, so that they are repeated.
    ///
    /// # Errors
    /// A file that cannot be read or written.
    pub fn forget(path: &Path, build: &str) -> Result<(), ExperimentError> {
        let failed = |source| ExperimentError::File { path: path.into(), source };
        let bytes = read_if_any(path).map_err(failed)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let is_own = |line: &&[u8]| {
            serde_json::from_slice::<Line<(), M>>(line).is_ok_and(|read| read.build == build)
        };
        let lines = bytes.split_inclusive(|&byte| byte == b'\n');
        let mut file = NewFile::create(path).map_err(failed)?;
        for line in lines.filter(|line| !is_own(line)) {
            file.write_all(line).map_err(failed)?;
        }
        file.finish().map_err(failed)
    }

    /// Returns remarks on the lines of the store's file that are not used.
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

    /// Adds the measurements of this build in another store's file, and ignores those of other builds.
    /// Returns the number of measurements that are new.
    ///
    /// # Errors
    /// An unreadable file, an invalid line, or measurements of other builds only.
    pub fn add_from(&mut self, path: &Path) -> Result<usize, ExperimentError> {
        let text = perforate_config::read_text(path)
            .map_err(|source| ExperimentError::File { path: path.into(), source })?;
        let wrong = |number: usize, problem: &str| {
            ExperimentError::Parts(format!("{}, line {}: {problem}", path.display(), number + 1))
        };
        let (mut added, mut own, mut other) = (0, 0, None);
        for (number, line) in text.lines().enumerate() {
            let line: Line<(), M> = serde_json::from_str(line)
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

    /// Returns the measurement with this key; `None` if the store does not contain it.
    pub fn get(&self, key: &Key) -> Option<&M> {
        self.known.get(key)
    }

    /// Returns the hash of the build whose measurements the store contains.
    pub fn build(&self) -> &str {
        &self.build
    }

    /// Adds a measurement to the store, and appends it to the store's file immediately.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn insert(
        &mut self,
        key: Key,
        point: &impl Serialize,
        figures: M,
    ) -> Result<(), ExperimentError> {
        if let Some((path, file)) = &mut self.file {
            let (key, build) = (key.clone(), self.build.clone());
            let line = Line { key, build, point, figures: &figures };
            let text = serde_json::to_string(&line).expect("measurements are plain data") + "\n";
            file.write_all(text.as_bytes())
                .map_err(|source| ExperimentError::File { path: path.clone(), source })?;
        }
        self.known.insert(key, figures);
        Ok(())
    }
}

/// Returns the contents of a file; empty if the file does not exist.
fn read_if_any(path: &Path) -> io::Result<Vec<u8>> {
    match perforate_config::read_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Settings;
    use crate::plan::Point;

    fn point(subject: &str) -> Point {
        Point { kind: "k", settings: Settings::default(), seed: 1, subject: subject.into() }
    }

    fn key(subject: &str) -> Key {
        Key::of("build", &subject.into())
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
        let value = 1.074_897_014_265_389_6e-64; // not every JSON parser reads this number exactly
        store.insert(key("b"), &point("b"), figures(value)).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        // Simulates a crash while the second line is written.
        std::fs::write(&path, &text[..text.len() - 5]).unwrap();
        let mut store = Store::open(&path, "build".into()).unwrap();
        assert_eq!((store.get(&key("a")), store.get(&key("b"))), (Some(&figures(0.1)), None));
        store.insert(key("b"), &point("b"), figures(value)).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        let store = Store::open(&path, "build".into()).unwrap();
        assert_eq!(store.get(&key("b")), Some(&figures(value)), "to the last digit");
        // Other builds have other measurements, and combining them is an error.
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

    #[test]
    fn a_file_that_is_missing_is_not_made_to_forget_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("points.jsonl");
        Store::<Measurement>::forget(&path, "build").unwrap();
        assert!(!path.exists());
    }

    /// A part may continue a file of an older build. What the older one measured is passed over.
    #[test]
    fn parts_of_this_build_are_taken_from_files_of_several() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("points.jsonl");
        let figures = |value: f64| Measurement::from([("x".to_owned(), value)]);
        for (build, subject) in [("old", "a"), ("new", "b"), ("old", "c"), ("new", "d")] {
            let mut store = Store::open(&path, build.into()).unwrap();
            store.insert(key(subject), &point(subject), figures(1.0)).unwrap();
        }
        let mut store = Store::<Measurement>::in_memory("new".into());
        store.insert(key("d"), &point("d"), figures(1.0)).unwrap();
        assert_eq!(store.add_from(&path).unwrap(), 1, "the other one was known");
        let found = ["a", "b", "c", "d"].map(|subject| store.get(&key(subject)).is_some());
        assert_eq!(found, [false, true, false, true]);
        let message = Store::<Measurement>::in_memory("newest".into()).add_from(&path).unwrap_err();
        assert!(message.to_string().contains("line 1: measured by another build"), "{message}");
    }
}
