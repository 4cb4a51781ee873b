//! `v2p.textproto`: physical address of each page of the recorded program. In Google's workload traces,
//! the map is made up of "plausible" 2MB pages, for simulations of TLBs.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use perforate_config::open_file;
use perforate_types::counted;

use super::text_message::{Item, Problem, TextMessage, Value, line_and_column};
use crate::TraceError;

/// File names under which drmemtrace folders have a page map.
const NAMES: [&str; 1] = ["v2p.textproto"];
/// Maximum length of a page map's file in bytes; enough for 2 million pages.
const MAX_BYTES: u64 = 256 << 20;
/// Valid page sizes in bytes. No processor has larger pages.
const PAGE_BYTES: std::ops::RangeInclusive<u64> = 4096..=1 << 40;

/// One page of the page map: virtual and physical address, and size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Page {
    address: u64,
    physical: u64,
    bytes: u64,
}

impl Page {
    /// Virtual address of the last byte of the page. The end of the page may be the end of the address space.
    fn last(self) -> u64 {
        self.address + (self.bytes - 1)
    }

    /// True if `next` directly follows this page in virtual and in physical memory.
    fn is_followed_by(self, next: Self) -> bool {
        self.address.checked_add(self.bytes) == Some(next.address)
            && self.physical.checked_add(self.bytes) == Some(next.physical)
    }
}

/// Page map of a recorded program: virtual and physical addresses of its pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageMap {
    path: PathBuf,
    /// Pages sorted by virtual address, without overlaps.
    pages: Vec<Page>,
    remarks: Vec<String>,
}

/// Totals that the file states in an `information` message, for a group of pages or for all.
#[derive(Clone, Copy, Default)]
struct StatedTotals {
    pages: Option<u64>,
    bytes: Option<u64>,
}

/// A page, with the byte offset of its virtual address in the map's text.
type LocatedPage = (Page, usize);

impl PageMap {
    /// Finds and reads the page map of a drmemtrace trace: in the folder of the trace, in a folder
    /// `aux` or `raw` there, or next to the folder `trace`. `None` if there is no map.
    ///
    /// # Errors
    /// If the map cannot be read, or the errors of [`PageMap::parse`].
    pub fn beside(trace: &Path) -> Result<Option<Self>, TraceError> {
        let Some(path) = super::find(trace, &NAMES) else { return Ok(None) };
        let mut bytes = Vec::new();
        let file = open_file(&path).map_err(|error| TraceError::io(&path, "open", error))?;
        let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|error| TraceError::io(&path, "read", error))?;
        Self::parse(&path, &bytes).map(Some)
    }

    /// Parses a map; `path` is used in messages.
    ///
    /// # Errors
    /// If the content is not a valid map: line, column, and what was expected.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, TraceError> {
        if bytes.len() as u64 > MAX_BYTES {
            let problem = "a page map of more than 256 MB";
            return Err(TraceError::unsuitable(path, problem, "larger pages, and fewer"));
        }
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let offset = error.valid_up_to() as u64;
            TraceError::damaged(path, offset, "bytes that are no text", "a v2p.textproto file")
        })?;
        let (pages, remarks) =
            read(text).map_err(|Problem { offset, text: problem, expected }| {
                let (line, column) = line_and_column(text, offset);
                let problem = format!("line {line}, column {column}: {problem}");
                TraceError::damaged(path, offset as u64, problem, expected)
            })?;
        Ok(Self { path: path.to_owned(), pages, remarks })
    }

    /// Path of the file from which the page map was read.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns each page size in bytes with its number of pages, smallest size first.
    pub fn sizes(&self) -> Vec<(u64, u64)> {
        let mut counts = BTreeMap::new();
        for page in &self.pages {
            *counts.entry(page.bytes).or_default() += 1;
        }
        counts.into_iter().collect()
    }

    /// Total size of all pages of the map, in bytes.
    pub fn bytes(&self) -> u64 {
        self.pages.iter().fold(0, |sum: u64, page| sum.saturating_add(page.bytes))
    }

    /// Number of maximal runs of pages that are contiguous in both address spaces, and the bytes of the
    /// longest run.
    pub fn runs(&self) -> (u64, u64) {
        let (mut runs, mut longest) = (0, 0);
        for run in self.pages.chunk_by(|page, next| page.is_followed_by(*next)) {
            runs += 1;
            longest = longest.max(run.iter().map(|page| page.bytes).sum());
        }
        (runs, longest)
    }

    /// Translates a virtual address. `None` if its page is not in the map.
    pub fn translate(&self, address: u64) -> Option<u64> {
        let after = self.pages.partition_point(|page| page.address <= address);
        let page = self.pages[..after].last().filter(|page| address <= page.last())?;
        Some(page.physical + (address - page.address))
    }

    /// Oddities of the page map that do not prevent its use, one sentence each.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }
}

