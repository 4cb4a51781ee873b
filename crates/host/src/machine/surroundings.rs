//! Facts about this machine and its programs that decide which switches for large pages there are: versions of
//! kernel and libraries, nodes, free memory in large blocks.

use std::fs;
use std::path::{Path, PathBuf};

use crate::proc::{free_memory, kernel_release};

/// Version as its first two numbers, such as 6.18.
pub type Version = (u32, u32);

/// Folders in which the dynamic linker finds libraries, after those for the processor.
const LIBRARY_FOLDERS: [&str; 6] =
    ["/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];
/// Libraries of which a program's file says that it loads them.
const LIBRARIES: [&str; 7] = [
    "libc.so.6",
    "libjemalloc.so",
    "libtcmalloc",
    "libmimalloc.so",
    "libjvm.so",
    "libpython",
    "libnode.so",
];
/// Text before the version in glibc's libc.so.6.
const GLIBC: &[u8] = b"stable release version ";
/// Text at the beginning of the part of a Go program's file that has Go's version.
const GO: &[u8] = b"\xff Go buildinf:";

/// Version of this machine's kernel; `None` if unknown.
pub fn kernel_version() -> Option<Version> {
    version(&kernel_release(Path::new("/proc")))
}

/// Number of NUMA nodes of this machine; 0 if unknown.
pub fn numa_nodes() -> usize {
    let is_node = |name: &str| {
        let number = name.strip_prefix("node");
        number.is_some_and(|number| {
            !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
        })
    };
    let entries = fs::read_dir("/sys/devices/system/node").into_iter().flatten().flatten();
    entries.filter(|entry| is_node(&entry.file_name().to_string_lossy())).count()
}

/// Free memory of this machine in blocks of at least 2MB, in bytes; `None` if unknown.
pub fn free_large_bytes() -> Option<u64> {
    free_large(&fs::read_to_string("/proc/buddyinfo").ok()?)
}

/// Sum of the blocks of order 9 and above in the text of `/proc/buddyinfo`, in bytes; `None` if the text has no
/// zones.
fn free_large(text: &str) -> Option<u64> {
    let blocks = free_memory(text)?.blocks;
    Some((9..).zip(&blocks[9..]).map(|(order, blocks)| blocks * (4096 << order)).sum())
}

/// Files that a program maps, as far as its own file says, with their versions. A program written in Go is
/// listed as `go:` and its path.
pub fn program_files(program: &Path) -> Vec<(String, Option<Version>)> {
    let Some((path, bytes)) = executable(program) else { return Vec::new() };
    let mut found = vec![versioned(&path.to_string_lossy())];
    if path.file_name().is_some_and(|name| name == "java") {
        found.push(("libjvm.so".into(), None));
    }
    if let Some(place) = find(&bytes, GO) {
        let rest = &bytes[place..bytes.len().min(place + 256)];
        let version = find(rest, b"go1.").and_then(|at| version(&text(&rest[at + 2..])));
        found.push((format!("go:{}", path.display()), version));
    }
    for name in LIBRARIES.into_iter().filter(|name| find(&bytes, name.as_bytes()).is_some()) {
        let folders = LIBRARY_FOLDERS.iter().map(|folder| Path::new(folder).join(name));
        let there = folders.into_iter().find(|path| path.exists());
        let path =
            there.map_or_else(|| name.to_owned(), |path| path.to_string_lossy().into_owned());
        found.push(versioned(&path));
    }
    found
}

/// Path of a file that a program maps, with its version if the path or the file says it.
pub fn versioned(path: &str) -> (String, Option<Version>) {
    let name = path.rsplit('/').next().unwrap_or_default();
    let of_name = ["python", "libpython", "libmimalloc.so."].iter().find_map(|start| {
        let number = name.strip_prefix(start)?;
        version(number)
    });
    let of_file = || {
        let bytes = name.starts_with("libc.so.6").then(|| fs::read(path).ok()).flatten()?;
        let place = find(&bytes, GLIBC)? + GLIBC.len();
        version(&text(&bytes[place..bytes.len().min(place + 16)]))
    };
    (path.to_owned(), of_name.or_else(of_file))
}

/// Path and content of a program's file, found as a shell does. A script stands for its interpreter.
fn executable(program: &Path) -> Option<(PathBuf, Vec<u8>)> {
    let (path, bytes) = read_program(program)?;
    let Some(line) = bytes.strip_prefix(b"#!") else { return Some((path, bytes)) };
    let line = text(line);
    let mut words = line.lines().next()?.split_whitespace();
    let first = words.next()?;
    let is_env = first.ends_with("/env");
    let interpreter = if is_env { words.find(|word| !word.starts_with('-'))? } else { first };
    read_program(Path::new(interpreter))
}

fn read_program(program: &Path) -> Option<(PathBuf, Vec<u8>)> {
    let has_folder = program.components().count() > 1;
    let path = match has_folder {
        true => program.to_owned(),
        false => {
            let folders = std::env::var_os("PATH")?;
            std::env::split_paths(&folders)
                .map(|folder| folder.join(program))
                .find(|it| it.is_file())?
        }
    };
    // The names of links, such as python3, say less than those of the files.
    let path = fs::canonicalize(path).ok()?;
    let bytes = perforate_config::read_file(&path).ok()?;
    Some((path, bytes))
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, wanted)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(256)]).into_owned()
}

