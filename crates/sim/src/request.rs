//! Experiment of P §III.C: the share of a large memory request that gets 2MB pages. The program
//! maps the memory and touches all of it.

use perforate_os::{Defrag, EarlyCompaction, Kernel, KernelConfig, OsError, Policy, TableFormat};
use perforate_records::RequestShares;
use perforate_types::{
    AccessKind, Backing, Counters, Permissions, ProgramEvent, VirtualAddress, VirtualPage,
};

/// Virtual address at which the requested memory begins.
const START: u64 = 0x7f00_0000_0000;

/// A request for memory, and the policies by which the operating system serves it.
pub struct Request {
    /// Number of requested bytes, a multiple of 2MB.
    pub bytes: u64,
    /// Policy by which the operating system chooses page sizes.
    pub policy: Box<dyn Policy>,
    /// Compaction before the request; `None` for no compaction.
    pub compaction: Option<EarlyCompaction>,
    /// Compaction that page faults cause, as in Linux's `defrag`.
    pub defrag: Defrag,
}

impl Request {
    /// Touches the requested memory page by page, on a simulated machine with this `memory`. The
    /// request's own policy, `compaction` and `defrag` replace those of `memory`. Returns the
    /// shares of the request that large and perforated pages back.
    ///
    /// # Errors
    /// Out of memory.
    pub fn serve(self, memory: KernelConfig) -> Result<RequestShares, OsError> {
        let shadow_directories = self.policy.hole_rule().is_some();
        let config = KernelConfig {
            tables: TableFormat { shadow_directories, ..TableFormat::default() },
            defrag: self.defrag,
            compaction: self.compaction,
            ..memory
        };
        let mut kernel = Kernel::new(config, self.policy)?;
        let request = ProgramEvent::Map {
            start: VirtualAddress::new(START),
            length: self.bytes,
            permissions: Permissions::READ_WRITE,
            accessible: true,
            backing: Backing::Anonymous,
            shared: false,
            populate: false,
        };
        kernel.event(&request)?;
        for page in 0..self.bytes / 4096 {
            kernel.updates().clear();
            let page = VirtualPage::new(START / 4096 + page);
            kernel.fault(kernel.current(), page, AccessKind::Write)?;
        }
        let mut counters = Counters::default();
        kernel.counters(&mut counters);
        let regions = (self.bytes >> 21) as f64;
        let share = |name| counters.get(name).unwrap_or_default() / regions;
        Ok(RequestShares { large: share("large_pages"), perforated: share("perforated_pages") })
    }
}
