//! Parser of the variable `PERFORATE_ADVICE`, such as
//! `heap:0-512;mapping3:0-;anonymous;text=libjvm.so;inherit;report=/a/file`: a list of areas with ranges
//! of offsets in pages of 4KB, and settings. A range without an end reaches to the end of its area.

use super::environment::number;

/// Bytes of a page of 4KB.
pub const PAGE_BYTES: usize = 4096;
/// Maximum number of areas.
pub const MAX_ITEMS: usize = 1000;

/// Memory that an item gives advice on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The heap grown by brk.
    Heap,
    /// Zero-initialised static data of the program.
    Static,
    /// Private anonymous mapping of at least 2MB, by number from 0 in the order of creation.
    Mapping(usize),
    /// Shared mapping of at least 2MB, by number from 0 in the order of creation.
    Shared(usize),
    /// All private anonymous memory outside of the heap.
    Anonymous,
    /// Anonymous mappings that the program gave this name (PR_SET_VMA_ANON_NAME).
    Named(&'static [u8]),
    /// Code of files whose paths end in this text.
    Text(&'static [u8]),
}

/// Area, and the ranges in the area that get large pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Memory of the area.
    pub part: Part,
    /// Unparsed ranges, such as `0-512,1024-`, in pages of 4KB; empty if the item has none.
    ranges: &'static [u8],
}

/// Settings beside the areas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// True if programs that the program executes get the same advice.
    pub inherits: bool,
    /// True to have large pages in advised memory only, where the system gives them to all memory.
    pub only_advised: bool,
    /// True to give no advice and only report where the areas are.
    pub is_silent: bool,
    /// Path of the report file; empty for no report.
    pub report: &'static [u8],
}

impl Item {
    /// An item of nothing, which fills unused places.
    pub const NONE: Self = Self { part: Part::Text(b""), ranges: b"" };

    /// Ranges of byte offsets in the area (start, end), in the order in which they were written.
    pub fn ranges(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        self.ranges.split(|byte| *byte == b',').filter_map(range)
    }
}

/// Parses a range such as `0-512` or `7-`, in pages of 4KB. Returns bytes.
fn range(text: &[u8]) -> Option<(usize, usize)> {
    let dash = text.iter().position(|byte| *byte == b'-')?;
    let bytes = |digits: &[u8]| number(digits)?.checked_mul(PAGE_BYTES);
    let end = if dash + 1 == text.len() { usize::MAX } else { bytes(&text[dash + 1..])? };
    let start = bytes(&text[..dash])?;
    (start < end).then_some((start, end))
}

/// Parses the value of `PERFORATE_ADVICE` into `items`. Returns the settings and the number of items; `None`
/// if the text is malformed.
pub fn parse(text: &'static [u8], items: &mut [Item]) -> Option<(Settings, usize)> {
    let (mut settings, mut count) = (Settings::default(), 0);
    for word in text.split(|byte| *byte == b';').filter(|word| !word.is_empty()) {
        match word {
            b"inherit" => settings.inherits = true,
            b"only-advised" => settings.only_advised = true,
            b"silent" => settings.is_silent = true,
            _ if let Some(path) = word.strip_prefix(b"report=") => settings.report = path,
            _ => {
                *items.get_mut(count)? = item(word)?;
                count += 1;
            }
        }
    }
    Some((settings, count))
}

fn item(word: &'static [u8]) -> Option<Item> {
    if word == b"anonymous" {
        return Some(Item { part: Part::Anonymous, ranges: b"" });
    }
    for (prefix, part) in
        [(&b"text="[..], Part::Text as fn(&'static [u8]) -> Part), (b"name=", Part::Named)]
    {
        if let Some(name) = word.strip_prefix(prefix) {
            return (!name.is_empty()).then_some(Item { part: part(name), ranges: b"" });
        }
    }
    let colon = word.iter().position(|byte| *byte == b':')?;
    let (name, ranges) = (&word[..colon], &word[colon + 1..]);
    let part = match name {
        b"heap" => Part::Heap,
        b"static" => Part::Static,
        _ if let Some(digits) = name.strip_prefix(b"mapping") => Part::Mapping(number(digits)?),
        _ => Part::Shared(number(name.strip_prefix(b"shared")?)?),
    };
    let is_sound = ranges.split(|byte| *byte == b',').all(|text| range(text).is_some());
    is_sound.then_some(Item { part, ranges })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_are_parsed() {
        let mut items = [Item::NONE; 8];
        let text = b"heap:0-512;mapping3:1-2,7-;shared0:0-;static:0-;anonymous;text=libjvm.so;\
                     name=arena;inherit;only-advised;silent;report=/a/file";
        let (settings, count) = parse(text, &mut items).unwrap();
        assert_eq!(
            settings,
            Settings { inherits: true, only_advised: true, is_silent: true, report: b"/a/file" }
        );
        let parts: [Part; 7] = core::array::from_fn(|number| items[number].part);
        let expected = [
            Part::Heap,
            Part::Mapping(3),
            Part::Shared(0),
            Part::Static,
            Part::Anonymous,
            Part::Text(b"libjvm.so"),
            Part::Named(b"arena"),
        ];
        assert_eq!((count, parts), (7, expected));
        assert!(items[0].ranges().eq([(0, 2 << 20)]));
        assert!(items[1].ranges().eq([(4096, 8192), (28672, usize::MAX)]));
        assert_eq!(items[4].ranges().count(), 0);
    }

    #[test]
    fn malformed_texts_are_rejected() {
        for wrong in [
            &b"heap"[..],
            b"heap:",
            b"heap:2-1",
            b"heap:0-5,x",
            b"mapping:0-1",
            b"stack:0-1",
            b"text=",
            b"mapping1:0-9999999999999",
        ] {
            let found = parse(wrong, &mut [Item::NONE; 2]);
            assert_eq!(found, None, "{}", wrong.escape_ascii());
        }
        assert_eq!(parse(b"heap:0-;static:0-", &mut [Item::NONE; 1]), None, "too many");
    }
}
