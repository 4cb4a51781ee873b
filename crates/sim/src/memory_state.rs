//! The memory a program is placed in.

use perforate_os::{Ageing, Defrag, FaultMap, Fragmentation, IoGap, OsError, ZoneLayout};
use perforate_types::PageSize;
use serde::Serialize;

use crate::{Background, MemorySnapshot, ModeSwitching, SimError};

/// Size and injected fragmentation of the simulated memory; the same for every scheme of a
/// comparison, except that an ideal scheme sees no fragmentation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryState {
    /// Physical memory in bytes, a multiple of 2MB.
    pub memory_bytes: u64,
    /// Injected fragmentation, if any.
    pub fragmentation: Option<Fragmentation>,
    /// Options of the policy for perforated pages (`max-hole-share=25%,max-filter-bits=4,
    /// holes=lazy`; P §III.C and §VI), for all schemes that have them.
    pub perforation: Option<String>,
    /// Options of the policy for direct segments (`min=64M,escapes=16,base=…,limit=…`; D §II.B),
    /// for all schemes that have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segment: Option<String>,
    /// Options of the policy for gap-tolerant superpages (`least-blocks=33,from=4G,to=8G`; G §3.8),
    /// for all schemes that have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superpages: Option<String>,
    /// The real machine's memory that it begins as, if it does.
    #[serde(rename = "memory_from", skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<MemorySnapshot>,
    /// What happened to the memory before the program starts.
    #[serde(flatten)]
    pub past: Past,
    /// Kernel threads beside the program.
    pub background: Background,
    /// Which direct segments are made while the program runs, if any are (D Table III).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modes: Option<ModeSwitching>,
    /// The memory of the host under a virtual machine whose memory this is; where none is given, a
    /// memory with room for it and without a past. Native runs have no use for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Box<MemoryState>>,
}

/// What happened to memory before the program starts, and how hard the operating system tries to
/// mend it.
#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct Past {
    /// How memory is divided into zones.
    pub zones: ZoneLayout,
    /// Faulty frames, never used.
    pub faulty: Option<FaultMap>,
    /// System uptime.
    pub ageing: Option<Ageing>,
    /// What a fault does for a 2MB page when no whole block is free.
    pub defrag: Defrag,
    /// Whether background compaction had its time.
    pub compacted: bool,
    /// Swap space in bytes; none: no memory of the program is swapped out.
    pub swap_bytes: u64,
    /// Physical addresses below 4GB without memory, if there are any (D §IV).
    pub io_gap: Option<IoGap>,
    /// Room for memory that self-ballooning adds, in bytes (D §IV).
    pub hot_add_bytes: u64,
}

/// The texts of the options that make a [`Past`].
#[derive(Clone, Copy, Debug, Default)]
pub struct PastOptions<'a> {
    /// `--age`: `PRESET[,unusable=U%][,free=F%]`.
    pub age: Option<&'a str>,
    /// `--faulty`: `uniform=S%`, `clustered=S%`, or a file with one frame number a line.
    pub faulty: Option<&'a str>,
    /// `--compaction`: `none` or `background`.
    pub compaction: Option<&'a str>,
    /// `--defrag`: a mode of [`Defrag`].
    pub defrag: Option<&'a str>,
    /// `--swap`: a size.
    pub swap: Option<&'a str>,
    /// `--zones`: `single`, `x86` or `dma=SIZE,dma32=SIZE`.
    pub zones: Option<&'a str>,
    /// `--io-gap`: `none`, `pc` or `reclaimed`.
    pub io_gap: Option<&'a str>,
    /// `--hot-add`: a size.
    pub hot_add: Option<&'a str>,
}

impl Past {
    /// Reads the options.
    ///
    /// # Errors
    /// What cannot be read, with what would be right.
    pub fn parse(options: PastOptions<'_>) -> Result<Self, SimError> {
        let past = |error: OsError| SimError::Past(error.to_string());
        let compacted = read_compaction(options.compaction)?;
        let defrag = options.defrag.map_or(Ok(Defrag::Never), read_defrag)?;
        let swap_bytes = options.swap.map_or(Ok(0), read_swap)?;
        let zones = options.zones.map_or(Ok(ZoneLayout::Single), parse_zones)?;
        let ageing = options.age.map(str::parse).transpose().map_err(past)?;
        let faulty = options.faulty.map(read_fault_map).transpose()?;
        let io_gap = options.io_gap.map_or(Ok(None), read_io_gap)?;
        let hot_add_bytes = options.hot_add.map_or(Ok(0), read_hot_add)?;
        Ok(Self { zones, faulty, ageing, defrag, compacted, swap_bytes, io_gap, hot_add_bytes })
    }