/// Parses the text of a map. Returns its pages, sorted by address, and remarks about oddities.
fn read(text: &str) -> Result<(Vec<Page>, Vec<String>), Problem> {
    let mut message = TextMessage::new(text);
    let mut pages: Vec<LocatedPage> = Vec::new();
    let (mut stated, mut remarks) = (StatedTotals::default(), Vec::new());
    while let Some(item) = message.next()? {
        match item {
            Item::Begin("address_mapping_group") => {
                let before = pages.len();
                let of_group = group(&mut message, &mut pages)?;
                remarks.extend(of_group.check("a group", &pages[before..]));
            }
            Item::Begin("information") => stated.read(&mut message)?,
            Item::Begin(_) => skip_message(&mut message)?,
            Item::End | Item::Field(..) => {}
        }
    }
    if pages.is_empty() {
        let expected = "address_mapping_group { page_size: … address_mapping { … } … }";
        return Err(Problem { offset: 0, text: "no page".to_owned(), expected });
    }
    remarks.extend(stated.check("the file", &pages));
    let pages = sorted(pages)?;
    let frames: BTreeSet<u64> = pages.iter().map(|page| page.physical).collect();
    if frames.len() < pages.len() {
        let shared = pages.len() - frames.len();
        let have = if shared == 1 { "has" } else { "have" };
        remarks.push(format!("{} {have} the physical address of another", counted(shared, "page")));
    }
    Ok((pages, remarks))
}

/// Reads an `address_mapping_group` up to its end, and adds its pages to `pages`. Returns the totals that the
/// group states.
fn group(
    message: &mut TextMessage<'_>,
    pages: &mut Vec<LocatedPage>,
) -> Result<StatedTotals, Problem> {
    let mut size: Option<Value<'_>> = None;
    let (mut stated, mut mappings) = (StatedTotals::default(), Vec::new());
    while let Some(item) = message.next()? {
        match item {
            Item::Field("page_size", value) => size = Some(value),
            Item::Begin("address_mapping") => mappings.push(mapping(message)?),
            Item::Begin("information") => stated.read(message)?,
            Item::Begin(_) => skip_message(message)?,
            Item::Field(..) => {}
            Item::End => break,
        }
    }
    let Some((first, _)) = mappings.first() else { return Ok(stated) };
    let Some(size) = size else {
        let text = "a page in a group without page_size".to_owned();
        return Err(Problem { offset: first.offset, text, expected: "page_size: BYTES" });
    };
    let bytes = size.number()?;
    if !bytes.is_power_of_two() || !PAGE_BYTES.contains(&bytes) {
        let text = format!("pages of {bytes} bytes");
        let expected = "a power of two from 4096 to 2^40";
        return Err(Problem { offset: size.offset, text, expected });
    }
    for (address, physical) in mappings {
        let [from, to] = [address, physical].map(|value| aligned(value, bytes));
        pages.push((Page { address: from?, physical: to?, bytes }, address.offset));
    }
    Ok(stated)
}

