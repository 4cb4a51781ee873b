//! Layouts as Mosalloc has them in files: lines of comma-separated values, such as
//!
//! ```text
//! type,pageSize,startOffset,endOffset
//! brk,-1,0,4294967296
//! mmap,-1,0,209715200
//! brk,2097152,0,2147483648
//! ```
//!
//! A line with the page size -1 gives a pool its size, the others give parts of a pool the pages of
//! that size.

use std::io::Read;
use std::ops::Range;
use std::path::Path;

use super::{Intervals, LARGE_BYTES, Layout};
use crate::HostError;

/// The first line of a file.
const HEADER: [&str; 4] = ["type", "pageSize", "startOffset", "endOffset"];
/// Longest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// End of the highest offset: an address space.
const MAX_OFFSET: u64 = 1 << 47;

/// A layout from a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayoutFile {
    /// Its intervals; its name is that of the file.
    pub layout: Layout,
    /// Sizes of the pools of malloc and of anonymous mappings.
    pub pool_bytes: [u64; 2],
}

/// What is wrong at a place of a file: line and column from 1, and what would be right.
#[derive(Debug, PartialEq, Eq)]
struct Problem {
    line: usize,
    column: usize,
    text: String,
}

/// Pools by their names in files. Those of files are read and have no effect.
const POOLS: [&str; 3] = ["brk", "mmap", "file"];

/// One pool while its lines are read.
#[derive(Default)]
struct Pool {
    /// Its size and the line that says so.
    size: Option<(u64, usize)>,
    /// Intervals of 2MB and of 4KB pages, with their lines.
    large: Vec<(Range<u64>, usize)>,
    small: Vec<(Range<u64>, usize)>,
}

impl LayoutFile {
    /// Reads a file.
    ///
    /// # Errors
    /// With the file, the line and the column, and what was expected there.
    pub fn read(path: &Path) -> Result<Self, HostError> {
        let mut bytes = Vec::new();
        let read = perforate_config::open_file(path)
            .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes));
        read.map_err(|error| HostError::file(path, error.to_string()))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(HostError::file(path, "longer than 16 MB, which no layout is"));
        }
        let mut file = Self::parse(&String::from_utf8_lossy(&bytes)).map_err(|problem| {
            let Problem { line, column, text } = problem;
            HostError::file(path, format!("line {line}, column {column}: {text}"))
        })?;
        let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
        file.layout.name = name.chars().filter(|c| !c.is_control()).take(40).collect();
        Ok(file)
    }

    fn parse(text: &str) -> Result<Self, Problem> {
        let mut lines =
            text.lines().enumerate().map(|(number, line)| (number + 1, line.trim_end()));
        let header = lines.next().map_or("", |(_, line)| line);
        check_header(header.trim_start_matches('\u{feff}'))?;
        let mut pools: [Pool; 3] = Default::default();
        for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
            read_line(number, line, &mut pools)?;
        }
        let [heap, mapped, file] = pools;
        file.check()?;
        let pool_bytes = [&heap, &mapped].map(|pool| pool.size.map_or(0, |(bytes, _)| bytes));
        let layout = Layout { name: String::new(), heap: heap.check()?, mapped: mapped.check()? };
        Ok(Self { layout, pool_bytes })
    }
}

fn check_header(line: &str) -> Result<(), Problem> {
    let found: Vec<&str> = line.split(',').map(str::trim).collect();
    if found == HEADER {
        return Ok(());
    }
    let shown: String = line.chars().filter(|c| !c.is_control()).take(60).collect();
    let text = match found.first() {
        Some(&"pool_type") => {
            "this is Mosalloc's newer form of a layout; expected the one that its library reads, \
             with the header type,pageSize,startOffset,endOffset (runMosalloc.py writes it to \
             legacy_config.csv)"
                .to_owned()
        }
        _ => format!("\"{shown}\"; expected the header type,pageSize,startOffset,endOffset"),
    };
    Err(Problem { line: 1, column: 1, text })
}

