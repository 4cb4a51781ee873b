//! Limits of the memory that a measurement may use: half of the memory available in the system, and
//! half of what the process's control groups allow.

use std::fs;
use std::path::Path;

use procfs_core::{FromBufRead, FromRead, Meminfo, ProcessCGroups};
use serde::Serialize;

/// Amounts of memory from `/proc/meminfo`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryAmounts {
    /// All usable memory of the machine (`MemTotal`).
    #[serde(rename = "memory_bytes")]
    pub total_bytes: u64,
    /// Memory without any use (`MemFree`).
    #[serde(rename = "free_bytes_before")]
    pub free_bytes: u64,
    /// `MemAvailable`: the kernel's estimate of memory that can be allocated without swapping.
    #[serde(rename = "available_bytes_before")]
    pub available_bytes: u64,
}

impl MemoryAmounts {
    /// Current amounts, if they can be read.
    pub fn now() -> Option<Self> {
        let amounts = Meminfo::from_file("/proc/meminfo").ok()?;
        Some(Self {
            total_bytes: amounts.mem_total,
            free_bytes: amounts.mem_free,
            available_bytes: amounts.mem_available.unwrap_or(amounts.mem_free),
        })
    }
}

/// The tightest limit on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLimit {
    /// Memory available in the system.
    Available,
    /// Limit of a control group (`memory.max`, `memory.limit_in_bytes`) minus its memory in use.
    ControlGroup,
}

/// Maximum memory of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headroom {
    /// Half of the bytes that the tightest limit leaves.
    pub bytes: u64,
    /// The limit that leaves least memory.
    pub limit: MemoryLimit,
}

impl Headroom {
    /// Current headroom of this process; absent if `/proc/meminfo` cannot be read.
    pub fn now() -> Option<Self> {
        let groups = parse_control_groups(&fs::read("/proc/self/cgroup").unwrap_or_default());
        let left = groups.iter().flat_map(|group| group.left(Path::new("/sys/fs/cgroup"))).min();
        Some(Self::of(MemoryAmounts::now()?.available_bytes, left))
    }

    /// Headroom if `available_bytes` are available and control groups leave `group_bytes`.
    pub fn of(available_bytes: u64, group_bytes: Option<u64>) -> Self {
        match group_bytes {
            Some(left) if left < available_bytes => {
                Self { bytes: left / 2, limit: MemoryLimit::ControlGroup }
            }
            _ => Self { bytes: available_bytes / 2, limit: MemoryLimit::Available },
        }
    }
}

/// Reduces a request of `wanted` bytes to the headroom, rounded down to whole blocks of `block_bytes`.
/// `None` if not even one block fits.
pub fn bounded(wanted: u64, headroom: Headroom, block_bytes: u64) -> Option<u64> {
    let bytes = wanted.min(headroom.bytes) / block_bytes * block_bytes;
    (bytes > 0).then_some(bytes)
}

/// A control group that limits the memory of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlGroup {
    /// True for cgroup version 1, which has a separate hierarchy for memory.
    is_version_1: bool,
    /// Path relative to the root of its hierarchy, without the leading slash.
    path: String,
}

/// Parses `/proc/self/cgroup` and returns the groups that limit memory; empty if the text is damaged.
pub fn parse_control_groups(text: &[u8]) -> Vec<ControlGroup> {
    let groups = ProcessCGroups::from_buf_read(text).map_or_else(|_| Vec::new(), |all| all.0);
    let mut limiting = Vec::new();
    for group in groups {
        let is_version_1 = group.controllers.iter().any(|controller| controller == "memory");
        let is_unified = group.hierarchy == 0 && group.controllers.is_empty();
        let leaves_root = group.pathname.split('/').any(|part| part == "..");
        if (is_version_1 || is_unified) && !leaves_root {
            let path = group.pathname.trim_start_matches('/').to_owned();
            limiting.push(ControlGroup { is_version_1, path });
        }
    }
    limiting
}

impl ControlGroup {
    /// Bytes left by each limit of this group and of its enclosing groups.
    fn left(&self, root: &Path) -> Vec<u64> {
        let (root, limit, usage) = if self.is_version_1 {
            (root.join("memory"), "memory.limit_in_bytes", "memory.usage_in_bytes")
        } else {
            (root.to_owned(), "memory.max", "memory.current")
        };
        let folder = root.join(&self.path);
        let enclosing = folder.ancestors().take_while(|folder| folder.starts_with(&root));
        let number = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
        enclosing
            .filter_map(|folder| {
                let used = number(&folder.join(usage)).unwrap_or(0);
                Some(number(&folder.join(limit))?.saturating_sub(used))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_more_than_half() {
        let headroom = Headroom::of(10 << 20, None);
        assert_eq!(headroom, Headroom { bytes: 5 << 20, limit: MemoryLimit::Available });
        // 5MB are two whole blocks of 2MB, however much is wanted.
        assert_eq!(bounded(1 << 40, headroom, 2 << 20), Some(4 << 20));
        assert_eq!(bounded(3 << 20, headroom, 2 << 20), Some(2 << 20));
        assert_eq!(bounded(1 << 20, headroom, 2 << 20), None);
        let none = Headroom { bytes: 0, ..headroom };
        assert_eq!(bounded(1 << 30, none, 2 << 20), None);
    }

    #[test]
    fn the_narrowest_limit_counts() {
        let headroom = Headroom::of(64 << 30, Some(1 << 30));
        assert_eq!(headroom, Headroom { bytes: 512 << 20, limit: MemoryLimit::ControlGroup });
        assert_eq!(Headroom::of(64 << 30, Some(u64::MAX)).limit, MemoryLimit::Available);
    }

    #[test]
    fn this_machine_has_memory() {
        let amounts = MemoryAmounts::now().unwrap();
        assert!(amounts.available_bytes <= amounts.total_bytes);
        assert!(amounts.total_bytes > 64 << 20, "{amounts:?}");
        assert!(Headroom::now().unwrap().bytes <= amounts.total_bytes / 2);
    }

    #[test]
    fn groups_of_both_versions() {
        let text = b"9:name=systemd:/\n4:cpu,memory:/a/b\n1:cpuset:/x\n0::/c\n0::/../out\n";
        let group = |is_version_1, path: &str| ControlGroup { is_version_1, path: path.into() };
        assert_eq!(parse_control_groups(text), [group(true, "a/b"), group(false, "c")]);
        assert_eq!(parse_control_groups(b"\xff:::\n::"), []);
    }

    #[test]
    fn enclosing_groups_count_too() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(root.path().join(name), text).unwrap();
        fs::create_dir_all(root.path().join("outer/inner")).unwrap();
        write("outer/memory.max", "1000\n");
        write("outer/memory.current", "300\n");
        write("outer/inner/memory.max", "max\n");
        let inner = ControlGroup { is_version_1: false, path: "outer/inner".into() };
        assert_eq!(inner.left(root.path()), [700]);
        fs::create_dir_all(root.path().join("memory/g")).unwrap();
        write("memory/g/memory.limit_in_bytes", "5000");
        write("memory/g/memory.usage_in_bytes", "6000");
        write("memory/memory.limit_in_bytes", "9223372036854771712");
        let first = ControlGroup { is_version_1: true, path: "g".into() };
        assert_eq!(first.left(root.path()), [0, 9_223_372_036_854_771_712]);
    }
}
