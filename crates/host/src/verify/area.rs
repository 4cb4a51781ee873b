//! Areas of a program's memory to which advice is given, by name and offset. Addresses change between runs.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use perforate_config::Size;

const PAGE_BYTES: u64 = 4096;
/// Range of all offsets in an area.
pub(super) const WHOLE: Range<u64> = 0..u64::MAX;

/// Memory of a program that can be found again in another run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AreaPart {
    /// The heap grown by brk.
    Heap,
    /// Zero-initialised static data of the program.
    Static,
    /// Private anonymous mapping of at least 2MB, by number from 0 in the order of creation. Mappings at
    /// fixed addresses have no number.
    Mapping(u32),
    /// Shared mapping of at least 2MB, by number from 0 in the order of creation.
    Shared(u32),
    /// All private anonymous memory outside of the heap.
    Anonymous,
    /// Anonymous mappings with this name (PR_SET_VMA_ANON_NAME), without `[anon:]`.
    Named(String),
    /// Code of the files whose paths end in this text.
    Text(String),
}

/// Area of a program's memory that gets large pages by advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvisedArea {
    /// Memory of the area.
    pub part: AreaPart,
    /// Ranges of byte offsets in the area, multiples of 4096; `u64::MAX` ends a range that reaches to the end
    /// of the area. Only the heap, static data and numbered mappings have ranges; empty for all of the area.
    pub ranges: Vec<Range<u64>>,
}

impl AdvisedArea {
    /// Advice for all of a part.
    pub fn whole(part: AreaPart) -> Self {
        Self { part, ranges: Vec::new() }
    }

    /// Advice for all private anonymous memory.
    pub fn everything() -> Vec<Self> {
        [AreaPart::Heap, AreaPart::Anonymous].map(Self::whole).into()
    }

    /// Ranges of byte offsets; one of all bytes for a whole area.
    pub fn byte_ranges(&self) -> Vec<Range<u64>> {
        if self.ranges.is_empty() { vec![WHOLE] } else { self.ranges.clone() }
    }

    /// Addresses of the ranges of an area that lies at these addresses.
    pub(super) fn within(&self, addresses: &Range<u64>) -> Vec<Range<u64>> {
        let place = |range: Range<u64>| {
            let start = addresses.start.saturating_add(range.start);
            start..addresses.start.saturating_add(range.end).min(addresses.end)
        };
        self.byte_ranges().into_iter().map(place).filter(|range| !range.is_empty()).collect()
    }

    /// Text of the area in the variable of the preload library.
    pub(super) fn parameter(&self) -> String {
        let name = self.part.to_string();
        if !self.part.has_ranges() {
            return name;
        }
        let ranges: Vec<String> = self.byte_ranges().iter().map(range_in_pages).collect();
        format!("{name}:{}", ranges.join(","))
    }
}

impl AreaPart {
    fn has_ranges(&self) -> bool {
        matches!(self, Self::Heap | Self::Static | Self::Mapping(_) | Self::Shared(_))
    }
}

fn range_in_pages(range: &Range<u64>) -> String {
    let start = range.start / PAGE_BYTES;
    match range.end {
        u64::MAX => format!("{start}-"),
        end => format!("{start}-{}", end.div_ceil(PAGE_BYTES)),
    }
}

impl fmt::Display for AreaPart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Heap => formatter.write_str("heap"),
            Self::Static => formatter.write_str("static"),
            Self::Mapping(number) => write!(formatter, "mapping{number}"),
            Self::Shared(number) => write!(formatter, "shared{number}"),
            Self::Anonymous => formatter.write_str("anonymous"),
            Self::Named(name) => write!(formatter, "name={name}"),
            Self::Text(path) => write!(formatter, "text={path}"),
        }
    }
}

impl fmt::Display for AdvisedArea {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.part)?;
        for (number, range) in self.ranges.iter().enumerate() {
            formatter.write_str(if number == 0 { ":" } else { "," })?;
            write!(formatter, "{}-", Size(range.start))?;
            if range.end != u64::MAX {
                write!(formatter, "{}", Size(range.end))?;
            }
        }
        Ok(())
    }
}