/// Reads one line into its pool.
fn read_line(number: usize, line: &str, pools: &mut [Pool; 3]) -> Result<(), Problem> {
    let mut fields = Vec::new();
    let mut column = 1;
    for field in line.split(',') {
        let blanks = field.chars().take_while(|c| c.is_whitespace()).count();
        fields.push((column + blanks, field.trim()));
        column += field.chars().count() + 1;
    }
    let at = |column, text| Problem { line: number, column, text };
    if let [.., (column, _)] = fields[..]
        && fields.len() != HEADER.len()
    {
        let text = format!("{} values; expected type,pageSize,startOffset,endOffset", fields.len());
        return Err(at(column, text));
    }
    let Some(pool) = POOLS.iter().position(|name| *name == fields[0].1) else {
        let text = format!("\"{}\"; expected brk, mmap or file", shown(fields[0].1));
        return Err(at(fields[0].0, text));
    };
    let offset = |(column, text): (usize, &str)| {
        let value = text.parse::<u64>().ok().filter(|value| *value <= MAX_OFFSET);
        value.ok_or_else(|| {
            at(column, format!("\"{}\"; expected bytes, at most 128 TB", shown(text)))
        })
    };
    let range = offset(fields[2])?..offset(fields[3])?;
    let size = fields[1];
    let is_empty = range.is_empty() && !(size.1 == "-1" && range.start == range.end);
    if is_empty {
        let text = format!("ends at {}; expected an end after {}", range.end, range.start);
        return Err(at(fields[3].0, text));
    }
    let aligned = |bytes: u64, pages: &str| {
        let wrong = [(fields[2].0, range.start), (fields[3].0, range.end)];
        let wrong = wrong.into_iter().find(|(_, offset)| !offset.is_multiple_of(bytes));
        wrong.map_or(Ok(()), |(column, offset)| {
            Err(at(column, format!("{offset}; expected a multiple of {bytes} for {pages} pages")))
        })
    };
    let pool = &mut pools[pool];
    match size.1 {
        "-1" => {
            if let Some((_, before)) = pool.size {
                let text = format!("the pool has its size from line {before}; expected one size");
                return Err(at(size.0, text));
            }
            pool.size = Some((range.end - range.start, number));
        }
        "4096" => {
            aligned(4096, "4KB")?;
            pool.small.push((range, number));
        }
        "2097152" => {
            aligned(LARGE_BYTES, "2MB")?;
            pool.large.push((range, number));
        }
        "1073741824" => {
            let text = "1GB pages; expected 4096 or 2097152, as transparent pages are 2MB at most";
            return Err(at(size.0, text.into()));
        }
        other => {
            let text = format!(
                "page size \"{}\"; expected -1 (the pool's size), 4096 or 2097152",
                shown(other)
            );
            return Err(at(size.0, text));
        }
    }
    Ok(())
}

fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(40).collect()
}

