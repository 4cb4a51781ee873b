//! What a snapshot says about large pages, in a few sentences.

use super::host::HostRecord;
use super::process::{Area, ProcessRecord};
use crate::format::{bytes, percent};

/// Bytes of a large page.
const LARGE: f64 = 2_097_152.0;
/// Shares that differ by less are called the same.
const SAME: f64 = 0.005;

impl HostRecord {
    /// How much of the memory can become 2MB pages, what a program gets, and what holes would add.
    pub(super) fn verdict(&self) -> Vec<String> {
        [self.whole(), self.program(), self.holes()].into_iter().flatten().collect()
    }

    /// Share of the memory's blocks that can become this.
    fn share(&self, reaches: &[&str]) -> Option<f64> {
        let blocks = self.blocks.as_ref()?;
        let found = reaches.iter().filter_map(|reach| blocks.blocks.get(*reach));
        Some(found.fold(0.0, |sum, blocks| sum + blocks) / blocks.memory_blocks.max(1.0))
    }

    fn whole(&self) -> Option<String> {
        let Some((whole, later)) = self.share(&["whole"]).zip(self.share(&["compactable"])) else {
            let free = self.free_whole_blocks()? * LARGE / self.memory_bytes.max(1.0);
            return Some(format!(
                "{} of this memory is free in whole 2MB blocks; what compaction could add is known to \
                 root only.",
                percent(free)
            ));
        };
        let today = self.share(&["large"]).filter(|&share| share > 0.0);
        let today = today.map(|share| format!(" ({} is in 2MB pages already)", percent(share)));
        Some(format!(
            "{} of this memory is free in whole 2MB blocks{}; compaction could free another {}.",
            percent(whole),
            today.unwrap_or_default(),
            percent(later)
        ))
    }

    /// What a program gets at once, and what it gains by waiting.
    fn program(&self) -> Option<String> {
        let conventional = self.requests.iter().filter(|request| !request.perforates);
        let shares: Vec<(&str, f64)> = conventional
            .filter_map(|request| Some((request.case.as_str(), request.shares.as_ref()?.large)))
            .collect();
        let (case, first) = shares.first()?;
        let size = bytes(self.request_bytes);
        let mut text = format!(
            "A program that touches {size} gets {} of it in 2MB pages {case}",
            percent(*first)
        );
        let better = shares.iter().find(|(_, share)| share - first > SAME);
        if let Some((case, share)) = better {
            text += &format!(", and {} {case}", percent(*share));
        }
        Some(text + ".")
    }

    fn holes(&self) -> Option<String> {
        let share = self.share(&["perforable_now", "perforable"])?;
        let stays = self.share(&["neither", "reclaimable"])?;
        let only = if share < 0.02 { "only " } else { "" };
        Some(format!(
            "Perforated pages could cover {only}another {}, with holes where memory cannot be moved; {} \
             cannot become large pages of either kind.",
            percent(share),
            percent(stays)
        ))
    }
}

impl ProcessRecord {
    /// How much is in 2MB pages, and how much could be.
    pub(super) fn verdict(&self) -> Vec<String> {
        let resident = self.totals.resident_bytes;
        if resident <= 0.0 {
            return vec!["Nothing of it is in memory.".into()];
        }
        let fits = |area: &&Area| area.mapped_bytes >= LARGE;
        let roomy = self.areas.iter().filter(fits).map(|area| area.resident_bytes);
        let roomy = roomy.fold(0.0, |sum, bytes| sum + bytes);
        vec![format!(
            "{} of what it has in memory is mapped in 2MB pages; {} lies in areas of 2MB or more, which \
             could have some.",
            percent(self.totals.large_bytes / resident),
            percent(roomy / resident)
        )]
    }
}