    /// Short phrases for headings.
    fn describe(&self) -> Vec<String> {
        let mut phrases = Vec::new();
        match self.zones {
            ZoneLayout::Single => {}
            ZoneLayout::X86 => phrases.push("zones of x86-64".into()),
            ZoneLayout::Sizes { dma_bytes, dma32_bytes } => {
                let (dma, dma32) = (format_size(dma_bytes), format_size(dma32_bytes));
                phrases.push(format!("zones: DMA {dma}, DMA32 {dma32}"));
            }
        }
        phrases.extend(self.ageing.as_ref().map(|ageing| format!("aged: {ageing}")));
        phrases.extend(self.faulty.as_ref().map(|faulty| format!("faulty: {faulty}")));
        if self.compacted {
            phrases.push("compacted in the background".into());
        }
        if self.defrag != Defrag::Never {
            phrases.push(format!("defrag {}", self.defrag.name()));
        }
        match self.io_gap {
            None => {}
            Some(gap) if gap.kept_bytes.is_none() => phrases.push("I/O gap".into()),
            Some(_) => phrases.push("I/O gap, memory below it moved above".into()),
        }
        if self.hot_add_bytes > 0 {
            phrases.push(format!("room for {} more", format_size(self.hot_add_bytes)));
        }
        if self.swap_bytes > 0 {
            phrases.push(format!("{} of swap", format_size(self.swap_bytes)));
        }
        phrases
    }
}

fn read_compaction(text: Option<&str>) -> Result<bool, SimError> {
    let problem = match text {
        None | Some("none") => return Ok(false),
        Some("background") => return Ok(true),
        Some(old @ ("direct" | "both")) => {
            format!("not \"{old}\": compaction in page faults is --defrag always")
        }
        Some(other) => format!("not \"{other}\""),
    };
    Err(SimError::Past(format!("--compaction is none or background, {problem}")))
}

fn read_defrag(text: &str) -> Result<Defrag, SimError> {
    Defrag::find(text).ok_or_else(|| {
        let modes = Defrag::ALL.map(Defrag::name).join(", ");
        SimError::Past(format!("--defrag is one of {modes}, not \"{text}\""))
    })
}

fn read_swap(text: &str) -> Result<u64, SimError> {
    let bytes = parse_size("--swap", text)?;
    if bytes > MemoryState::MAXIMUM_BYTES {
        let problem = "at most 64T of swap can be simulated";
        return Err(SimError::Size { option: "--swap", text: text.into(), problem });
    }
    Ok(bytes)
}

fn read_io_gap(text: &str) -> Result<Option<IoGap>, SimError> {
    match text {
        "none" => Ok(None),
        "pc" => Ok(Some(IoGap::PC)),
        "reclaimed" => Ok(Some(IoGap::RECLAIMED)),
        _ => Err(SimError::Past(format!("--io-gap is none, pc or reclaimed, not \"{text}\""))),
    }
}

/// Room that is kept free from boot takes time for each 4MB of it.
const MOST_ADDED_BYTES: u64 = 4 << 40;

/// Whole blocks of 4MB, so that what is added can be one run of them.
fn read_hot_add(text: &str) -> Result<u64, SimError> {
    let bytes = parse_size("--hot-add", text)?;
    if bytes > MOST_ADDED_BYTES {
        let problem = "at most 4T can be added";
        return Err(SimError::Size { option: "--hot-add", text: text.into(), problem });
    }
    Ok(bytes.next_multiple_of(4 << 20))
}

/// `single`, `x86`, or `dma=SIZE,dma32=SIZE`.
fn parse_zones(text: &str) -> Result<ZoneLayout, SimError> {
    let wrong = || {
        let forms = "single, x86 or sizes such as dma=16M,dma32=2G";
        SimError::Past(format!("--zones is {forms}, not \"{text}\""))
    };
    let (mut dma, mut dma32) = (None, None);
    for word in text.split(',') {
        let (zone, size) = match (text, word.split_once('=')) {
            ("single", _) => return Ok(ZoneLayout::Single),
            ("x86", _) => return Ok(ZoneLayout::X86),
            (_, Some(("dma", size))) => (&mut dma, size),
            (_, Some(("dma32", size))) => (&mut dma32, size),
            _ => return Err(wrong()),
        };
        if zone.replace(parse_size("--zones", size)?).is_some() {
            return Err(wrong());
        }
    }
    let (dma_bytes, dma32_bytes) = (dma.unwrap_or(0), dma32.unwrap_or(0));
    Ok(ZoneLayout::Sizes { dma_bytes, dma32_bytes })
}

