//! Free blocks by order: `/proc/buddyinfo`.

use perforate_os::{FreeMemory, HostSnapshot, SnapshotAbout};

use super::zones::{Zones, node_and_zone, orders};

impl Zones {
    /// Adds the counts of `/proc/buddyinfo`. Returns false if the text has none.
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
}

/// Free memory of all zones, from the text of `/proc/buddyinfo`.
pub(crate) fn free_memory(text: &str) -> Option<FreeMemory> {
    let mut zones = Zones::default();
    let found = zones.add_buddyinfo(text);
    let about = SnapshotAbout { zones: zones.0, ..SnapshotAbout::default() };
    found.then(|| HostSnapshot { about, occupancy: None }.counted_free())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_summed() {
        let text = "Node 0, zone      DMA      0      0      0      1\n\
            Node 0, zone   Normal      2      3      5      7      0      0      0      0      0      9      4\n";
        assert_eq!(free_memory(text).unwrap().blocks, [2, 3, 5, 8, 0, 0, 0, 0, 0, 9, 4]);
        assert_eq!(free_memory("Node\nzone 0\n\u{fffd}"), None);
        assert_eq!(free_memory("Node 0, zone X -1 5").unwrap().blocks, [0; 11]);
    }
}
