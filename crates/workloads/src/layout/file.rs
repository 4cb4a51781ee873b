//! Reader and writer of Mosalloc's layout files: lines of comma-separated values, such as
//!
//! ```text
//! type,pageSize,startOffset,endOffset
//! brk,-1,0,4294967296
//! mmap,-1,0,209715200
//! brk,2097152,0,2147483648
//! ```
//!
//! A line with the page size -1 gives the size of a pool. Other lines give the page size of a part of a
//! pool.

use std::path::Path;

use perforate_trace::TraceError;
use perforate_types::PageSize;

use super::{Interval, LayoutFile, Pool, PoolLayout};

/// Columns of a layout file (page sizes of the parts of a program's memory), as its first line names them.
const HEADER: [&str; 4] = ["type", "pageSize", "startOffset", "endOffset"];
/// Maximum length of a layout file in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// Maximum byte offset in a layout file: the size of an address space.
const MAX_OFFSET: u64 = 1 << 47;
/// Maximum number of characters that the layout's name takes from the file's name.
const MAX_NAME: usize = 40;

/// Problem in a layout file, and what was expected; line and column count from 1.
#[derive(Debug, PartialEq, Eq)]
struct Problem {
    line: usize,
    column: usize,
    text: String,
}

/// Lines of a layout file about one pool.
#[derive(Default)]
struct Lines {
    /// Size of the pool in bytes, and number of the line that gives it.
    size: Option<(u64, usize)>,
    /// Intervals of the pool, with the numbers of the lines that give them.
    intervals: Vec<(Interval, usize)>,
}

impl LayoutFile {
    /// Reads a layout file, which gives page sizes up to `largest`.
    ///
    /// # Errors
    /// If the file is invalid: file, line, column, and what was expected.
    pub fn read(path: &Path, largest: PageSize) -> Result<Self, TraceError> {
        use std::io::Read;
        let mut bytes = Vec::new();
        let read = perforate_config::open_file(path)
            .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes));
        read.map_err(|error| TraceError::io(path, "read", error))?;
        let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
        let name = name.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(TraceError::unsuitable(path, "longer than 16 MB", "a layout's few lines"));
        }
        let pools = parse(&String::from_utf8_lossy(&bytes), largest).map_err(|problem| {
            let Problem { line, column, text: problem } = problem;
            TraceError::Layout { path: path.to_owned(), line, column, problem }
        })?;
        Ok(Self { name, pools })
    }

    /// Text of a layout file for this layout.
    pub fn to_csv(&self) -> String {
        let mut text = HEADER.join(",") + "\n";
        for line in self.lines() {
            text += &line;
            text.push('\n');
        }
        text
    }

    /// Lines of a layout file for this layout, without the first line.
    pub(super) fn lines(&self) -> Vec<String> {
        let known = Pool::ALL.iter().filter_map(|pool| Some((pool.name(), self.pool(*pool)?)));
        let sizes = known.clone().map(|(name, pool)| format!("{name},-1,0,{}", pool.bytes));
        let intervals = known.flat_map(|(name, pool)| {
            pool.intervals.iter().map(move |Interval { offsets, size }| {
                format!("{name},{},{},{}", size.bytes(), offsets.start, offsets.end)
            })
        });
        sizes.chain(intervals).collect()
    }
}

fn parse(text: &str, largest: PageSize) -> Result<[Option<PoolLayout>; 3], Problem> {
    let mut lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim_end()));
    let header = lines.next().map_or("", |(_, line)| line);
    check_header(header.trim_start_matches('\u{feff}'))?;
    let mut pools: [Lines; 3] = Default::default();
    for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
        read_line(number, line, largest, &mut pools)?;
    }
    let [heap, mapped, file] = pools.map(Lines::check);
    Ok([heap?, mapped?, file?])
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

/// Parses one line of a layout file and adds it to its pool.
fn read_line(
    number: usize,
    line: &str,
    largest: PageSize,
    pools: &mut [Lines; 3],
) -> Result<(), Problem> {
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
    let Some(pool) = Pool::ALL.iter().position(|pool| pool.name() == fields[0].1) else {
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
    let pool = &mut pools[pool];
    if size.1 == "-1" {
        if let Some((_, before)) = pool.size {
            let text = format!("the pool has its size from line {before}; expected one size");
            return Err(at(size.0, text));
        }
        pool.size = Some((range.end - range.start, number));
        return Ok(());
    }
    let sizes = PageSize::ALL;
    let Some(page) = sizes.into_iter().find(|page| page.bytes().to_string() == size.1) else {
        let known: Vec<String> = sizes
            .into_iter()
            .filter(|page| *page <= largest)
            .map(|page| page.bytes().to_string())
            .collect();
        let text = format!(
            "page size \"{}\"; expected -1 (the pool's size) or {}",
            shown(size.1),
            known.join(", ")
        );
        return Err(at(size.0, text));
    };
    if page > largest {
        let text = "1GB pages; expected 4096 or 2097152, as transparent pages are 2MB at most";
        return Err(at(size.0, text.into()));
    }
    for (column, offset) in [(fields[2].0, range.start), (fields[3].0, range.end)] {
        if !offset.is_multiple_of(page.bytes()) {
            let (bytes, pages) = (page.bytes(), ["4KB", "2MB", "1GB"][page as usize]);
            let text = format!("{offset}; expected a multiple of {bytes} for {pages} pages");
            return Err(at(column, text));
        }
    }
    pool.intervals.push((Interval { offsets: range, size: page }, number));
    Ok(())
}

fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(40).collect()
}

