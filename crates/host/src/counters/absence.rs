//! The reason why hardware counters are missing.

use std::fmt;
use std::io;

use perforate_record::process_memory::read_text;

use crate::machine::Processor;

/// Highest `perf_event_paranoid` at which an unprivileged process may count the user mode of its own
/// processes (Linux: Documentation/admin-guide/sysctl/kernel.rst).
const MOST_PARANOID: i64 = 2;

/// The reason why hardware counters are not available, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absence(String);

impl Absence {
    /// Derives the reason for missing counters from the error of the first one that could not be
    /// opened.
    pub(super) fn of(error: &io::Error, processor: &Processor) -> Self {
        let setting = read_text("/proc/sys/kernel/perf_event_paranoid").ok();
        Self::explain(error, processor, setting.and_then(|text| text.trim().parse().ok()))
    }

    fn explain(error: &io::Error, processor: &Processor, paranoid: Option<i64>) -> Self {
        let no_unit = "Linux finds no performance-monitoring unit";
        Self(match (error.raw_os_error(), paranoid) {
            (Some(libc::EACCES | libc::EPERM), Some(level)) if level > MOST_PARANOID => format!(
                "kernel.perf_event_paranoid is {level}: it takes {MOST_PARANOID} or less, or \
                 CAP_PERFMON"
            ),
            (Some(libc::EACCES | libc::EPERM), _) => {
                "perf_event_open is not permitted, as in most containers".into()
            }
            (Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP), _) if processor.is_virtual() => {
                format!("{no_unit} in this {}", processor.hypervisor)
            }
            (Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP), _) => {
                format!("{no_unit} for this processor")
            }
            (Some(libc::ENOSYS), _) => "this kernel has no perf_event_open".into(),
            _ => format!("perf_event_open: {error}"),
        })
    }
}

impl fmt::Display for Absence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "hardware counters are not available here: {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Hypervisor;

    fn reason(error: i32, hypervisor: Hypervisor, paranoid: Option<i64>) -> String {
        let processor = Processor { hypervisor, ..Processor::default() };
        Absence::explain(&io::Error::from_raw_os_error(error), &processor, paranoid).to_string()
    }

    #[test]
    fn reasons() {
        let kvm = || Hypervisor::Present(Some("KVM".into()));
        for (found, expected) in [
            (reason(libc::ENOENT, kvm(), Some(2)), "unit in this virtual machine under KVM"),
            (reason(libc::ENOENT, Hypervisor::Absent, Some(2)), "unit for this processor"),
            (
                reason(libc::EACCES, Hypervisor::Absent, Some(4)),
                "perf_event_paranoid is 4: it takes 2",
            ),
            (
                reason(libc::EPERM, Hypervisor::Absent, Some(2)),
                "not permitted, as in most containers",
            ),
            (reason(libc::ENOSYS, Hypervisor::Absent, None), "no perf_event_open"),
            (
                reason(libc::EMFILE, Hypervisor::Absent, None),
                "perf_event_open: Too many open files",
            ),
        ] {
            assert!(found.starts_with("hardware counters are not available here: "), "{found}");
            assert!(found.contains(expected), "{found}");
        }
    }
}