/// First two numbers of a text such as `6.18.44-rc1`; `None` if it does not begin with two numbers.
fn version(text: &str) -> Option<Version> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_their_first_two_numbers() {
        assert_eq!(version("6.18.44-fc"), Some((6, 18)));
        assert_eq!(version("2.36."), Some((2, 36)));
        assert_eq!(version("3.11"), Some((3, 11)));
        for other in ["", "x.1", "6", "."] {
            assert_eq!(version(other), None, "{other:?}");
        }
    }

    #[test]
    fn large_blocks_are_counted_by_order() {
        let text = "Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      2\n\
                    Node 0, zone   Normal    100      1      1      1      1      1      1      1      1      3      5\n";
        let expected = (1 << 21) + 2 * (1 << 22) + 3 * (1 << 21) + 5 * (1 << 22);
        assert_eq!(free_large(text), Some(expected));
        assert_eq!(free_large(""), None);
    }

    #[test]
    fn names_have_versions() {
        assert_eq!(versioned("/usr/bin/python3.11").1, Some((3, 11)));
        assert_eq!(versioned("/usr/lib/libmimalloc.so.2.0").1, Some((2, 0)));
        assert_eq!(versioned("/usr/bin/sort").1, None);
        assert_eq!(versioned("/nowhere/libc.so.6").1, None);
    }

    #[test]
    fn files_say_what_they_load() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            path
        };
        let libc = write("libc.so.6", b"\x7fELF GNU C Library stable release version 2.36.\0");
        assert_eq!(versioned(libc.to_str().unwrap()).1, Some((2, 36)));
        let go = write("server", b"\x7fELF\0\xff Go buildinf:\x08\x02\0\0go1.22.3\0");
        let files = program_files(&go);
        assert!(
            files
                .iter()
                .any(|(path, version)| path.starts_with("go:") && *version == Some((1, 22)))
        );
        let linked = write("tool", b"\x7fELF libjemalloc.so.2\0 libc.so.6\0");
        let names: Vec<String> = program_files(&linked).into_iter().map(|(path, _)| path).collect();
        assert!(names.iter().any(|path| path.contains("libjemalloc")), "{names:?}");
        assert!(names.iter().any(|path| path.ends_with("libc.so.6")), "{names:?}");
        let script = write("script", format!("#!{}\n", linked.display()).as_bytes());
        assert!(program_files(&script)[0].0.ends_with("/tool"));
        assert!(program_files(Path::new("/nowhere/tool")).is_empty());
    }
}
