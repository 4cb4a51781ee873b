//! Zones from `/proc/zoneinfo`, `buddyinfo` and `pagetypeinfo`; where there is memory from
//! `/proc/iomem`.
//!
//! Lines that are not understood are passed over: the files differ between kernels. Numbers that no
//! machine can have are refused.

use std::ops::Range;

use perforate_os::{FreeBlocksByType, PageblockCount, SnapshotZone};

/// Orders of free blocks that are told apart.
const ORDERS: usize = 11;
/// More zones than any machine has: 1024 nodes with five zones each.
const MOST_ZONES: usize = 8192;
/// No count of frames or blocks is larger.
const MOST: u64 = 1 << 40;

/// A number, perhaps with `>` before it, as pagetypeinfo caps long counts.
fn number(word: &str) -> Option<u64> {
    word.trim_start_matches('>').parse().ok().filter(|&number| number <= MOST)
}

/// `Node 0, zone   Normal` at the beginning of a line; node, name, what follows.
fn node_and_zone(line: &str) -> Option<(u64, &str, &str)> {
    let rest = line.trim_start().strip_prefix("Node")?.trim_start();
    let (node, rest) = rest.split_once(',')?;
    let rest = rest.trim_start().strip_prefix("zone")?.trim_start();
    let end = rest.find(|character: char| character.is_whitespace() || character == ',');
    let (name, rest) = rest.split_at(end.unwrap_or(rest.len()));
    Some((number(node.trim())?, name, rest))
}

/// Zones collected from several files.
#[derive(Default)]
pub(super) struct Zones(pub(super) Vec<SnapshotZone>);

impl Zones {
    fn zone(&mut self, node: u64, name: &str) -> Option<&mut SnapshotZone> {
        let known = self.0.iter().position(|zone| zone.node == node && zone.name == name);
        let place = match known {
            Some(place) => place,
            None if self.0.len() >= MOST_ZONES || name.is_empty() || name.len() > 32 => {
                return None;
            }
            None => {
                let zone = SnapshotZone { node, name: name.into(), ..SnapshotZone::default() };
                self.0.push(zone);
                self.0.len() - 1
            }
        };
        self.0.get_mut(place)
    }

    /// `/proc/zoneinfo`: where zones lie, and what is in per-CPU lists.
    pub(super) fn add_zoneinfo(&mut self, text: &str) {
        let mut current: Option<(u64, String)> = None;
        for line in text.lines() {
            if let Some((node, name, _)) = node_and_zone(line) {
                current = Some((node, name.to_owned()));
                continue;
            }
            let mut words = line.split_whitespace();
            let (Some(key), Some(value)) = (words.next(), words.next().and_then(number)) else {
                continue;
            };
            let Some((node, name)) = &current else { continue };
            let Some(zone) = self.zone(*node, name) else { continue };
            match key {
                "spanned" => zone.spanned_frames = value,
                "present" => zone.present_frames = value,
                "managed" => zone.managed_frames = value,
                "start_pfn:" => zone.start_frame = value,
                "count:" => zone.per_cpu_frames = (zone.per_cpu_frames + value).min(MOST),
                _ => {}
            }
        }
    }

    /// `/proc/buddyinfo`: free blocks of each order; returns whether there were any lines of it.
    pub(super) fn add_buddyinfo(&mut self, text: &str) -> bool {
        let mut found = false;
        for (node, name, counts) in text.lines().filter_map(node_and_zone) {
            if let Some(zone) = self.zone(node, name) {
                zone.free_blocks = orders(counts);
                found = true;
            }
        }
        found
    }

    /// `/proc/pagetypeinfo`: the same by type, and how many pageblocks are of which type.
    pub(super) fn add_pagetypeinfo(&mut self, text: &str) {
        let mut types: Vec<&str> = Vec::new();
        for line in text.lines() {
            if let Some(names) = line.trim_start().strip_prefix("Number of blocks type") {
                types = names.split_whitespace().take(16).collect();
                continue;
            }
            let Some((node, name, rest)) = node_and_zone(line) else { continue };
            let Some(zone) = self.zone(node, name) else { continue };
            if let Some(rest) = rest.strip_prefix(',') {
                let Some(rest) = rest.trim_start().strip_prefix("type") else { continue };
                let (migrate_type, counts) =
                    rest.trim_start().split_once(' ').unwrap_or((rest, ""));
                if zone.free_blocks_by_type.len() < 16 && migrate_type.len() <= 32 {
                    zone.free_blocks_by_type.push(FreeBlocksByType {
                        migrate_type: migrate_type.trim().into(),
                        free_blocks: orders(counts),
                    });
                }
            } else if !types.is_empty() {
                let counts = rest.split_whitespace().map_while(number);
                let named = types.iter().zip(counts).map(|(name, blocks)| PageblockCount {
                    migrate_type: (*name).to_owned(),
                    blocks,
                });
                zone.pageblocks = named.collect();
            }
        }
    }
}

