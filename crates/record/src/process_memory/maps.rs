//! Parser of lines of `/proc/PID/maps`, which are also the first line of each mapping in `smaps`.

use std::ops::Range;
use std::path::Path;

use super::PAGE_BYTES;

/// Maximum length of a mapping's name, in characters.
const MAX_NAME: usize = 4096;

/// A mapping of a process (Linux: VMA).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Address range of the mapping, in whole pages.
    pub range: Range<u64>,
    /// Permissions of the mapping as the kernel writes them, such as `rw-p` or `r-xs`.
    pub permissions: String,
    /// Byte offset of the mapping's first byte in the file.
    pub offset: u64,
    /// Path of the mapped file, or a name such as `[heap]`, or empty.
    pub name: String,
}

impl Mapping {
    /// Parses a line such as `7f00-7f10 rw-p 00000000 00:00 0   [heap]`; a name may contain blanks. `None`
    /// for other lines.
    pub fn parse(line: &str) -> Option<Self> {
        let (addresses, rest) = line.split_once(' ')?;
        let (start, end) = addresses.split_once('-')?;
        let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
        let range = hexadecimal(start)?..hexadecimal(end)?;
        let is_sound = range.start < range.end
            && range.start.is_multiple_of(PAGE_BYTES)
            && range.end.is_multiple_of(PAGE_BYTES);
        // Permissions, offset, device, inode, name.
        let mut fields = rest.splitn(5, ' ');
        let permissions = fields.next().filter(|permissions| permissions.len() == 4 && is_sound)?;
        let offset = fields.next().and_then(hexadecimal).unwrap_or(0);
        let name = fields.nth(2).unwrap_or_default().trim().chars().take(MAX_NAME).collect();
        Some(Self { range, permissions: permissions.into(), offset, name })
    }

    /// Parses all mappings in the text of `maps`. Other lines are skipped.
    pub fn parse_all(text: &str) -> Vec<Self> {
        text.lines().filter_map(Self::parse).collect()
    }

    fn has(&self, place: usize, flag: u8) -> bool {
        self.permissions.as_bytes().get(place) == Some(&flag)
    }

    /// True if the process can read the mapping.
    pub fn is_readable(&self) -> bool {
        self.has(0, b'r')
    }

    /// True if the process can write to the mapping.
    pub fn is_writable(&self) -> bool {
        self.has(1, b'w')
    }

    /// True if the mapping is shared (MAP_SHARED).
    pub fn is_shared(&self) -> bool {
        self.has(3, b's')
    }

    /// Path of the mapped file; `None` if no file is mapped.
    pub fn path(&self) -> Option<&Path> {
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
