//! Everything that can be said of memory, as texts: from the command line or an experiment file.

use crate::{
    Background, BackgroundOptions, HostMemoryOptions, MemorySnapshot, MemoryState, Past,
    PastOptions, SimError,
};

/// The texts of the options that make a [`MemoryState`]; each is named as its option is.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryOptions<'a> {
    /// `--memory`.
    pub memory: Option<&'a str>,
    /// `--memory-from`.
    pub memory_from: Option<&'a str>,
    /// `--fragmentation`; none is no fragmentation.
    pub fragmentation: Option<&'a str>,
    /// `--perforation`.
    pub perforation: Option<&'a str>,
    /// `--segment`.
    pub segment: Option<&'a str>,
    /// `--superpages`.
    pub superpages: Option<&'a str>,
    /// What happened to it before.
    pub past: PastOptions<'a>,
    /// Kernel threads.
    pub background: BackgroundOptions<'a>,
    /// `--modes`.
    pub modes: Option<&'a str>,
    /// The host's memory.
    pub host: HostMemoryOptions<'a>,
}

impl MemoryOptions<'_> {
    /// Reads the options.
    ///
    /// # Errors
    /// What cannot be read or does not go together, with what would be right.
    pub fn read(&self) -> Result<MemoryState, SimError> {
        let past = Past::parse(self.past)?;
        let background = Background::parse(self.background)?;
        let memory = MemoryState::parse(self.memory, self.fragmentation, self.perforation)?
            .with_past(past)?
            .with_segment(self.segment)?
            .with_superpages(self.superpages)?;
        let memory = match self.memory_from {
            Some(file) => memory.with_snapshot(MemorySnapshot::beside(file, self.memory)?)?,
            None => memory,
        };
        let modes = self.modes.map(str::parse).transpose()?;
        MemoryState { background, modes, ..memory }.over(&self.host)
    }
}