/// Counts of free blocks, order by order; those beyond the largest that is told apart count as so
/// many of it.
fn orders(counts: &str) -> [u64; ORDERS] {
    let mut found = [0; ORDERS];
    for (order, count) in counts.split_whitespace().map_while(number).enumerate().take(20) {
        let place = order.min(ORDERS - 1);
        found[place] = (found[place] + (count << (order - place))).min(MOST);
    }
    found
}

/// Frames with memory, in order: the lines `System RAM` of `/proc/iomem`. `None` where addresses are
/// hidden, as they are from those without privileges.
pub(super) fn memory_ranges(text: &str) -> Option<Vec<Range<u64>>> {
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
        let frames = first.div_ceil(4096)..(last / 4096 + u64::from(last % 4096 == 4095));
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

    const ZONEINFO: &str = "\
Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 70384
  pages free     3840
        boost    0
        spanned  4095
        present  3998
        managed  3840
        protection: (0, 2962, 24051)
  pagesets
    cpu: 0
              count:    3
              high:     4
    cpu: 1
              count:    2
  start_pfn:           1
Node 0, zone   Normal
  pages free     767396
        spanned  5505024
        present  5505024
  start_pfn:           1048576
Node 1, zone   Normal
        present  12
";

    #[test]
    fn zones_come_from_three_files() {
        let mut zones = Zones::default();
        zones.add_zoneinfo(ZONEINFO);
        let buddyinfo = "\
Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      3 
Node 0, zone   Normal  43831  41443  44282  30331  18602  12876   7053   3774   1845    874   1516   2
";
        assert!(zones.add_buddyinfo(buddyinfo));
        zones.add_pagetypeinfo(
            "Page block order: 9\nPages per block:  512\n\n\
             Free pages count per migrate type at order       0      1 \n\
             Node    0, zone      DMA, type    Unmovable      5 >100000 \n\
             Node    0, zone      DMA, type      Movable      1      2 \n\n\
             Number of blocks type     Unmovable      Movable \n\
             Node 0, zone      DMA            1            7 \n",
        );
        let [dma, normal, other] = zones.0.as_slice() else { panic!("{:?}", zones.0) };
        assert_eq!((dma.start_frame, dma.spanned_frames, dma.present_frames), (1, 4095, 3998));
        assert_eq!((dma.managed_frames, dma.per_cpu_frames), (3840, 5));
        assert_eq!(dma.free_blocks, [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 3]);
        assert_eq!(normal.free_blocks[9..], [874, 1516 + 2 * 2], "two blocks of order 11");
        assert_eq!(normal.start_frame, 1_048_576);
        assert_eq!((other.node, other.present_frames), (1, 12));
        assert_eq!(dma.free_blocks_by_type[0].free_blocks[..2], [5, 100_000]);
        assert_eq!(dma.free_blocks_by_type[1].migrate_type, "Movable");
        let counts: Vec<_> = dma.pageblocks.iter().map(|count| count.blocks).collect();
        assert_eq!(counts, [1, 7]);
    }

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
            fn any_text_is_answered(text in "(Node *[0-9]{1,25}, *zone *[A-Za-z]{0,4},? ?(type)?[ 0-9a-z:>]{0,90}\n|\\PC{0,40}\n){0,8}") {
                let mut zones = Zones::default();
                zones.add_zoneinfo(&text);
                zones.add_buddyinfo(&text);
                zones.add_pagetypeinfo(&text);
                let _ = memory_ranges(&text);
            }

            #[test]
            fn any_addresses_are_answered(text in "([0-9a-f]{1,17}-[0-9a-f]{1,17} : System RAM\n){0,8}") {
                let _ = memory_ranges(&text);
            }
        }
    }
}