impl Lines {
    /// Checks that the intervals lie in the pool and do not overlap, and returns the pool's layout.
    /// `None` if there is no line for the pool.
    fn check(self) -> Result<Option<PoolLayout>, Problem> {
        let Self { size, mut intervals } = self;
        intervals.sort_by_key(|(interval, line)| (interval.offsets.start, *line));
        for pair in intervals.windows(2) {
            let [(first, before), (second, line)] = pair else { continue };
            if second.offsets.start < first.offsets.end {
                let (line, other) = (line.max(before), line.min(before));
                let text =
                    format!("overlaps line {other}; expected intervals apart from each other");
                return Err(Problem { line: *line, column: 1, text });
            }
        }
        for (interval, line) in &intervals {
            let end = interval.offsets.end;
            let text = match size {
                None => "no line gives this pool its size; expected one with page size -1".into(),
                Some((bytes, of)) if end > bytes => {
                    format!(
                        "ends at {end}, behind the pool's {bytes} bytes of line {of}; expected an \
                         end in the pool"
                    )
                }
                Some(_) => continue,
            };
            return Err(Problem { line: *line, column: 1, text });
        }
        let Some((bytes, _)) = size else { return Ok(None) };
        let intervals = intervals.into_iter().map(|(interval, _)| interval);
        Ok(Some(PoolLayout::new(bytes, intervals)))
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    const SAMPLE: &str = "type,pageSize,startOffset,endOffset\nbrk,-1,0,4294967296\n\
        mmap,-1,0,209715200\nfile,-1,0,104857600\nbrk,2097152,0,2147483648\n";

    fn read(text: &str) -> Result<LayoutFile, Problem> {
        let pools = parse(text, PageSize::Size1G)?;
        Ok(LayoutFile { name: String::new(), pools })
    }

    fn interval(offsets: Range<u64>, size: PageSize) -> Interval {
        Interval { offsets, size }
    }

    #[test]
    fn the_sample_of_mosalloc() {
        let file = read(SAMPLE).unwrap();
        let large = interval(0..2 << 30, PageSize::Size2M);
        assert_eq!(file.pool(Pool::Brk), Some(&PoolLayout::new(4 << 30, [large])));
        assert_eq!(file.pool(Pool::Mmap), Some(&PoolLayout::new(200 << 20, [])));
        assert_eq!(file.to_csv(), SAMPLE);
        let windows = SAMPLE.replace('\n', "\r\n") + "\r\n mmap , 4096 , 4096 , 2097152 \r\n";
        assert_eq!(read(&windows).unwrap(), file, "4KB pages are what there is anyway");
    }

    #[test]
    fn order_does_not_matter_and_neighbours_join() {
        let text = "type,pageSize,startOffset,endOffset\nmmap,2097152,4194304,6291456\n\
            mmap,1073741824,1073741824,2147483648\nmmap,2097152,2097152,4194304\n\
            mmap,-1,0,2147483648\n";
        let file = read(text).unwrap();
        let expected = [
            interval(2 << 20..6 << 20, PageSize::Size2M),
            interval(1 << 30..2 << 30, PageSize::Size1G),
        ];
        assert_eq!(file.pool(Pool::Mmap).unwrap().intervals, expected);
        assert_eq!(file.pool(Pool::Brk), None);
        assert_eq!(read(&file.to_csv()).unwrap(), file);
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
            (
                after("mmap,8192,0,1"),
                6,
                6,
                "page size \"8192\"; expected -1 (the pool's size) or 4096, 2097152, 1073741824",
            ),
            (after("mmap,2097152,-5,1"), 6, 14, "\"-5\"; expected bytes"),
            (after("mmap,2097152,0,x"), 6, 16, "\"x\"; expected bytes"),
            (after("mmap,2097152,4096,2097152"), 6, 14, "4096; expected a multiple of 2097152"),
            (after("mmap,2097152,0,4096"), 6, 16, "4096; expected a multiple of 2097152 for 2MB"),
            (
                after("mmap,1073741824,0,2097152"),
                6,
                19,
                "2097152; expected a multiple of 1073741824 for 1GB",
            ),
            (after("mmap,4096,0,100"), 6, 13, "100; expected a multiple of 4096 for 4KB pages"),
            (after("mmap,2097152,2097152,0"), 6, 22, "ends at 0; expected an end after 2097152"),
            (after("mmap,-1,0,4096"), 6, 6, "its size from line 3; expected one size"),
            (after("brk,2097152,0,2097152"), 6, 1, "overlaps line 5; expected intervals apart"),
            (after("brk,1073741824,1073741824,2147483648"), 6, 1, "overlaps line 5"),
            (after("mmap,2097152,0,419430400"), 6, 1, "ends at 419430400, behind the pool's"),
            (
                "type,pageSize,startOffset,endOffset\nbrk,2097152,0,2097152".into(),
                2,
                1,
                "no line gives this pool its size",
            ),
        ] {
            let problem = read(&text).unwrap_err();
            assert!(problem.text.contains(expected), "{}: {expected}", problem.text);
            assert_eq!((problem.line, problem.column), (line, column), "{text:?}");
        }
    }

    #[test]
    fn transparent_pages_have_2mb_at_most() {
        let text = format!("{SAMPLE}mmap, 1073741824,0,1");
        let problem = parse(&text, PageSize::Size2M).unwrap_err();
        assert!(problem.text.contains("1GB pages; expected 4096 or 2097152"), "{}", problem.text);
        assert_eq!((problem.line, problem.column), (6, 7));
    }

    #[test]
    fn files_have_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("layout1.csv");
        let read = |path: &Path| LayoutFile::read(path, PageSize::Size1G);
        std::fs::write(&path, SAMPLE).unwrap();
        assert_eq!(read(&path).unwrap().name, "layout1");
        std::fs::write(&path, "x").unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("layout1.csv: line 1, column 1: \"x\"; expected"), "{error}");
        assert!(read(folder.path()).is_err());
    }
}
