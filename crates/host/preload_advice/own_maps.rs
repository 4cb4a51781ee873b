//! Memory that the process has before the program's `main`: `/proc/self/maps`.

use core::ops::Range;

use super::system::{
    FAILED, MAP_ANONYMOUS, MAP_PRIVATE, READ_WRITE, close, map, open, read, unmap,
};

/// Room for the text of the file in bytes.
const TEXT_BYTES: usize = 1 << 20;

/// One mapping of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnMapping<'a> {
    /// Addresses of the mapping.
    pub range: Range<usize>,
    /// Permissions as the kernel writes them, such as `rw-p`.
    pub permissions: &'a [u8],
    /// Path of the mapped file, or a name such as `[heap]`, or empty.
    pub name: &'a [u8],
}

/// Parses a line of `/proc/self/maps`.
pub fn parse(line: &[u8]) -> Option<OwnMapping<'_>> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let addresses = fields.next()?;
    let dash = addresses.iter().position(|byte| *byte == b'-')?;
    let range = hexadecimal(&addresses[..dash])?..hexadecimal(&addresses[dash + 1..])?;
    let permissions = fields.next()?;
    Some(OwnMapping { range, permissions, name: fields.nth(3).unwrap_or(b"").trim_ascii() })
}

fn hexadecimal(digits: &[u8]) -> Option<usize> {
    usize::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

/// Calls `each` with every mapping of this process, in order of address.
pub fn for_each(mut each: impl FnMut(OwnMapping<'_>)) {
    // SAFETY: the mapping is new, has room for what is read, and is freed after its last use.
    unsafe {
        let text = map(0, TEXT_BYTES, READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if text == FAILED {
            return;
        }
        let file = open(c"/proc/self/maps".as_ptr(), 0);
        let mut length = 0;
        while file >= 0 && length < TEXT_BYTES {
            match read(file, (text + length) as *mut _, TEXT_BYTES - length) {
                more @ 1.. => length += more as usize,
                _ => break,
            }
        }
        if file >= 0 {
            close(file);
        }
        let bytes = core::slice::from_raw_parts(text as *const u8, length);
        bytes.split(|byte| *byte == b'\n').filter_map(parse).for_each(&mut each);
        unmap(text, TEXT_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_addresses_permissions_and_a_name() {
        let found = parse(b"7f00-8f00 rw-p 00000000 fe:00 17                 /a b/c").unwrap();
        assert_eq!((found.range.clone(), found.permissions), (0x7f00..0x8f00, &b"rw-p"[..]));
        assert_eq!(found.name, b"/a b/c");
        assert_eq!(parse(b"1000-2000 rw-p 00000000 00:00 0 ").unwrap().name, b"");
        assert_eq!(parse(b"1000 rw-p"), None);
        let mut has_heap = false;
        for_each(|mapping| has_heap |= mapping.name == b"[stack]");
        assert!(has_heap);
    }
}