/// A share, or a file that lists frames.
fn read_fault_map(text: &str) -> Result<FaultMap, SimError> {
    if !text.contains('=') {
        let file = |problem: String| SimError::Past(format!("--faulty {text}: {problem}"));
        let content = std::fs::read_to_string(text).map_err(|error| {
            let forms =
                "write uniform=1%, clustered=1% or name a file with one frame number a line";
            file(format!("{error}; {forms}"))
        })?;
        return FaultMap::from_lines(&content).map_err(|error| file(error.to_string()));
    }
    text.parse().map_err(|error: OsError| {
        SimError::Past(format!("--faulty: {error}, or name a file with one frame number a line"))
    })
}

impl MemoryState {
    /// Memory where none is named: room for the default workloads at any fragmentation.
    pub const DEFAULT_BYTES: u64 = 16 << 30;
    /// Largest simulated memory: what 46 physical address bits reach.
    pub const MAXIMUM_BYTES: u64 = 1 << 46;

    /// Reads `--memory`, `--fragmentation` and `--perforation`.
    ///
    /// # Errors
    /// Sizes and shares that cannot be.
    pub fn parse(
        memory: Option<&str>,
        fragmentation: Option<&str>,
        perforation: Option<&str>,
    ) -> Result<Self, SimError> {
        let memory_bytes = memory.map_or(Ok(Self::DEFAULT_BYTES), |text| {
            let bytes = parse_size("--memory", text)?;
            let wrong = |problem| SimError::Size { option: "--memory", text: text.into(), problem };
            if bytes < 4 << 20 {
                return Err(wrong("at least 4M of memory are needed"));
            }
            if bytes > Self::MAXIMUM_BYTES {
                return Err(wrong("at most 64T (46 address bits) can be simulated"));
            }
            Ok(bytes & !(PageSize::Size2M.bytes() - 1))
        })?;
        let fragmentation =
            fragmentation.filter(|text| *text != "none").map(str::parse).transpose().map_err(
                |error: perforate_os::OsError| SimError::Fragmentation(error.to_string()),
            )?;
        let perforation = perforation.map(String::from);
        if let Some(options) = &perforation {
            perforate_os::parse_policy(&format!("perforated:{options}"))
                .map_err(|error| SimError::Perforation(error.to_string()))?;
        }
        Ok(Self {
            memory_bytes,
            fragmentation,
            perforation,
            segment: None,
            superpages: None,
            snapshot: None,
            past: Past::default(),
            background: Background::default(),
            modes: None,
            host: None,
        })
    }

    /// The same memory with a past.
    ///
    /// # Errors
    /// If fragmentation is injected and produced by ageing at once, or a faulty frame lies outside
    /// the memory.
    pub fn with_past(self, past: Past) -> Result<Self, SimError> {
        if past.ageing.is_some() && self.fragmentation.is_some() {
            let problem = "--age produces fragmentation, --fragmentation injects it: choose one";
            return Err(SimError::Past(problem.into()));
        }
        let zones = |reason| SimError::Past(format!("--zones: {reason}"));
        past.zones.check(self.memory_bytes).map_err(zones)?;
        if let Some(list @ FaultMap::Frames(_)) = &past.faulty {
            let frames = self.memory_bytes / PageSize::Size4K.bytes();
            list.frames(frames, 0).map_err(|error| SimError::Past(format!("--faulty: {error}")))?;
        }
        Ok(Self { past, ..self })
    }

    /// The memory of a snapshot instead, of its size and in its state.
    ///
    /// # Errors
    /// If fragmentation, a past or a layout is asked for besides; or it is too large.
    pub fn with_snapshot(self, snapshot: MemorySnapshot) -> Result<Self, SimError> {
        let Past { zones, faulty, ageing, io_gap, hot_add_bytes, .. } = &self.past;
        let conflicts = [
            (self.fragmentation.is_some(), "--fragmentation"),
            (ageing.is_some(), "--age"),
            (faulty.is_some(), "--faulty"),
            (*zones != ZoneLayout::Single, "--zones"),
            (io_gap.is_some(), "--io-gap"),
            (*hot_add_bytes > 0, "--hot-add"),
        ];
        if let Some((_, option)) = conflicts.iter().find(|(conflicts, _)| *conflicts) {
            return Err(SimError::Past(format!(
                "--memory-from says what lies in every frame and {option} says otherwise: choose one"
            )));
        }
        let memory_bytes = snapshot.memory_bytes() & !(PageSize::Size2M.bytes() - 1);
        if memory_bytes < 4 << 20 {
            let problem = "it has less than the 4M of memory that are needed".into();
            return Err(SimError::Snapshot { path: snapshot.file, problem });
        }
        Ok(Self { memory_bytes, snapshot: Some(snapshot), ..self })
    }