impl Pool {
    /// The intervals, if they lie in the pool and do not overlap.
    fn check(self) -> Result<Intervals, Problem> {
        let Self { size, large, small } = self;
        let mut all: Vec<_> = large.iter().chain(&small).collect();
        all.sort_by_key(|(range, _)| range.start);
        for pair in all.windows(2) {
            let [(first, before), (second, line)] = pair else { continue };
            if second.start < first.end {
                let (line, other) = (line.max(before), line.min(before));
                let text =
                    format!("overlaps line {other}; expected intervals apart from each other");
                return Err(Problem { line: *line, column: 1, text });
            }
        }
        for (range, line) in &all {
            let text = match size {
                None => "no line gives this pool its size; expected one with page size -1".into(),
                Some((bytes, of)) if range.end > bytes => {
                    format!("ends at {}, behind the pool's {bytes} bytes of line {of}", range.end)
                }
                Some(_) => continue,
            };
            return Err(Problem { line: *line, column: 1, text });
        }
        Ok(Intervals::new(large.into_iter().map(|(range, _)| range)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "type,pageSize,startOffset,endOffset\nbrk,-1,0,4294967296\n\
        mmap,-1,0,209715200\nfile,-1,0,104857600\nbrk,2097152,0,2147483648\n";

    #[test]
    fn the_sample_of_mosalloc() {
        let file = LayoutFile::parse(SAMPLE).unwrap();
        assert_eq!(file.pool_bytes, [4 << 30, 200 << 20]);
        assert_eq!(file.layout.heap, Intervals::of_pages(0..1024));
        assert_eq!(file.layout.mapped, Intervals::NONE);
        let windows = SAMPLE.replace('\n', "\r\n") + "\r\n mmap , 4096 , 4096 , 2097152 \r\n";
        assert_eq!(
            LayoutFile::parse(&windows).unwrap(),
            file,
            "4KB pages are what there is anyway"
        );
    }

    #[test]
    fn order_does_not_matter_and_neighbours_join() {
        let text = "type,pageSize,startOffset,endOffset\nmmap,2097152,4194304,6291456\n\
            mmap,2097152,2097152,4194304\nmmap,-1,0,8388608\n";
        let file = LayoutFile::parse(text).unwrap();
        assert_eq!(file.layout.mapped, Intervals::of_pages(1..3));
        assert_eq!(file.pool_bytes, [0, 8 << 20]);
    }

    #[test]
    fn errors_name_the_place_and_what_would_be_right() {
        let after = |lines: &str| format!("{SAMPLE}{lines}");
        for (text, line, column, expected) in [
            (String::new(), 1, 1, "expected the header type,pageSize,startOffset,endOffset"),
            ("brk,-1,0,1\n".into(), 1, 1, "\"brk,-1,0,1\"; expected the header"),
            ("pool_type,pool_size,x\n".into(), 1, 1, "newer form of a layout"),
            (after("brk,2097152,2147483648"), 6, 13, "3 values; expected type,"),
            (after("brk,2097152,0,1,2"), 6, 17, "5 values; expected type,"),
            (after("heap,2097152,0,1"), 6, 1, "\"heap\"; expected brk, mmap or file"),
            (after("mmap, 1073741824,0,1"), 6, 7, "1GB pages; expected 4096 or 2097152"),
            (after("mmap,8192,0,1"), 6, 6, "page size \"8192\"; expected -1"),
            (after("mmap,2097152,-5,1"), 6, 14, "\"-5\"; expected bytes"),
            (after("mmap,2097152,0,x"), 6, 16, "\"x\"; expected bytes"),
            (after("mmap,2097152,4096,2097152"), 6, 14, "4096; expected a multiple of 2097152"),
            (after("mmap,2097152,0,4096"), 6, 16, "4096; expected a multiple of 2097152 for 2MB"),
            (after("mmap,4096,0,100"), 6, 13, "100; expected a multiple of 4096 for 4KB pages"),
            (after("mmap,2097152,2097152,0"), 6, 22, "ends at 0; expected an end after 2097152"),
            (after("mmap,-1,0,4096"), 6, 6, "its size from line 3; expected one size"),
            (after("brk,2097152,0,2097152"), 6, 1, "overlaps line 5; expected intervals apart"),
            (after("mmap,2097152,0,419430400"), 6, 1, "ends at 419430400, behind the pool's"),
            (
                "type,pageSize,startOffset,endOffset\nbrk,2097152,0,2097152".into(),
                2,
                1,
                "no line gives this pool its size",
            ),
        ] {
            let problem = LayoutFile::parse(&text).unwrap_err();
            assert!(problem.text.contains(expected), "{}: {expected}", problem.text);
            assert_eq!((problem.line, problem.column), (line, column), "{text:?}");
        }
    }

    #[test]
    fn files_have_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("layout1.csv");
        std::fs::write(&path, SAMPLE).unwrap();
        assert_eq!(LayoutFile::read(&path).unwrap().layout.name, "layout1");
        std::fs::write(&path, "x").unwrap();
        let error = LayoutFile::read(&path).unwrap_err().to_string();
        assert!(error.contains("layout1.csv: line 1, column 1: \"x\"; expected"), "{error}");
        assert!(LayoutFile::read(folder.path()).is_err());
    }
}
