//! Fuzzing targets, and the sources of their seeds.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Fuzzing target: one reader (parser) and its seed inputs.
#[derive(Clone, Copy)]
pub struct Target {
    /// Name of the target, and of its folder in `corpus/`.
    pub name: &'static str,
    /// Runs the reader on an input. Panics if the reader violates its contract.
    pub run: fn(&[u8]),
    /// Seed inputs in addition to the files in `corpus/NAME`.
    pub seeds: Seeds,
    /// Largest amount of memory in bytes that one input may allocate at a time.
    pub memory_bytes: usize,
}

/// Source of seed inputs among the files that the repository contains for other purposes.
#[derive(Clone, Copy)]
pub enum Seeds {
    /// No seed inputs besides `corpus/NAME`.
    None,
    /// All files of a folder and its subfolders, whose path is relative to the repository.
    Folder(&'static str),
    /// Each line of a folder's files, as a separate seed.
    Lines(&'static str),
    /// The traces of a folder, without compression and checksums ([`crate::hostile::unpack`]).
    Unpacked(&'static str),
}

impl Target {
    /// Reads all seed inputs, and returns each with its name, ordered by name.
    ///
    /// # Errors
    /// An unreadable file, or no seed input at all.
    pub fn read_seeds(&self) -> io::Result<Vec<(String, Vec<u8>)>> {
        let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let repository = crate_folder.join("../..");
        let own = crate_folder.join("corpus").join(self.name);
        let mut seeds = Vec::new();
        if own.exists() {
            seeds.extend(files(&own)?);
        }
        match self.seeds {
            Seeds::None => {}
            Seeds::Folder(folder) => seeds.extend(files(&repository.join(folder))?),
            Seeds::Lines(folder) => {
                for (name, text) in files(&repository.join(folder))? {
                    let lines = text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec);
                    seeds.extend(lines.map(|line| (name.clone(), line)));
                }
            }
            Seeds::Unpacked(folder) => {
                let traces = files(&repository.join(folder))?;
                seeds.extend(
                    traces
                        .into_iter()
                        .filter_map(|(name, trace)| Some((name, crate::hostile::unpack(&trace)?))),
                );
            }
        }
        match seeds.is_empty() {
            true => Err(io::Error::other(format!("{}: no seeds", self.name))),
            false => Ok(seeds),
        }
    }
}

/// Reads the files of a folder and its subfolders, ordered by name. Omits `.md` files, which describe the
/// seeds for people.
fn files(folder: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.sort();
    let mut found = Vec::new();
    for path in paths.iter().filter(|path| path.extension().is_none_or(|name| name != "md")) {
        if path.is_dir() {
            found.extend(files(path)?);
        } else {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            found.push((name, fs::read(path)?));
        }
    }
    Ok(found)
}
