//! Free blocks and pageblocks by migrate type: `/proc/pagetypeinfo`.

use perforate_records::{FreeBlocksByType, PageblockCount};

use super::zones::{Zones, node_and_zone, number, orders};

impl Zones {
    /// Adds the counts of `/proc/pagetypeinfo`.
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