    /// The same memory with options for direct segments.
    ///
    /// # Errors
    /// Options that there are not, or values that make no sense.
    pub fn with_segment(self, options: Option<&str>) -> Result<Self, SimError> {
        if let Some(options) = options {
            perforate_os::parse_policy(&format!("segment:{options}"))
                .map_err(|error| SimError::Segment(error.to_string()))?;
        }
        Ok(Self { segment: options.map(String::from), ..self })
    }

    /// The same memory with options for gap-tolerant superpages.
    ///
    /// # Errors
    /// Options that there are not, or values that make no sense.
    pub fn with_superpages(self, options: Option<&str>) -> Result<Self, SimError> {
        if let Some(options) = options {
            perforate_os::parse_policy(&format!("gap-tolerant:{options}"))
                .map_err(|error| SimError::Superpages(error.to_string()))?;
        }
        Ok(Self { superpages: options.map(String::from), ..self })
    }

    /// Physical addresses that there are at most: the I/O gap and room to add are among them.
    pub(crate) fn address_bytes(&self) -> u64 {
        if let Some(snapshot) = &self.snapshot {
            return snapshot.address_bytes();
        }
        let gap_bytes = self.past.io_gap.map_or(0, |gap| gap.end_bytes);
        self.memory_bytes.saturating_add(gap_bytes).saturating_add(self.past.hot_add_bytes)
    }

    /// One short phrase, for headings.
    pub fn describe(&self) -> String {
        let memory = format_size(self.memory_bytes);
        let state = match &self.fragmentation {
            Some(fragmentation) => format!("{memory} of memory, fragmented: {fragmentation}"),
            None if self.snapshot.is_some() => {
                let file = self.snapshot.as_ref().map_or("", |snapshot| &snapshot.file);
                format!("{memory} of memory as in {file}")
            }
            None if self.past.ageing.is_none() => format!("{memory} of memory, not fragmented"),
            None => format!("{memory} of memory"),
        };
        let policy = self.perforation.as_ref().map(|options| format!("perforation: {options}"));
        let phrases = std::iter::once(state).chain(self.past.describe());
        let segment = self.segment.as_ref().map(|options| format!("segment: {options}"));
        let superpages = self.superpages.as_ref().map(|options| format!("superpages: {options}"));
        let phrases = phrases.chain(self.background.describe()).chain(policy).chain(segment);
        let phrases = phrases.chain(superpages);
        phrases.collect::<Vec<_>>().join("; ")
    }
}

/// Reads a size in bytes with an optional suffix K, M, G or T (powers of 1024).
///
/// # Errors
/// Anything else, or a size over 2⁶⁴.
pub fn parse_size(option: &'static str, text: &str) -> Result<u64, SimError> {
    let wrong = |problem| SimError::Size { option, text: text.into(), problem };
    let trimmed = text.trim().trim_end_matches(['B', 'b']).trim_end_matches(['i']);
    let digits = trimmed.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match trimmed[digits.len()..].to_ascii_uppercase().as_str() {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(wrong("unknown unit")),
    };
    let number: u64 = digits.parse().map_err(|_| wrong("not a whole number of bytes"))?;
    number.checked_mul(1 << shift).ok_or_else(|| wrong("too large"))
}

fn format_size(bytes: u64) -> String {
    for (shift, unit) in [(40, "TB"), (30, "GB"), (20, "MB")] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    format!("{}MB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("--memory", "4G").unwrap(), 4 << 30);
        assert_eq!(parse_size("--memory", "4GiB").unwrap(), 4 << 30);
        assert_eq!(parse_size("--memory", "512mb").unwrap(), 512 << 20);
        assert_eq!(parse_size("--memory", "100").unwrap(), 100);
        for wrong in ["", "G", "4X", "-1G", "1.5G", "99999999999999999999", "99999999T"] {
            assert!(parse_size("--memory", wrong).is_err(), "{wrong}");
        }
        assert!(MemoryState::parse(Some("0"), None, None).is_err());
        assert!(MemoryState::parse(Some("65T"), None, None).is_err());
        assert_eq!(MemoryState::parse(Some("1T"), None, None).unwrap().memory_bytes, 1 << 40);
    }
}
