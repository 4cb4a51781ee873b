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

#[cfg(test)]
mod tests {
    use perforate_os::Thp;
    use perforate_schemes::perforated::{Perforated, PerforationOptions};

    use super::*;

    const MB: u64 = 1 << 20;

    /// Four 2MB regions in a memory without fragmentation, and in one of which every block has holes. The
    /// request's own policy counts, not the memory's options.
    #[test]
    fn shares_are_of_the_requested_regions() {
        let perforated = || Box::new(Perforated::new(PerforationOptions::default()).unwrap());
        let serve = |policy: Box<dyn Policy>, fragmentation: Option<&str>, bytes| {
            let fragmentation = fragmentation.map(|text| perforate_config::read(text).unwrap());
            let memory = KernelConfig { fragmentation, ..KernelConfig::new(64 * MB) };
            let request = Request { bytes, policy, compaction: None, defrag: Defrag::Never };
            let shares = request.serve(memory)?;
            Ok::<_, OsError>((shares.large, shares.perforated))
        };
        let holes = Some("portion=50%,holes=25%,clustered");
        let every = Some("portion=100%,holes=25%,clustered");
        assert_eq!(serve(Box::new(Thp::new("thp")), None, 8 * MB).unwrap(), (1.0, 0.0));
        assert_eq!(serve(Box::new(Thp::new("thp")), every, 8 * MB).unwrap(), (0.0, 0.0));
        assert_eq!(serve(perforated(), None, 8 * MB).unwrap(), (1.0, 0.0));
        assert_eq!(serve(perforated(), every, 8 * MB).unwrap(), (0.0, 1.0));
        let (large, some) = serve(perforated(), holes, 32 * MB).unwrap();
        assert!(large > 0.0 && some > 0.0 && large + some == 1.0, "{large} and {some}");
        assert!(serve(perforated(), None, 128 * MB).is_err(), "there is not as much memory");
    }
}
