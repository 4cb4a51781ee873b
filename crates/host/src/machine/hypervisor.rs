//! The hypervisor under this machine, as far as it is visible from inside.

use std::fmt;
use std::path::Path;

use perforate_record::process_memory::read_text;
use raw_cpuid::CpuIdReader;

/// CPUID leaf with the largest hypervisor leaf and the hypervisor's name (Linux:
/// Documentation/virt/kvm/x86/cpuid.rst).
const LEAF_NAME: u32 = 0x4000_0000;
/// Signatures of hypervisors in leaf 0x4000_0000, with their names (as in systemd-detect-virt).
const NAMES: &[(&[u8; 12], &str)] = &[
    (b"KVMKVMKVM\0\0\0", "KVM"),
    (b"Linux KVM Hv", "KVM"),
    (b"TCGTCGTCGTCG", "QEMU without KVM"),
    (b"Microsoft Hv", "Hyper-V"),
    (b"VMwareVMware", "VMware"),
    (b"XenVMMXenVMM", "Xen"),
    (b"bhyve bhyve ", "bhyve"),
    (b"VBoxVBoxVBox", "VirtualBox"),
    (b"prl hyperv  ", "Parallels"),
    (b"ACRNACRNACRN", "ACRN"),
    (b"QNXQVMBSQG\0\0", "QNX"),
    (b"VirtualApple", "Apple's Rosetta"),
];

/// Hypervisor under a machine, as far as the machine reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Hypervisor {
    /// The processor reports that there is no hypervisor under it.
    Absent,
    /// The processor or the kernel reports a hypervisor, with its name if it reports one.
    Present(Option<String>),
    /// The machine does not report if there is a hypervisor.
    #[default]
    Unknown,
}

impl Hypervisor {
    /// True if a hypervisor is known to be present.
    pub fn is_present(&self) -> bool {
        matches!(self, Self::Present(_))
    }

    /// Reads from CPUID if there is a hypervisor (bit 31 of ECX in leaf 1) and its name (leaf
    /// 0x4000_0000).
    pub(super) fn of_cpuid<R: CpuIdReader>(reader: &R) -> Self {
        if reader.cpuid1(1).ecx >> 31 == 0 {
            return Self::Absent;
        }
        let leaf = reader.cpuid1(LEAF_NAME);
        let mut text = [0; 12];
        for (bytes, register) in text.chunks_mut(4).zip([leaf.ebx, leaf.ecx, leaf.edx]) {
            bytes.copy_from_slice(&register.to_le_bytes());
        }
        let known = NAMES.iter().find(|(name, _)| **name == text);
        let stated = known.map_or_else(|| printable(&text), |(_, name)| Some((*name).to_owned()));
        Self::Present(stated)
    }

    /// Reads from the kernel's files if there is a hypervisor, for machines without CPUID:
    /// `/sys/hypervisor/type` (Xen) and the device tree's node `hypervisor` (KVM, Xen). Machines
    /// with neither are unknown, such as those with ACPI only.
    pub(super) fn of_files(root: &Path) -> Self {
        let files = ["sys/hypervisor/type", "proc/device-tree/hypervisor/compatible"];
        for file in files {
            let text = read_text(root.join(file)).unwrap_or_default();
            // Strings of a device tree end with a zero: `linux,kvm` and `xen,xen-4.11\0xen,xen`.
            let first = text.split(['\0', '\n']).next().unwrap_or_default();
            let name = first.rsplit_once(',').map_or(first, |(_, name)| name);
            let name = match name.split('-').next() {
                Some("kvm") => Some("KVM".to_owned()),
                Some("xen") => Some("Xen".to_owned()),
                _ => printable(name.as_bytes()),
            };
            if name.is_some() {
                return Self::Present(name);
            }
        }
        Self::Unknown
    }
}

/// Returns a hypervisor's name as text, if it is short and printable.
fn printable(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_matches(|c: char| c == '\0' || c.is_whitespace());
    let is_name = |c: char| c.is_ascii_graphic() || c == ' ';
    (!text.is_empty() && text.len() <= 40 && text.chars().all(is_name)).then(|| text.to_owned())
}

impl fmt::Display for Hypervisor {
    /// Writes in words that the machine is virtual or not, with the hypervisor's name.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => formatter.write_str("no virtual machine"),
            Self::Present(Some(name)) => write!(formatter, "virtual machine under {name}"),
            Self::Present(None) => formatter.write_str("virtual machine"),
            Self::Unknown => formatter.write_str("perhaps a virtual machine"),
        }
    }
}

#[cfg(test)]
mod tests {
    use raw_cpuid::CpuIdResult;

    use super::*;

    fn of(is_virtual: bool, name: &[u8; 12]) -> Hypervisor {
        let name = *name;
        Hypervisor::of_cpuid(&move |leaf: u32, _: u32| {
            let word = |at: usize| u32::from_le_bytes(name[at..at + 4].try_into().unwrap());
            match leaf {
                1 => CpuIdResult { eax: 0, ebx: 0, ecx: u32::from(is_virtual) << 31, edx: 0 },
                LEAF_NAME => {
                    CpuIdResult { eax: LEAF_NAME, ebx: word(0), ecx: word(4), edx: word(8) }
                }
                _ => CpuIdResult { eax: 0, ebx: 0, ecx: 0, edx: 0 },
            }
        })
    }

    #[test]
    fn hypervisors_state_their_names() {
        let kvm = of(true, b"KVMKVMKVM\0\0\0");
        assert_eq!(kvm, Hypervisor::Present(Some("KVM".into())));
        assert_eq!(kvm.to_string(), "virtual machine under KVM");
        assert_eq!(of(true, b"Microsoft Hv").to_string(), "virtual machine under Hyper-V");
        assert_eq!(of(true, b"MyOwnVisor\0\0").to_string(), "virtual machine under MyOwnVisor");
        assert_eq!(of(true, &[0; 12]), Hypervisor::Present(None));
        assert_eq!(of(true, b"\x1b[31mred\0\0\0\0"), Hypervisor::Present(None), "no name");
        assert!(!of(false, b"KVMKVMKVM\0\0\0").is_present());
    }

    #[test]
    fn files_of_machines_without_cpuid() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(Hypervisor::of_files(root.path()), Hypervisor::Unknown);
        write("proc/device-tree/hypervisor/compatible", "linux,kvm\0");
        assert_eq!(Hypervisor::of_files(root.path()), Hypervisor::Present(Some("KVM".into())));
        write("proc/device-tree/hypervisor/compatible", "xen,xen-4.11\0xen,xen\0");
        assert_eq!(Hypervisor::of_files(root.path()), Hypervisor::Present(Some("Xen".into())));
        write("sys/hypervisor/type", "other\n");
        assert_eq!(Hypervisor::of_files(root.path()), Hypervisor::Present(Some("other".into())));
    }
}
