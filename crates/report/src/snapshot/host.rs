//! The tables of a snapshot of a machine.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Section, Value, count};
use crate::format::{bytes, percent};
use perforate_records::MemoryMap;

const FRAME_BYTES: f64 = 4096.0;

/// A machine's memory, as its record says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct HostRecord {
    kernel: String,
    sources: Vec<String>,
    missing: Vec<String>,
    assumptions: Vec<String>,
    zones: Vec<Zone>,
    pub(super) memory_bytes: f64,
    frames: Option<BTreeMap<String, f64>>,
    mapped_frames: Option<f64>,
    shared_frames: Option<f64>,
    orders: Vec<Order>,
    policy: String,
    pub(super) blocks: Option<Blocks>,
    pub(super) request_bytes: f64,
    pub(super) requests: Vec<Request>,
    pub(super) memory_map: Option<MemoryMap>,
    pub(super) version: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Zone {
    node: f64,
    name: String,
    start_frame: f64,
    present_frames: f64,
    managed_frames: f64,
    per_cpu_frames: f64,
    free_blocks: Vec<f64>,
    pageblocks: Vec<Pageblocks>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Pageblocks {
    migrate_type: String,
    blocks: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Order {
    order: f64,
    counted: f64,
    placed: Option<f64>,
    unusable_index: f64,
    fragmentation_index: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Blocks {
    pub(super) blocks: BTreeMap<String, f64>,
    pub(super) memory_blocks: f64,
    compactable_with_room: f64,
    whole_without_page_cache: f64,
    holes: Vec<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Request {
    pub(super) case: String,
    pub(super) perforates: bool,
    paper: String,
    pub(super) shares: Option<Shares>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Shares {
    pub(super) large: f64,
    perforated: f64,
}

/// States of frames and what they are called.
const STATES: [(&str, &str); 12] = [
    ("free", "free"),
    ("per_cpu", "free, in lists of processors"),
    ("movable", "programs' 4KB pages, shared memory (movable)"),
    ("large", "programs' 2MB pages"),
    ("huge", "pages of hugetlbfs"),
    ("page_cache", "page cache (movable, can be dropped)"),
    ("reclaimable", "slab"),
    ("unmovable", "other kernel data (unmovable)"),
    ("reserved", "reserved at boot"),
    ("retired", "retired after hardware errors"),
    ("unknown", "unknown"),
    ("absent", "addresses without memory"),
];

/// What blocks can become.
const REACHES: [(&str, &str); 7] = [
    ("whole", "whole: all free"),
    ("compactable", "nothing stays: whole after compaction or dropped page cache"),
    ("perforable_now", "perforated page now, with all that is not free as holes"),
    ("perforable", "perforated page once what is movable has moved"),
    ("reclaimable", "neither, but whole if its slab is freed too"),
    ("large", "2MB page of a program, or hugetlbfs"),
    ("neither", "neither: too much stays"),
];

impl HostRecord {
    pub(super) fn title(&self) -> String {
        let kernel =
            if self.kernel.is_empty() { "Linux".into() } else { format!("Linux {}", self.kernel) };
        format!("{} of memory under {kernel}", bytes(self.memory_bytes))
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let sources =
            (!self.sources.is_empty()).then(|| format!("read: {}", self.sources.join(", ")));
        sources.into_iter().chain(self.missing.clone()).chain(self.assumptions.clone()).collect()
    }

    pub(super) fn sections(&self) -> Vec<Section> {
        let sections = [self.uses(), self.zones(), self.orders(), self.blocks(), self.requests()];
        sections.into_iter().flatten().collect()
    }

    fn uses(&self) -> Option<Section> {
        let frames = self.frames.as_ref()?;
        let mut section = Section::new("Frames", "", &["what they hold", "size", "share"]);
        for (key, label) in STATES {
            let Some(&found) = frames.get(key) else { continue };
            let size = found * FRAME_BYTES;
            let share = (key != "absent").then(|| size / self.memory_bytes.max(1.0));
            section.rows.push(vec![
                Value::text(label),
                Value::Number(Some(size), bytes),
                Value::Number(share, percent),
            ]);
        }
        for (label, found) in [
            ("  mapped by page tables", self.mapped_frames),
            ("  mapped more than once", self.shared_frames),
        ] {
            let Some(found) = found else { continue };
            let size = found * FRAME_BYTES;
            section.rows.push(vec![
                Value::text(label),
                Value::Number(Some(size), bytes),
                Value::Number(Some(size / self.memory_bytes.max(1.0)), percent),
            ]);
        }
        Some(section)
    }

    fn zones(&self) -> Option<Section> {
        if self.zones.is_empty() {
            return None;
        }
        let head = ["zone", "from", "memory", "managed", "free", "per CPU", "pageblocks by type"];
        let mut section = Section::new("Zones", "", &head);
        for zone in &self.zones {
            let free: f64 = (0..).zip(&zone.free_blocks).map(|(o, n)| n * 2_f64.powi(o)).sum();
            let types = zone.pageblocks.iter().filter(|kind| kind.blocks > 0.0);
            let types: Vec<String> = types
                .map(|kind| format!("{} {}", count(kind.blocks), short(&kind.migrate_type)))
                .collect();
            let size = |frames: f64| Value::Number(Some(frames * FRAME_BYTES), bytes);
            section.rows.push(vec![
                Value::text(format!("{} {}", zone.node, zone.name)),
                size(zone.start_frame),
                size(zone.present_frames),
                size(zone.managed_frames),
                size(free),
                size(zone.per_cpu_frames),
                Value::text(types.join(", ")),
            ]);
        }
        Some(section)
    }

    fn orders(&self) -> Option<Section> {
        let lead = "Free blocks by order, counted by the kernel and found frame by frame. Unusable \
                    index: share of free memory in smaller pieces. Fragmentation index, where an \
                    allocation would fail: 0 for lack of memory, 1 because of fragmentation \
                    (Linux: extfrag).";
        let head = ["order", "size", "counted", "found", "unusable", "fragmentation"];
        let mut section = Section::new("Free memory", lead, &head);
        let three: fn(f64) -> String = |value| format!("{value:.3}");
        for order in &self.orders {
            section.rows.push(vec![
                Value::text(format!("{}", order.order)),
                Value::Number(Some(FRAME_BYTES * 2_f64.powf(order.order)), bytes),
                Value::Number(Some(order.counted), count),
                Value::Number(order.placed, count),
                Value::Number(Some(order.unusable_index), three),
                match order.fragmentation_index {
                    Some(index) => Value::Number(Some(index), three),
                    None => Value::text("would not fail"),
                },
            ]);
        }
        (!section.rows.is_empty()).then_some(section)
    }

    fn blocks(&self) -> Option<Section> {
        let Some(blocks) = &self.blocks else { return self.whole_blocks() };
        let lead = format!(
            "Each block once, the easiest first; policy {}. Of those in which nothing stays, {} need \
             no copy if page cache is dropped, and there is free memory to compact {}.",
            self.policy,
            count(blocks.whole_without_page_cache),
            count(blocks.compactable_with_room),
        );
        let mut section =
            Section::new("2MB blocks", lead, &["what they can be", "blocks", "share"]);
        for (key, label) in REACHES {
            let found = blocks.blocks.get(key).copied().unwrap_or(0.0);
            section.rows.push(vec![
                Value::text(label),
                Value::Number(Some(found), count),
                Value::Number(Some(found / blocks.memory_blocks.max(1.0)), percent),
            ]);
        }
        let mut first = 1.0;
        for (power, &found) in (0..).zip(&blocks.holes) {
            let last = 2_f64.powi(power);
            if found > 0.0 {
                let staying = match (first, last) {
                    (_, 1.0) => "1 frame that stays".to_string(),
                    _ if first < last => format!("{first}–{last} frames that stay"),
                    _ => format!("{last} frames that stay"),
                };
                section.rows.push(vec![
                    Value::text(format!("  perforated pages with {staying}")),
                    Value::Number(Some(found), count),
                    Value::Number(Some(found / blocks.memory_blocks.max(1.0)), percent),
                ]);
            }
            first = last + 1.0;
        }
        Some(section)
    }

    /// Free blocks of 2MB, as the kernel counts them.
    pub(super) fn free_whole_blocks(&self) -> Option<f64> {
        let count_of = |order: f64| {
            self.orders.iter().find(|known| known.order == order).map(|known| known.counted)
        };
        Some(count_of(9.0)? + 2.0 * count_of(10.0)?)
    }

    /// What the count of free blocks alone says.
    fn whole_blocks(&self) -> Option<Section> {
        let whole = self.free_whole_blocks()?;
        let mut section = Section::new("2MB blocks", "", &["what they can be", "blocks", "share"]);
        section.rows.push(vec![
            Value::text("whole: all free"),
            Value::Number(Some(whole), count),
            Value::Number(Some(whole * 512.0 * FRAME_BYTES / self.memory_bytes.max(1.0)), percent),
        ]);
        Some(section)
    }

    fn requests(&self) -> Option<Section> {
        if self.requests.is_empty() {
            return None;
        }
        let lead = "Simulated on this memory, share in 2MB pages + share in perforated pages. P \
                    §III.C: 12GB, Linux 5.3.8, after a kernel build.";
        let title = format!("A program touches {} (P §III.C)", bytes(self.request_bytes));
        let mut section = Section::new(title, lead, &["when", "pages", "this memory", "P §III.C"]);
        for request in &self.requests {
            let found = match &request.shares {
                None => "not enough memory".into(),
                Some(shares) if request.perforates => {
                    format!("{} + {}", percent(shares.large), percent(shares.perforated))
                }
                Some(shares) => percent(shares.large),
            };
            let kind = if request.perforates { "with perforated" } else { "conventional" };
            section.rows.push(vec![
                Value::text(&request.case),
                Value::text(kind),
                Value::text(found),
                Value::text(if request.paper.is_empty() { "–" } else { &request.paper }),
            ]);
        }
        Some(section)
    }
}

fn short(migrate_type: &str) -> String {
    migrate_type.to_lowercase()
}
