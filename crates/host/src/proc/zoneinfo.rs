//! Start, size and per-CPU free lists of zones: `/proc/zoneinfo`.

use super::zones::{MAX_COUNT, Zones, node_and_zone, number};

impl Zones {
    /// Adds the starts and counts of `/proc/zoneinfo`.
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
}
