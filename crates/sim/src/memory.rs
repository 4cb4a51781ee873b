//! Memory and operating system of a run.

mod host;
mod options;

use perforate_config::{ConfigError, Size, Table};
use perforate_os::{KernelConfig, LaidOut, PageLayout, in_words};
use perforate_types::PageSize;
use perforate_workloads::layout::LayoutFile;
use serde::Serialize;

use crate::{MemorySnapshot, ModeSwitching, PolicyOptions, SimError};
use options::LEAST_BYTES;
pub use options::{GuestOptions, MemoryOptions, SizeOptions, Snapshots};

/// Memory and operating system of the program (native or guest), or of the host. All schemes of a
/// comparison have the same, except that the ideal scheme ignores fragmentation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryState {
    /// Configuration of the kernel. The size of memory in it is a multiple of 2MB. Schemes add the
    /// format of their page tables.
    #[serde(flatten)]
    pub kernel: KernelConfig,
    /// Options of the kernel policies, which override those of the schemes.
    #[serde(flatten)]
    pub policies: PolicyOptions,
    /// Snapshot of a real machine; this memory starts in its state. `None` for a new memory.
    #[serde(rename = "memory_from", skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<MemorySnapshot>,
    /// Options for creating direct segments while the program runs (D Table III); `None` if this is
    /// not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modes: Option<ModeSwitching>,
    /// Page sizes of the program's memory under the scheme `layout`, and the pools (address ranges)
    /// that contain the program's memory under every scheme; `None` without a layout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<LayoutFile>,
    /// Memory of the host under a virtual machine. If `None`, the host's memory has room for the
    /// guest, and is neither fragmented nor aged. Native runs ignore this field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Box<MemoryState>>,
}

impl MemoryState {
    /// Default size of a memory in bytes, with room for the default workloads at any fragmentation.
    pub const DEFAULT_BYTES: u64 = 16 << 30;
    /// Largest size of a memory in bytes, for 46 bits of physical address.
    pub const MAXIMUM_BYTES: u64 = 1 << 46;

    /// Creates a memory of this size, rounded down to whole 2MB blocks, without fragmentation or
    /// age.
    pub fn of(memory_bytes: u64) -> Self {
        let memory_bytes = memory_bytes & !(PageSize::Size2M.bytes() - 1);
        Self {
            kernel: KernelConfig::new(memory_bytes),
            policies: PolicyOptions::default(),
            snapshot: None,
            modes: None,
            layout: None,
            host: None,
        }
    }

    /// Returns this memory with the size and state of a snapshot.
    ///
    /// # Errors
    /// Options contradict the snapshot, or the snapshot has less than 4MB of memory.
    pub fn with_snapshot(self, snapshot: MemorySnapshot) -> Result<Self, SimError> {
        if let Some(row) = self.kernel.set_rows().find(|row| row.snapshot_says) {
            let option = row.option();
            let problem =
                format!("says what lies in every frame, and {option} says otherwise: choose one");
            return Err(ConfigError::new(problem).under("memory-from").into());
        }
        let memory_bytes = snapshot.memory_bytes() & !(PageSize::Size2M.bytes() - 1);
        if memory_bytes < LEAST_BYTES {
            let problem = "it has less than the 4M of memory that are needed".into();
            return Err(SimError::Snapshot { path: snapshot.file, problem });
        }
        let kernel =
            KernelConfig { memory_bytes, snapshot: Some(snapshot.shared()), ..self.kernel };
        Ok(Self { kernel, snapshot: Some(snapshot), ..self })
    }

    /// Returns a memory of this size that nothing has fragmented: no past, no snapshot, no injected fragmentation.
    pub fn unfragmented(self) -> Self {
        let kernel = KernelConfig { fragmentation: None, age: None, snapshot: None, ..self.kernel };
        Self { kernel, snapshot: None, ..self }
    }

    /// Returns this memory under a kernel that has folios of the scheme's sizes only.
    #[must_use]
    pub fn with_folios_of_scheme(self) -> Self {
        Self { kernel: KernelConfig { mthp: None, ..self.kernel }, ..self }
    }

    /// Returns the options of the kernel policies, with the layout of page sizes of this memory,
    /// and with a flag that is true if a simulated or recorded history of use has fragmented the
    /// memory.
    pub fn policy_options(&self) -> PolicyOptions {
        let KernelConfig { fragmentation, faulty, age, .. } = &self.kernel;
        let is_emulated = fragmentation.is_some() || faulty.is_some();
        let is_aged = age.is_some() || self.snapshot.is_some();
        let layout = self.layout.as_ref().map(|file| LaidOut {
            layout: PageLayout::new(file.addresses()),
            name: file.name.clone(),
        });
        let layout = layout.or_else(|| self.policies.layout.clone());
        PolicyOptions { has_aged_blocks: is_aged && !is_emulated, layout, ..self.policies.clone() }
    }

    /// Returns the size of the physical address space in bytes, including the I/O gap and room for
    /// hot-added memory.
    pub(crate) fn address_bytes(&self) -> u64 {
        if let Some(snapshot) = &self.snapshot {
            return snapshot.address_bytes();
        }
        let gap_bytes = self.kernel.io_gap.map_or(0, |gap| gap.end_bytes);
        let added_bytes = self.kernel.hot_add_bytes();
        self.kernel.memory_bytes.saturating_add(gap_bytes).saturating_add(added_bytes)
    }

