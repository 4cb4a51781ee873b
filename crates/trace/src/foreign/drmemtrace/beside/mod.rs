//! Files that lie beside the files of threads: where pages lay in memory, and which processor ran
//! which thread.

mod page_map;
mod schedule;
mod text_message;

use std::path::{Path, PathBuf};

pub use page_map::PageMap;
pub use schedule::Schedule;

use crate::standard_input::is_standard_input;

/// The first of `names` that lies where DynamoRIO and Google's folders have such files: beside the
/// files of threads, in a folder `aux` or `raw` there, or beside the folder `trace`.
fn find(trace: &Path, names: &[&str]) -> Option<PathBuf> {
    if is_standard_input(trace) {
        return None;
    }
    // A file's name alone has an empty parent, which stands for the current folder.
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