/// Reads the message of one page, with its virtual and its physical address.
fn mapping<'a>(message: &mut TextMessage<'a>) -> Result<(Value<'a>, Value<'a>), Problem> {
    let mut addresses = [None; 2];
    loop {
        match message.next()? {
            Some(Item::Field("virtual_address", value)) => addresses[0] = Some(value),
            Some(Item::Field("physical_address", value)) => addresses[1] = Some(value),
            Some(Item::Field(..)) => {}
            Some(Item::Begin(_)) => skip_message(message)?,
            Some(Item::End) | None => break,
        }
    }
    match addresses {
        [Some(from), Some(to)] => Ok((from, to)),
        _ => {
            Err(message
                .wrong("a page without both addresses", "virtual_address and physical_address"))
        }
    }
}

fn aligned(value: Value<'_>, bytes: u64) -> Result<u64, Problem> {
    let address = value.number()?;
    if address.is_multiple_of(bytes) {
        return Ok(address);
    }
    let text = format!("{} in a group with pages of {bytes} bytes", value.text);
    Err(Problem { offset: value.offset, text, expected: "a multiple of the page size" })
}

/// Skips the rest of a message, including nested messages.
fn skip_message(message: &mut TextMessage<'_>) -> Result<(), Problem> {
    let mut depth = 1;
    while depth > 0 {
        match message.next()? {
            Some(Item::Begin(_)) => depth += 1,
            Some(Item::End) => depth -= 1,
            Some(Item::Field(..)) => {}
            None => break,
        }
    }
    Ok(())
}

/// Sorts the pages by virtual address; fails if two overlap.
fn sorted(mut pages: Vec<LocatedPage>) -> Result<Vec<Page>, Problem> {
    pages.sort_by_key(|(page, offset)| (page.address, *offset));
    for pair in pages.windows(2) {
        let [(first, _), (second, offset)] = pair else { continue };
        if second.address <= first.last() {
            let text = format!("{:#x} is in the page at {:#x}", second.address, first.address);
            let expected = "pages apart from each other";
            return Err(Problem { offset: *offset, text, expected });
        }
    }
    Ok(pages.into_iter().map(|(page, _)| page).collect())
}

impl StatedTotals {
    /// Reads the totals of an `information` message, up to its end.
    fn read(&mut self, message: &mut TextMessage<'_>) -> Result<(), Problem> {
        loop {
            match message.next()? {
                Some(Item::Field("page_count", value)) => self.pages = Some(value.number()?),
                Some(Item::Field("bytes_mapped", value)) => self.bytes = Some(value.number()?),
                Some(Item::Field(..)) => {}
                Some(Item::Begin(_)) => skip_message(message)?,
                Some(Item::End) | None => return Ok(()),
            }
        }
    }

