//! Limits of the memory that a measurement may use: half of the memory available in the system, and
//! half of what the process's control groups allow.

use std::fs;
use std::path::Path;

use perforate_record::process_memory::read_text;

use crate::proc::kilobytes;

/// Maximum memory that a measurement may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headroom {
    /// Half of the bytes that the tightest limit on this process leaves.
    pub bytes: u64,
}

impl Headroom {
    /// Current headroom of this process; absent if `/proc/meminfo` cannot be read.
    pub fn now() -> Option<Self> {
        let meminfo = read_text("/proc/meminfo").ok()?;
        let available =
            bytes_of(&meminfo, "MemAvailable").or_else(|| bytes_of(&meminfo, "MemFree"));
        let groups = parse_control_groups(&fs::read("/proc/self/cgroup").unwrap_or_default());
        let left = groups.iter().flat_map(|group| group.left(Path::new("/sys/fs/cgroup"))).min();
        Some(Self::of(available?, left))
    }

    /// Headroom if the system has `available_bytes` available and control groups leave
    /// `group_bytes`.
    pub fn of(available_bytes: u64, group_bytes: Option<u64>) -> Self {
        Self { bytes: available_bytes.min(group_bytes.unwrap_or(u64::MAX)) / 2 }
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
    /// Path of the group relative to the root of its hierarchy, without the leading slash.
    path: String,
}

/// Parses `/proc/self/cgroup` and returns the groups that limit memory; empty if the text is damaged.
pub fn parse_control_groups(text: &[u8]) -> Vec<ControlGroup> {
    let groups = || {
        let lines = std::str::from_utf8(text).ok()?.lines();
        lines.filter(|line| !line.starts_with('#')).map(hierarchy).collect::<Option<Vec<_>>>()
    };
    let mut limiting = Vec::new();
    for (number, controllers, path) in groups().unwrap_or_default() {
        let is_version_1 = controllers.split(',').any(|controller| controller == "memory");
        let is_unified = number == 0 && controllers.is_empty();
        let leaves_root = path.split('/').any(|part| part == "..");
        if (is_version_1 || is_unified) && !leaves_root {
            let path = path.trim_start_matches('/').to_owned();
            limiting.push(ControlGroup { is_version_1, path });
        }
    }
    limiting
}

/// Parses a line of `/proc/self/cgroup`, such as `4:cpu,memory:/a/b`. Returns the number of the
/// hierarchy, controllers and path.
fn hierarchy(line: &str) -> Option<(u32, &str, &str)> {
    let (number, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    Some((number.parse().ok()?, controllers, path))
}

/// Value in bytes of the entry `name` in the text of `/proc/meminfo`, such as `MemFree:  16 kB`.
fn bytes_of(meminfo: &str, name: &str) -> Option<u64> {
    let mut lines = meminfo.lines().filter_map(|line| line.split_once(':'));
    let (_, amount) = lines.find(|(known, _)| *known == name)?;
    kilobytes(amount)
}

impl ControlGroup {
    /// Bytes that each limit of this group and of its enclosing groups leaves unused.
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
        assert_eq!(headroom.bytes, 5 << 20);
        // 5MB hold two whole blocks of 2MB, so any larger request gets 4MB.
        assert_eq!(bounded(1 << 40, headroom, 2 << 20), Some(4 << 20));
        assert_eq!(bounded(3 << 20, headroom, 2 << 20), Some(2 << 20));
        assert_eq!(bounded(1 << 20, headroom, 2 << 20), None);
        let none = Headroom { bytes: 0 };
        assert_eq!(bounded(1 << 30, none, 2 << 20), None);
    }

    #[test]
    fn the_narrowest_limit_counts() {
        assert_eq!(Headroom::of(64 << 30, Some(1 << 30)).bytes, 512 << 20);
        assert_eq!(Headroom::of(64 << 30, Some(u64::MAX)).bytes, 32 << 30);
    }

    #[test]
    fn this_machine_has_memory() {
        let total_bytes = bytes_of(&read_text("/proc/meminfo").unwrap(), "MemTotal").unwrap();
        assert!(total_bytes > 64 << 20, "{total_bytes}");
        assert!(Headroom::now().unwrap().bytes <= total_bytes / 2);
    }

    #[test]
    fn amounts_are_in_kilobytes() {
        let text =
            "MemTotal:       24683452 kB\nMemFree:         12 kB\nHugePages_Total:       0\n";
        assert_eq!(bytes_of(text, "MemFree"), Some(12 << 10));
        assert_eq!(bytes_of(text, "HugePages_Total"), None);
        assert_eq!(bytes_of("MemFree: 99999999999999999 kB", "MemFree"), None);
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
