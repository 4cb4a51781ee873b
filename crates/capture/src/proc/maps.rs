//! The mappings of a process: `/proc/PID/maps`, and the first lines of each mapping in `smaps`.

use std::ops::Range;
use std::path::Path;

use super::PAGE_BYTES;

/// Longest name that is kept, in characters.
const MOST_NAME: usize = 4096;

/// A mapping (Linux: VMA).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// Its addresses, whole pages.
    pub(crate) range: Range<u64>,
    /// As the kernel writes them: `rw-p`, `r-xs`.
    pub(crate) permissions: String,
    /// Byte of the file that it begins with.
    pub(crate) offset: u64,
    /// The file, something like `[heap]`, or nothing.
    pub(crate) name: String,
}

impl Mapping {
    /// A line such as `7f00-7f10 rw-p 00000000 00:00 0   [heap]`; a name may hold blanks.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (addresses, rest) = line.split_once(' ')?;
        let (start, end) = addresses.split_once('-')?;
        let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
        let range = hexadecimal(start)?..hexadecimal(end)?;
        let is_sound = range.start < range.end
            && range.start.is_multiple_of(PAGE_BYTES)
            && range.end.is_multiple_of(PAGE_BYTES);
        // Offset, device, inode.
        let mut fields = rest.splitn(5, ' ');
        let permissions = fields.next().filter(|permissions| permissions.len() == 4 && is_sound)?;
        let offset = fields.next().and_then(hexadecimal).unwrap_or(0);
        let name = fields.nth(2).unwrap_or_default().trim().chars().take(MOST_NAME).collect();
        Some(Self { range, permissions: permissions.into(), offset, name })
    }

    /// Whether it may be read.
    pub(crate) fn is_readable(&self) -> bool {
        self.permissions.as_bytes().first() == Some(&b'r')
    }

    /// Whether it may be written.
    pub(crate) fn is_writable(&self) -> bool {
        self.permissions.as_bytes().get(1) == Some(&b'w')
    }

    /// Whether it is shared (MAP_SHARED).
    pub(crate) fn is_shared(&self) -> bool {
        self.permissions.as_bytes().get(3) == Some(&b's')
    }

    /// The file, if it is one's.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.name.starts_with('/').then(|| Path::new(&self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let line = "00400000-00402000 r--s 0000a000 fe:00 17   /usr/bin/a program";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!((mapping.range.clone(), mapping.offset), (0x40_0000..0x40_2000, 0xa000));
        assert_eq!(mapping.path(), Some(Path::new("/usr/bin/a program")));
        assert!(mapping.is_readable() && !mapping.is_writable() && mapping.is_shared());
        let heap = Mapping::parse("1000-3000 -w-p 00000000 00:00 0     [heap]").unwrap();
        assert_eq!((heap.name.as_str(), heap.path()), ("[heap]", None));
        assert!(!heap.is_readable() && heap.is_writable() && !heap.is_shared());
        assert_eq!(Mapping::parse("1000-3000 rw-p").unwrap().name, "");
        for wrong in ["", "Rss: 4 kB", "1000-1000 rw-p 0 0 0", "1001-3000 rw-p 0 0 0", "2-1 rw-p"] {
            assert_eq!(Mapping::parse(wrong), None, "{wrong}");
        }
    }
}
