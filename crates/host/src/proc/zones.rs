//! Memory zones, described together by `/proc/zoneinfo`, `buddyinfo` and `pagetypeinfo`.

use perforate_os::{FreeMemory, HostSnapshot, SnapshotAbout};
use perforate_records::{FREE_ORDERS as ORDERS, FreeBlocksByType, PageblockCount, SnapshotZone};

/// Maximum number of zones that a parser accepts: more than 1024 nodes with five zones each have.
const MAX_ZONES: usize = 8192;
/// Maximum that a parser accepts for a number of frames or blocks.
const MAX_COUNT: u64 = 1 << 40;

/// Parses a number, with an optional `>` in front, by which pagetypeinfo marks counts above its
/// limit.
fn number(word: &str) -> Option<u64> {
    word.trim_start_matches('>').parse().ok().filter(|&number| number <= MAX_COUNT)
}

/// Parses `Node 0, zone   Normal` at the beginning of a line. Returns node, name and the rest of
/// the line.
fn node_and_zone(line: &str) -> Option<(u64, &str, &str)> {
    let rest = line.trim_start().strip_prefix("Node")?.trim_start();
    let (node, rest) = rest.split_once(',')?;
    let rest = rest.trim_start().strip_prefix("zone")?.trim_start();
    let end = rest.find(|character: char| character.is_whitespace() || character == ',');
    let (name, rest) = rest.split_at(end.unwrap_or(rest.len()));
    Some((number(node.trim())?, name, rest))
}

/// Memory zones collected from several files of `/proc`.
#[derive(Default)]
pub(crate) struct Zones(pub(crate) Vec<SnapshotZone>);

impl Zones {
    /// Returns the zone with this node and name, created if it is new. `None` if the name is invalid or
    /// [`MAX_ZONES`] is reached.
    fn zone(&mut self, node: u64, name: &str) -> Option<&mut SnapshotZone> {
        let known = self.0.iter().position(|zone| zone.node == node && zone.name == name);
        let place = match known {
            Some(place) => place,
            None if self.0.len() >= MAX_ZONES || name.is_empty() || name.len() > 32 => {
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

    /// Adds the zones' first frames, sizes and numbers of free frames in per-CPU lists, from the text of
    /// `/proc/zoneinfo`.
    pub(crate) fn add_zoneinfo(&mut self, text: &str) {
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
                "count:" => zone.per_cpu_frames = (zone.per_cpu_frames + value).min(MAX_COUNT),
                _ => {}
            }
        }
    }

    /// Adds the free blocks of the zones in the text of `/proc/buddyinfo`. Returns false if the
    /// text has none.
    pub(crate) fn add_buddyinfo(&mut self, text: &str) -> bool {
        let mut found = false;
        for (node, name, counts) in text.lines().filter_map(node_and_zone) {
            if let Some(zone) = self.zone(node, name) {
                zone.free_blocks = orders(counts);
                found = true;
            }
        }
        found
    }

    /// Adds free blocks and pageblocks by migrate type, from the text of `/proc/pagetypeinfo`.
    pub(crate) fn add_pagetypeinfo(&mut self, text: &str) {
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

/// Numbers of free blocks by order in all zones together, from the text of `/proc/buddyinfo`; `None` if the
/// text has no zones.
pub(crate) fn free_memory(text: &str) -> Option<FreeMemory> {
    let mut zones = Zones::default();
    let found = zones.add_buddyinfo(text);
    let about = SnapshotAbout { zones: zones.0, ..SnapshotAbout::default() };
    found.then(|| HostSnapshot { about, occupancy: None }.counted_free())
}

/// Parses numbers of free blocks by order of the buddy allocator. A block of an order above 10 counts as
/// several of order 10.
fn orders(counts: &str) -> [u64; ORDERS] {
    let mut found = [0; ORDERS];
    for (order, count) in counts.split_whitespace().map_while(number).enumerate().take(20) {
        let place = order.min(ORDERS - 1);
        found[place] = (found[place] + (count << (order - place))).min(MAX_COUNT);
    }
    found
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
    fn zones_are_summed() {
        let text = "Node 0, zone      DMA      0      0      0      1\n\
            Node 0, zone   Normal      2      3      5      7      0      0      0      0      0      9      4\n";
        assert_eq!(free_memory(text).unwrap().blocks, [2, 3, 5, 8, 0, 0, 0, 0, 0, 9, 4]);
        assert_eq!(free_memory("Node\nzone 0\n\u{fffd}"), None);
        assert_eq!(free_memory("Node 0, zone X -1 5").unwrap().blocks, [0; 11]);
    }

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
}