    /// Returns a short description of this memory for headings.
    pub fn describe(&self) -> String {
        let memory = in_words(Size(self.kernel.memory_bytes));
        let state = match (&self.kernel.fragmentation, &self.snapshot) {
            (Some(fragmentation), _) => format!("{memory} of memory, fragmented: {fragmentation}"),
            (None, Some(snapshot)) => format!("{memory} of memory as in {}", snapshot.file),
            (None, None) if self.kernel.age.is_none() => {
                format!("{memory} of memory, not fragmented")
            }
            (None, None) => format!("{memory} of memory"),
        };
        let layout = self.layout.as_ref().map(|layout| format!("layout {}", layout.name));
        let mut phrases = vec![state];
        phrases.extend(self.kernel.phrases());
        phrases.extend(self.policies.phrases());
        phrases.extend(layout);
        phrases.join("; ")
    }
}

impl Default for MemoryState {
    fn default() -> Self {
        Self::of(Self::DEFAULT_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use perforate_os::{FrameState, HostSnapshot, OccupancyBuilder};

    use super::*;

    fn memory(options: &[(&str, &str)]) -> MemoryState {
        let options = MemoryOptions::read(options.iter().copied().collect()).unwrap();
        options.resolve(&|_| Ok(snapshot(10 << 20))).unwrap()
    }

    fn snapshot(bytes: u64) -> MemorySnapshot {
        let mut made = OccupancyBuilder::default();
        made.push_run(FrameState::Free, bytes / 4096).unwrap();
        MemorySnapshot::taken("s.snap", HostSnapshot::of(made.finish().unwrap())).unwrap()
    }

    #[test]
    fn memories_are_described_by_their_state() {
        let fragmented = "portion=50%,holes=25%,clustered";
        for (options, expected) in [
            (&[("memory", "2G")][..], "2GB of memory, not fragmented"),
            (
                &[("memory", "64M"), ("fragmentation", fragmented)],
                "64MB of memory, fragmented: portion=50%,holes=25%,clustered",
            ),
            (&[("memory-from", "x")], "10MB of memory as in s.snap"),
        ] {
            assert_eq!(memory(options).describe(), expected);
        }
        // An aged memory says so instead of `not fragmented`.
        let aged = memory(&[("memory", "2G"), ("age", "weeks")]).describe();
        assert!(aged.starts_with("2GB of memory; "), "{aged}");
        assert_eq!(memory(&[]).describe(), "16GB of memory, not fragmented");
    }

    /// Policies choose among blocks only where use has fragmented memory, and no emulation does.
    #[test]
    fn blocks_are_aged_by_use_only() {
        let fragmented = ("fragmentation", "portion=50%,holes=25%,clustered");
        for (options, is_aged) in [
            (&[][..], false),
            (&[("age", "weeks")], true),
            (&[("memory-from", "x")], true),
            (&[fragmented], false),
            (&[("faulty", "uniform=1%")], false),
            (&[("age", "weeks"), ("faulty", "uniform=1%")], false),
        ] {
            assert_eq!(memory(options).policy_options().has_aged_blocks, is_aged, "{options:?}");
        }
        assert!(memory(&[]).policy_options().layout.is_none());
    }

    /// The physical address space has the I/O gap of a PC, up to 4GB, and room for what is added, in whole
    /// blocks of 4MB.
    #[test]
    fn addresses_include_gaps_and_added_memory() {
        for (options, bytes) in [
            (&[("memory", "5G")][..], 5 << 30),
            (&[("memory", "5G"), ("io-gap", "pc")], 9 << 30),
            (&[("memory", "5G"), ("hot-add", "1G")], 6 << 30),
            (&[("memory", "5G"), ("io-gap", "pc"), ("hot-add", "1G")], 10 << 30),
            // Five blocks, a hole bitmap of 320 bytes, and a block.
            (&[("memory-from", "x")], (12 << 20) + 320),
        ] {
            assert_eq!(memory(options).address_bytes(), bytes, "{options:?}");
        }
        assert_eq!(MemoryState::of((5 << 20) - 1).kernel.memory_bytes, 4 << 20);
        assert_eq!(MemoryState::of((6 << 20) - 1).kernel.memory_bytes, 4 << 20);
    }

    /// An unfragmented memory has the size and all else of the one that it is made of.
    #[test]
    fn an_unfragmented_memory_has_no_past() {
        let fragmented = ("fragmentation", "portion=50%,holes=25%,clustered");
        for past in [fragmented, ("age", "weeks"), ("memory-from", "x")] {
            let memory = memory(&[past, ("swap", "64M")]);
            let none = memory.clone().unfragmented();
            assert_ne!(none, memory, "{past:?}");
            let KernelConfig { fragmentation, age, snapshot, .. } = &none.kernel;
            assert!(fragmentation.is_none() && age.is_none() && snapshot.is_none(), "{past:?}");
            assert!(none.snapshot.is_none() && none.kernel.swap == memory.kernel.swap);
            assert_eq!(none.kernel.memory_bytes, memory.kernel.memory_bytes);
        }
    }

    /// A snapshot needs two blocks, and says itself how memory is used.
    #[test]
    fn snapshots_are_large_enough_and_alone() {
        let with = |bytes| MemoryState::default().with_snapshot(snapshot(bytes));
        assert_eq!(with(4 << 20).unwrap().kernel.memory_bytes, 4 << 20);
        assert_eq!(with(7 << 20).unwrap().kernel.memory_bytes, 6 << 20);
        let error = with((4 << 20) - 4096).unwrap_err().to_string();
        assert_eq!(error, "s.snap: it has less than the 4M of memory that are needed");
        let aged = memory(&[("age", "weeks")]).with_snapshot(snapshot(8 << 20));
        assert_eq!(
            aged.unwrap_err().to_string(),
            "memory-from: says what lies in every frame, and age says otherwise: choose one"
        );
        let memory = with(8 << 20).unwrap();
        assert!(memory.kernel.snapshot.is_some() && memory.snapshot.is_some());
    }
}
