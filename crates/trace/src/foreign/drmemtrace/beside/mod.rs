//! Files next to the trace files of threads: the page map (physical address of each page), and the
//! schedule of threads on processors.

mod page_map;
mod schedule;
mod text_message;

use std::path::{Path, PathBuf};

pub use page_map::PageMap;
pub use schedule::Schedule;

use crate::standard_input::is_standard_input;

/// Finds the first existing file of `names` in the places where DynamoRIO and Google's trace folders have it:
/// next to the trace files, in a folder `aux` or `raw` there, or next to the folder `trace`.
fn find(trace: &Path, names: &[&str]) -> Option<PathBuf> {
    if is_standard_input(trace) {
        return None;
    }
    // A bare file name has an empty parent, which means the current folder.
    let folder = if trace.is_dir() { trace } else { trace.parent()? };
    let mut folders = vec![folder.to_owned(), folder.join("trace")];
    if folder.file_name().is_some_and(|name| name == "trace") {
        folders.extend(folder.parent().map(Path::to_owned));
    }
    let places = folders.iter().flat_map(|folder| {
        ["", "aux", "raw"].into_iter().map(|inner| folder.join(inner)).collect::<Vec<_>>()
    });
    let mut files = places.flat_map(|place| names.iter().map(move |name| place.join(name)));
    files.find(|path| path.is_file())
}
