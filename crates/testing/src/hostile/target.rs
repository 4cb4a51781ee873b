//! What a target is, and where its seeds lie.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// One reader under attack.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name; also of its folder in `corpus/`.
    pub name: &'static str,
    /// Reads these bytes. Panics if the reader breaks a promise.
    pub run: fn(&[u8]),
    /// Seeds besides `corpus/NAME`.
    pub seeds: Seeds,
    /// Bytes of memory that one input may take at a time, at most.
    pub memory_bytes: usize,
}

/// Sound inputs that lie in the repository for other reasons.
#[derive(Clone, Copy)]
pub enum Seeds {
    /// None.
    None,
    /// All files of a folder, or of the folders in it; relative to the repository.
    Folder(&'static str),
    /// Each line of a folder's files by itself.
    Lines(&'static str),
    /// The traces of a folder, as [`crate::hostile::unpack`] gives them.
    Unpacked(&'static str),
}

impl Target {
    /// The seeds with names for them, in the order of the names.
    ///
    /// # Errors
    /// An unreadable file, or no seed at all.
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

/// The files of a folder and of the folders in it, by name. Descriptions for people are left out.
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