    /// Compares the totals that the file states with its pages. Returns the differences as remarks, which
    /// call the group of pages `of`.
    fn check(self, of: &str, pages: &[LocatedPage]) -> Vec<String> {
        let count = pages.len() as u64;
        let bytes = pages.iter().fold(0, |sum: u64, (page, _)| sum.saturating_add(page.bytes));
        let differs = |claimed: Option<u64>, found, what| {
            let claimed = claimed.filter(|claimed| *claimed != found)?;
            Some(format!("{of} says that it has {claimed} {what}, and has {found}"))
        };
        let both = [differs(self.pages, count, "pages"), differs(self.bytes, bytes, "bytes")];
        both.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pages that are adjacent in both address spaces, and one that is adjacent in neither.
    const SAMPLE: &str = "# VirtualToPhysical
address_mapping_group {
  page_size: 2097152
  address_mapping {
    virtual_address: 0x600000
    physical_address: 0x400000
  }
  address_mapping { virtual_address: 4194304 physical_address: 2097152 }
  address_mapping { physical_address: 0x200000000, virtual_address: 0x7f0000000000 }
  information { page_count: 3 bytes_mapped: 6291456 }
}
information { page_count: 3 bytes_mapped: 6291456 }
";

    fn parse(text: &str) -> Result<PageMap, String> {
        PageMap::parse(Path::new("v2p"), text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn pages_and_their_runs() {
        let map = parse(SAMPLE).unwrap();
        assert_eq!(map.sizes(), [(2 << 20, 3)]);
        assert_eq!((map.bytes(), map.runs()), (6 << 20, (2, 4 << 20)));
        assert!(map.remarks().is_empty(), "{:?}", map.remarks());
        for (address, physical) in [
            (0x3f_ffff, None),
            (0x40_0000, Some(0x20_0000)),
            (0x7f_ffff, Some(0x5f_ffff)),
            (0x80_0000, None),
            (0x7f00_001f_ffff, Some(0x2_001f_ffff)),
            (u64::MAX, None),
        ] {
            assert_eq!(map.translate(address), physical, "{address:#x}");
        }
    }

    #[test]
    fn pages_of_two_sizes_and_at_the_end_of_the_address_space() {
        let text = SAMPLE.replace("page_count: 3", "page_count: 4")
            + "address_mapping_group { page_size: 0x1000 address_mapping {
               virtual_address: 0xfffffffffffff000 physical_address: 0x200000 } }";
        let map = parse(&text).unwrap();
        assert_eq!(map.sizes(), [(4096, 1), (2 << 20, 3)]);
        assert_eq!(map.translate(u64::MAX), Some(0x20_0fff));
        let remarks = [
            "a group says that it has 4 pages, and has 3",
            "the file says that it has 6291456 bytes, and has 6295552",
            "1 page has the physical address of another",
        ];
        assert_eq!(map.remarks(), remarks);
    }

    #[test]
    fn errors_name_the_place_and_what_would_be_right() {
        for (old, new, expected) in [
            (
                "2097152\n",
                "2097153\n",
                "line 3, column 14: pages of 2097153 bytes; expected a power",
            ),
            ("2097152\n", "2048\n", "line 3, column 14: pages of 2048 bytes; expected a power"),
            ("2097152\n", "0x20000000000\n", "line 3, column 14: pages of 2199023255552 bytes"),
            (
                "0x600000",
                "0x600001",
                "line 5, column 22: 0x600001 in a group with pages of 2097152",
            ),
            ("0x600000", "x", "line 5, column 22: \"x\"; expected a whole number"),
            ("0x600000", "0x400000", "line 8, column 38: 0x400000 is in the page at 0x400000"),
            ("page_size: 2097152", "", "line 5, column 22: a page in a group without page_size"),
            (
                "    physical_address: 0x400000\n",
                "",
                "line 6, column 4: a page without both addresses",
            ),
            ("information { page_count: 3 bytes_mapped: 6291456 }\n}", "", "the text ends inside"),
            (SAMPLE, "", "line 1, column 1: no page; expected address_mapping_group"),
        ] {
            let error = parse(&SAMPLE.replacen(old, new, 1)).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let error = PageMap::parse(Path::new("v2p"), b"\xff").unwrap_err().to_string();
        assert!(error.contains("byte 0: bytes that are no text"), "{error}");
    }

    #[test]
    fn maps_are_found_next_to_traces() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace");
        std::fs::create_dir(&trace).unwrap();
        let file = trace.join("1.2.memtrace.zip");
        std::fs::write(&file, "").unwrap();
        let everywhere = [folder.path(), &trace, &file];
        for path in everywhere {
            assert_eq!(PageMap::beside(path).unwrap(), None);
        }
        for place in ["aux", "trace/raw", "trace/aux", "trace", "."] {
            let own = folder.path().join(place);
            std::fs::create_dir_all(&own).unwrap();
            std::fs::write(own.join("v2p.textproto"), SAMPLE).unwrap();
            for path in everywhere {
                assert!(PageMap::beside(path).unwrap().is_some(), "{place}: {}", path.display());
            }
            std::fs::remove_file(own.join("v2p.textproto")).unwrap();
        }
        assert_eq!(PageMap::beside(Path::new("-")).unwrap(), None);
    }
}
