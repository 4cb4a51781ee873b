//! The memory a program is placed in.

mod faulty;
mod host;
mod options;

use perforate_config::ConfigError;
use perforate_os::{
    Ageing, Defrag, FaultMap, Fragmentation, IoGap, LaidOut, PageLayout, ZoneLayout,
};
use perforate_trace::layout::LayoutFile;
use perforate_types::PageSize;
use serde::Serialize;

use crate::{Background, MemorySnapshot, ModeSwitching, PolicyOptions, SimError};
pub use faulty::FaultyFrames;
pub use options::{Compaction, MemoryOptions, Snapshots};

/// Size and injected fragmentation of the simulated memory; the same for every scheme of a
/// comparison, except that an ideal scheme sees no fragmentation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryState {
    /// Physical memory in bytes, a multiple of 2MB.
    pub memory_bytes: u64,
    /// Injected fragmentation, if any.
    pub fragmentation: Option<Fragmentation>,
    /// Options for all schemes of a mechanism, over their own.
    #[serde(flatten)]
    pub policies: PolicyOptions,
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
    /// The pools that the program's memory lies in, and their pages under the scheme that has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<LayoutFile>,
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

impl Past {
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
            phrases.push(format!("defrag {}", self.defrag));
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

impl MemoryState {
    /// Memory where none is named: room for the default workloads at any fragmentation.
    pub const DEFAULT_BYTES: u64 = 16 << 30;
    /// Largest simulated memory: what 46 physical address bits reach.
    pub const MAXIMUM_BYTES: u64 = 1 << 46;

    /// A memory of this size, down to whole 2MB blocks, without a past and not fragmented.
    pub fn of(memory_bytes: u64) -> Self {
        Self {
            memory_bytes: memory_bytes & !(PageSize::Size2M.bytes() - 1),
            fragmentation: None,
            policies: PolicyOptions::default(),
            snapshot: None,
            past: Past::default(),
            background: Background::default(),
            modes: None,
            layout: None,
            host: None,
        }
    }

    /// The options of policies, which know what kind of memory this is.
    pub fn policy_options(&self) -> PolicyOptions {
        let is_emulated = self.fragmentation.is_some() || self.past.faulty.is_some();
        let is_aged = self.past.ageing.is_some() || self.snapshot.is_some();
        let layout = self.layout.as_ref().map(|file| LaidOut {
            layout: PageLayout::new(file.addresses()),
            name: file.name.clone(),
        });
        let layout = layout.or_else(|| self.policies.layout.clone());
        PolicyOptions { has_aged_blocks: is_aged && !is_emulated, layout, ..self.policies.clone() }
    }

    /// Checks that its parts go together.
    ///
    /// # Errors
    /// Fragmentation that is injected and produced by ageing at once; zones or faulty frames that
    /// lie outside the memory.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let wrong = |key: &str, problem: &str| Err(ConfigError::new(problem).under(key));
        if self.past.ageing.is_some() && self.fragmentation.is_some() {
            return wrong(
                "age",
                "produces fragmentation, and fragmentation injects it: choose one",
            );
        }
        if let Err(problem) = self.past.zones.check(self.memory_bytes) {
            return wrong("zones", problem);
        }
        if let Some(list @ FaultMap::Frames(_)) = &self.past.faulty {
            let frames = self.memory_bytes / PageSize::Size4K.bytes();
            list.frames(frames, 0).map_err(|error| error.under("faulty"))?;
        }
        Ok(())
    }

    /// The memory of a snapshot instead, of its size and in its state.
    ///
    /// # Errors
    /// If fragmentation, a past or a layout is asked for besides; or it is too large.
    pub fn with_snapshot(self, snapshot: MemorySnapshot) -> Result<Self, SimError> {
        let Past { zones, faulty, ageing, io_gap, hot_add_bytes, .. } = &self.past;
        let conflicts = [
            (self.fragmentation.is_some(), "fragmentation"),
            (ageing.is_some(), "age"),
            (faulty.is_some(), "faulty"),
            (*zones != ZoneLayout::Single, "zones"),
            (io_gap.is_some(), "io-gap"),
            (*hot_add_bytes > 0, "hot-add"),
        ];
        if let Some((_, option)) = conflicts.iter().find(|(conflicts, _)| *conflicts) {
            let problem =
                format!("says what lies in every frame, and {option} says otherwise: choose one");
            return Err(ConfigError::new(problem).under("memory-from").into());
        }
        let memory_bytes = snapshot.memory_bytes() & !(PageSize::Size2M.bytes() - 1);
        if memory_bytes < 4 << 20 {
            let problem = "it has less than the 4M of memory that are needed".into();
            return Err(SimError::Snapshot { path: snapshot.file, problem });
        }
        Ok(Self { memory_bytes, snapshot: Some(snapshot), ..self })
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
        let policy =
            self.policies.perforation.as_ref().map(|options| format!("perforation: {options}"));
        let phrases = std::iter::once(state).chain(self.past.describe());
        let segment = self.policies.segment.as_ref().map(|options| format!("segment: {options}"));
        let superpages =
            self.policies.superpages.as_ref().map(|options| format!("superpages: {options}"));
        let phrases = phrases.chain(self.background.describe()).chain(policy).chain(segment);
        let layout = self.layout.as_ref().map(|layout| format!("layout {}", layout.name));
        let script =
            self.policies.script.as_ref().map(|script| format!("policy {}", script.name()));
        let phrases = phrases.chain(superpages).chain(layout).chain(script);
        phrases.collect::<Vec<_>>().join("; ")
    }
}

impl Default for MemoryState {
    fn default() -> Self {
        Self::of(Self::DEFAULT_BYTES)
    }
}

fn format_size(bytes: u64) -> String {
    for (shift, unit) in [(40, "TB"), (30, "GB"), (20, "MB")] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    format!("{}MB", bytes >> 20)
}