impl FromStr for AdvisedArea {
    type Err = String;

    /// Parses an area such as `heap`, `mapping3:0-64M,1G-` or `text=libjvm.so`.
    fn from_str(text: &str) -> Result<Self, String> {
        const EXPECTED: &str =
            "expected heap, static, mappingN, sharedN, anonymous, name=NAME or text=FILE";
        let named = |name: &str, part: fn(String) -> AreaPart| {
            let is_sound = !name.is_empty() && !name.contains([';', '\0']);
            is_sound.then(|| Self::whole(part(name.into()))).ok_or(format!("{text}: {EXPECTED}"))
        };
        if let Some(path) = text.strip_prefix("text=") {
            return named(path, AreaPart::Text);
        }
        if let Some(name) = text.strip_prefix("name=") {
            return named(name, AreaPart::Named);
        }
        let (name, ranges) = text.split_once(':').map_or((text, None), |(a, b)| (a, Some(b)));
        let number =
            |prefix| name.strip_prefix(prefix).and_then(|digits: &str| digits.parse().ok());
        let part = match name {
            "heap" => Some(AreaPart::Heap),
            "static" => Some(AreaPart::Static),
            "anonymous" => Some(AreaPart::Anonymous),
            _ => {
                number("mapping").map(AreaPart::Mapping).or(number("shared").map(AreaPart::Shared))
            }
        };
        let part = part.ok_or(format!("{text}: {EXPECTED}"))?;
        let Some(ranges) = ranges else { return Ok(Self::whole(part)) };
        if !part.has_ranges() {
            return Err(format!("{text}: {part} has no offsets; expected {part} alone"));
        }
        let ranges: Result<_, String> = ranges.split(',').map(range).collect();
        Ok(Self { part, ranges: ranges.map_err(|problem| format!("{text}: {problem}"))? })
    }
}

/// Parses a range of offsets such as `0-64M` or `1G-`.
fn range(text: &str) -> Result<Range<u64>, String> {
    let expected = || format!("{text}: expected offsets in whole 4KB pages, such as 0-64M or 1G-");
    let (start, end) = text.split_once('-').ok_or_else(expected)?;
    let bytes = |text: &str| {
        let size: Size = text.parse().map_err(|_| expected())?;
        if size.0.is_multiple_of(PAGE_BYTES) { Ok(size.0) } else { Err(expected()) }
    };
    let start = if start == "0" { 0 } else { bytes(start)? };
    let end = if end.is_empty() { u64::MAX } else { bytes(end)? };
    if start < end { Ok(start..end) } else { Err(expected()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_parsed_and_written() {
        for (text, parameter) in [
            ("heap", "heap:0-"),
            ("heap:0-64M,1G-", "heap:0-16384,262144-"),
            ("mapping3:2M-4M", "mapping3:512-1024"),
            ("shared0", "shared0:0-"),
            ("static", "static:0-"),
            ("anonymous", "anonymous"),
            ("name=arena", "name=arena"),
            ("text=/usr/lib/libjvm.so", "text=/usr/lib/libjvm.so"),
        ] {
            let area: AdvisedArea = text.parse().unwrap();
            assert_eq!((area.to_string().as_str(), area.parameter().as_str()), (text, parameter));
        }
    }

    #[test]
    fn wrong_areas_are_named() {
        for wrong in [
            "",
            "stack",
            "mapping",
            "mappingx",
            "heap:",
            "heap:1-2",
            "heap:2M-1M",
            "heap:x-",
            "text=",
        ] {
            let problem = wrong.parse::<AdvisedArea>().unwrap_err();
            assert!(problem.contains("expected"), "{wrong}: {problem}");
        }
        let problem = "anonymous:0-1M".parse::<AdvisedArea>().unwrap_err();
        assert_eq!(problem, "anonymous:0-1M: anonymous has no offsets; expected anonymous alone");
    }
}
