//! How much memory may be asked for: never more than half of what is available, and never more
//! than half of what the process's control groups leave it.

use std::fs;
use std::path::Path;

use crate::proc::MemoryAmounts;

/// What bounds a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLimit {
    /// Memory available in the system (`MemAvailable`, else `MemFree`).
    Available,
    /// A limit of a control group (`memory.max`, `memory.limit_in_bytes`), less what is in use.
    ControlGroup,
}

/// The most that may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headroom {
    /// In bytes: half of what the narrowest limit leaves.
    pub bytes: u64,
    /// Which limit that is.
    pub limit: MemoryLimit,
}

impl Headroom {
    /// The headroom of this process at this moment; absent if nothing says how much memory there
    /// is.
    pub fn now() -> Option<Self> {
        let groups = parse_cgroups(&fs::read("/proc/self/cgroup").unwrap_or_default());
        let left = groups.iter().flat_map(|group| group.left(Path::new("/sys/fs/cgroup"))).min();
        Self::of(&MemoryAmounts::now(), left)
    }

    /// The headroom where so much memory is there and control groups leave so many bytes.
    pub fn of(amounts: &MemoryAmounts, group_bytes: Option<u64>) -> Option<Self> {
        let available = amounts.available_bytes.or(amounts.free_bytes)?;
        Some(match group_bytes {
            Some(left) if left < available => {
                Self { bytes: left / 2, limit: MemoryLimit::ControlGroup }
            }
            _ => Self { bytes: available / 2, limit: MemoryLimit::Available },
        })
    }
}

/// The part of a request of `wanted` bytes that `headroom` allows, in whole blocks of
/// `block_bytes`; absent if not even one.
pub fn bounded(wanted: u64, headroom: Headroom, block_bytes: u64) -> Option<u64> {
    let bytes = wanted.min(headroom.bytes) / block_bytes * block_bytes;
    (bytes > 0).then_some(bytes)
}

/// A control group that this process belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlGroup {
    /// Whether it is one of the first version, with a hierarchy of its own for memory.
    is_first_version: bool,
    /// Its path below its hierarchy, without the first slash.
    path: String,
}

/// The control groups that limit memory, from the text of `/proc/self/cgroup`
/// (`HIERARCHY:CONTROLLERS:PATH`).
pub fn parse_cgroups(text: &[u8]) -> Vec<ControlGroup> {
    let text = String::from_utf8_lossy(text);
    let mut groups = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) =
            (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let is_first_version = controllers.split(',').any(|controller| controller == "memory");
        let is_unified = number == "0" && controllers.is_empty();
        if (is_first_version || is_unified) && !path.split('/').any(|part| part == "..") {
            let path = path.trim_start_matches('/').to_owned();
            groups.push(ControlGroup { is_first_version, path });
        }
    }
    groups
}

impl ControlGroup {
    /// What this group and each group around it leave, in bytes, where they have a limit.
    fn left(&self, root: &Path) -> Vec<u64> {
        let (root, limit, usage) = if self.is_first_version {
            (root.join("memory"), "memory.limit_in_bytes", "memory.usage_in_bytes")
        } else {
            (root.to_owned(), "memory.max", "memory.current")
        };
        let folder = root.join(&self.path);
        let around = folder.ancestors().take_while(|folder| folder.starts_with(&root));
        let number = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
        around
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

    fn amounts(available_bytes: Option<u64>, free_bytes: Option<u64>) -> MemoryAmounts {
        MemoryAmounts { available_bytes, free_bytes, ..MemoryAmounts::default() }
    }

    #[test]
    fn never_more_than_half() {
        let headroom = Headroom::of(&amounts(Some(10 << 20), Some(1 << 20)), None).unwrap();
        assert_eq!(headroom, Headroom { bytes: 5 << 20, limit: MemoryLimit::Available });
        // 5MB are two whole blocks of 2MB, whatever more is wanted.
        assert_eq!(bounded(1 << 40, headroom, 2 << 20), Some(4 << 20));
        assert_eq!(bounded(u64::MAX, headroom, 2 << 20), Some(4 << 20));
        assert_eq!(bounded(3 << 20, headroom, 2 << 20), Some(2 << 20));
        assert_eq!(bounded(1 << 20, headroom, 2 << 20), None);
        let none = Headroom { bytes: 0, ..headroom };
        assert_eq!(bounded(1 << 30, none, 2 << 20), None);
    }

    #[test]
    fn the_narrowest_limit_counts() {
        let plenty = amounts(Some(64 << 30), None);
        let headroom = Headroom::of(&plenty, Some(1 << 30)).unwrap();
        assert_eq!(headroom, Headroom { bytes: 512 << 20, limit: MemoryLimit::ControlGroup });
        let headroom = Headroom::of(&plenty, Some(u64::MAX)).unwrap();
        assert_eq!(headroom.limit, MemoryLimit::Available);
        let old = amounts(None, Some(8 << 20));
        assert_eq!(Headroom::of(&old, None).unwrap().bytes, 4 << 20, "kernels before 3.14");
        assert_eq!(Headroom::of(&amounts(None, None), Some(1 << 30)), None);
    }

    #[test]
    fn groups_of_both_versions() {
        let text =
            b"9:name=systemd:/\n4:cpu,memory:/a/b\n1:cpuset:/x\n0::/c\n0::/../out\nrubbish\n";
        let group =
            |is_first_version, path: &str| ControlGroup { is_first_version, path: path.into() };
        assert_eq!(parse_cgroups(text), [group(true, "a/b"), group(false, "c")]);
        assert_eq!(parse_cgroups(b"\xff:::\n::"), []);
    }

    #[test]
    fn groups_around_a_group_count_too() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(root.path().join(name), text).unwrap();
        fs::create_dir_all(root.path().join("outer/inner")).unwrap();
        write("outer/memory.max", "1000\n");
        write("outer/memory.current", "300\n");
        write("outer/inner/memory.max", "max\n");
        let inner = ControlGroup { is_first_version: false, path: "outer/inner".into() };
        assert_eq!(inner.left(root.path()), [700]);
        fs::create_dir_all(root.path().join("memory/g")).unwrap();
        write("memory/g/memory.limit_in_bytes", "5000");
        write("memory/g/memory.usage_in_bytes", "6000");
        write("memory/memory.limit_in_bytes", "9223372036854771712");
        let first = ControlGroup { is_first_version: true, path: "g".into() };
        assert_eq!(first.left(root.path()), [0, 9_223_372_036_854_771_712]);
    }
}
