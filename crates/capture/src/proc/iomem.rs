//! Where there is memory: `/proc/iomem`.

use std::ops::Range;

use super::PAGE_BYTES;

/// Frames with memory, in order: the lines `System RAM` of `/proc/iomem`. `None` where addresses
/// are hidden, as they are from those without privileges.
pub(crate) fn memory_ranges(text: &str) -> Option<Vec<Range<u64>>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for line in text.lines() {
        let Some((addresses, name)) = line.split_once(" : ") else { continue };
        let Some((first, last)) = addresses.trim().split_once('-') else { continue };
        if !name.starts_with("System RAM") {
            continue;
        }
        let [Ok(first), Ok(last)] = [first, last].map(|text| u64::from_str_radix(text, 16)) else {
            continue;
        };
        let frames = first.div_ceil(PAGE_BYTES)
            ..last / PAGE_BYTES + u64::from(last % PAGE_BYTES == PAGE_BYTES - 1);
        if frames.start < frames.end {
            ranges.push(frames);
        }
    }
    ranges.sort_unstable_by_key(|range| range.start);
    (!ranges.is_empty()).then_some(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_lies_where_iomem_says() {
        let text = "\
00000000-00000fff : Reserved
00001000-0009fbff : System RAM
00100000-bfffffff : System RAM
  01000000-0220bb07 : Kernel code
100000000-63fffffff : System RAM
";
        // 0x9fbff: the frame 0x9f is not whole.
        let expected = [1..0x9f, 0x100..0xc_0000, 0x10_0000..0x64_0000];
        assert_eq!(memory_ranges(text).unwrap(), expected);
        let hidden = text.lines().map(|line| {
            let (_, name) = line.split_once(" : ").unwrap();
            format!("00000000-00000000 : {name}\n")
        });
        assert_eq!(memory_ranges(&hidden.collect::<String>()), None);
        assert_eq!(memory_ranges("zzz : System RAM\n-1-ffff : System RAM\n"), None);
    }

    mod hostile {
        use super::*;
        use proptest::prelude::*;

        proptest! {
            #[test]
            fn any_text_is_answered(
                text in "([0-9a-f]{1,17}-[0-9a-f]{1,17} : System RAM\n|\\PC{0,40}\n){0,8}",
            ) {
                let _ = memory_ranges(&text);
            }
        }
    }
}
