//! Physical address ranges of memory: `/proc/iomem`.

use std::ops::Range;

use perforate_record::process_memory::PAGE_BYTES;

/// Frame ranges with memory, in ascending order: the lines `System RAM` of `/proc/iomem`. `None` if the
/// text is invalid or its addresses are hidden, as for unprivileged readers.
pub(crate) fn memory_ranges(text: &str) -> Option<Vec<Range<u64>>> {
    let lines: Vec<(u64, u64, &str)> = text.lines().map(range_and_name).collect::<Option<_>>()?;
    let memory = lines.iter().filter(|(.., name)| name.starts_with("System RAM"));
    let frames = memory.map(|&(first, last, _)| {
        let is_end_of_frame = last % PAGE_BYTES == PAGE_BYTES - 1;
        first.div_ceil(PAGE_BYTES)..last / PAGE_BYTES + u64::from(is_end_of_frame)
    });
    let mut ranges: Vec<Range<u64>> = frames.filter(|range| !range.is_empty()).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    (!ranges.is_empty()).then_some(ranges)
}

/// Parses a line of `/proc/iomem`, such as `00100000-bfffffff : System RAM`. Returns first and last
/// address and the name.
fn range_and_name(line: &str) -> Option<(u64, u64, &str)> {
    let (range, name) = line.trim().split_once(" : ")?;
    let (first, last) = range.split_once('-')?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    Some((address(first)?, address(last)?, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_memory() {
        let text = "\
00000000-00000fff : Reserved
00001000-0009fbff : System RAM
00100000-bfffffff : System RAM
  01000000-0220bb07 : Kernel code
100000000-63fffffff : System RAM
";
        // The range ends at 0x9fbff, so frame 0x9f is not complete.
        let expected = [1..0x9f, 0x100..0xc_0000, 0x10_0000..0x64_0000];
        assert_eq!(memory_ranges(text).unwrap(), expected);
        let hidden = text.lines().map(|line| {
            let (_, name) = line.split_once(" : ").unwrap();
            format!("00000000-00000000 : {name}\n")
        });
        assert_eq!(memory_ranges(&hidden.collect::<String>()), None);
        assert_eq!(memory_ranges("zzz : System RAM\n-1-ffff : System RAM\n"), None);
    }
}
