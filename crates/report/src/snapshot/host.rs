//! Tables in the report on a machine's snapshot.

use perforate_records::{BlockReach, HostRecord};

use super::{Section, Value, count};
use crate::format::{bytes, percent};

const FRAME_BYTES: f64 = 4096.0;
/// A note on memory that the kernel cannot use is written if it is at least this share of all memory, 0–1.
const LEAST_UNMANAGED: f64 = 0.02;

/// States of 4KB frames: their names in records, with the labels of tables.
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

/// Possible uses of a 2MB block, such as becoming a 2MB page after compaction, with the labels of tables.
const REACHES: [(BlockReach, &str); 7] = [
    (BlockReach::Whole, "whole: all free"),
    (BlockReach::Compactable, "nothing stays: whole after compaction or dropped page cache"),
    (BlockReach::PerforableNow, "perforated page now, with all that is not free as holes"),
    (BlockReach::Perforable, "perforated page once what is movable has moved"),
    (BlockReach::Reclaimable, "neither, but whole if its slab is freed too"),
    (BlockReach::Large, "2MB page of a program, or hugetlbfs"),
    (BlockReach::Neither, "neither: too much stays"),
];

pub(super) fn title(record: &HostRecord) -> String {
    let kernel =
        if record.kernel.is_empty() { "Linux".into() } else { format!("Linux {}", record.kernel) };
    format!("{} of memory under {kernel}", bytes(record.memory_bytes as f64))
}

pub(super) fn notes(record: &HostRecord) -> Vec<String> {
    let sources =
        (!record.sources.is_empty()).then(|| format!("read: {}", record.sources.join(", ")));
    let notes = sources.into_iter().chain(unmanaged(record));
    notes.chain(record.missing.clone()).chain(record.assumptions.clone()).collect()
}

/// Returns a note on memory that the kernel cannot use now, if that is more than was reserved at boot.
fn unmanaged(record: &HostRecord) -> Option<String> {
    let unmanaged =
        record.zones.iter().map(|zone| zone.present_frames.saturating_sub(zone.managed_frames));
    let reserved = record.frames.as_ref().and_then(|frames| frames.get("reserved").copied());
    let size = (unmanaged.sum::<u64>().saturating_sub(reserved?)) as f64 * FRAME_BYTES;
    (size >= LEAST_UNMANAGED * memory_bytes(record)).then(|| {
        format!(
            "{} are not the kernel's to use now, as a balloon of a virtual machine takes memory away (present \
             less managed in /proc/zoneinfo); they count as unmovable",
            bytes(size)
        )
    })
}

pub(super) fn sections(record: &HostRecord) -> Vec<Section> {
    let sections = [uses(record), zones(record), orders(record), blocks(record), requests(record)];
    sections.into_iter().flatten().collect()
}

fn uses(record: &HostRecord) -> Option<Section> {
    let frames = record.frames.as_ref()?;
    let mut section = Section::new("Frames", "", &["what they hold", "size", "share"]);
    let mut add = |label, frames: u64, has_share: bool| {
        let size = frames as f64 * FRAME_BYTES;
        section.add(label, size, bytes, has_share.then(|| size / memory_bytes(record)));
    };
    for (key, label) in STATES {
        if let Some(&found) = frames.get(key) {
            add(label, found, key != "absent");
        }
    }
    for (label, found) in [
        ("of all these, mapped by page tables", record.mapped_frames),
        ("of all these, mapped more than once", record.shared_frames),
    ] {
        if let Some(found) = found {
            add(label, found, true);
        }
    }
    Some(section)
}

fn zones(record: &HostRecord) -> Option<Section> {
    if record.zones.is_empty() {
        return None;
    }
    let head = ["zone", "from", "memory", "managed", "free", "per CPU", "pageblocks by type"];
    let mut section = Section::new("Zones", "", &head);
    for zone in &record.zones {
        let free = (0..).zip(zone.free_blocks);
        let free: f64 = free.map(|(order, blocks)| blocks as f64 * 2_f64.powi(order)).sum();
        let types = zone.pageblocks.iter().filter(|kind| kind.blocks > 0);
        let types: Vec<String> = types
            .map(|kind| {
                format!("{} {}", count(kind.blocks as f64), kind.migrate_type.to_lowercase())
            })
            .collect();
        let size = |frames: f64| Value::bytes(frames * FRAME_BYTES);
        section.rows.push(vec![
            Value::text(format!("{} {}", zone.node, zone.name)),
            size(zone.start_frame as f64),
            size(zone.present_frames as f64),
            size(zone.managed_frames as f64),
            size(free),
            size(zone.per_cpu_frames as f64),
            Value::text(types.join(", ")),
        ]);
    }
    Some(section)
}

fn orders(record: &HostRecord) -> Option<Section> {
    let lead = "Free blocks by order, counted by the kernel and found frame by frame. Unusable \
                index: share of free memory in smaller pieces. Fragmentation index, where an \
                allocation would fail: 0 for lack of memory, 1 because of fragmentation \
                (Linux: extfrag).";
    let head = ["order", "size", "counted", "found", "unusable", "fragmentation"];
    let mut section = Section::new("Free memory", lead, &head);
    let three: fn(f64) -> String = |value| format!("{value:.3}");
    for order in &record.orders {
        section.rows.push(vec![
            Value::text(format!("{}", order.order)),
            Value::bytes(FRAME_BYTES * 2_f64.powi(order.order as i32)),
            Value::Number(Some(order.counted as f64), count),
            Value::Number(order.placed.map(|blocks| blocks as f64), count),
            Value::Number(Some(order.unusable_index), three),
            match order.fragmentation_index {
                Some(index) => Value::Number(Some(index), three),
                None => Value::text("would not fail"),
            },
        ]);
    }
    (!section.rows.is_empty()).then_some(section)
}

fn blocks(record: &HostRecord) -> Option<Section> {
    let Some(blocks) = &record.blocks else { return whole_blocks(record) };
    let memory_blocks = (blocks.memory_blocks as f64).max(1.0);
    let lead = format!(
        "Each block once, the easiest first; policy {}. Of those in which nothing stays, {} need \
         no copy if page cache is dropped, and there is free memory to compact {}.",
        record.policy,
        count(blocks.whole_without_page_cache as f64),
        count(blocks.compactable_with_room as f64),
    );
    let mut section = Section::new("2MB blocks", lead, &["what they can be", "blocks", "share"]);
    for (reach, label) in REACHES {
        let found = blocks.count(reach) as f64;
        section.add(label, found, count, Some(found / memory_blocks));
    }
    let mut first = 1.0;
    for (power, found) in (0..).zip(blocks.holes) {
        let last = 2_f64.powi(power);
        if found > 0 {
            let found = found as f64;
            let staying = match (first, last) {
                (_, 1.0) => "1 frame that stays".to_string(),
                _ if first < last => format!("{first}–{last} frames that stay"),
                _ => format!("{last} frames that stay"),
            };
            let label = format!("  perforated pages with {staying}");
            section.add(&label, found, count, Some(found / memory_blocks));
        }
        first = last + 1.0;
    }
    Some(section)
}

/// Returns the number of free 2MB blocks in the kernel's counts of free blocks by order; `None` if unknown.
pub(super) fn free_whole_blocks(record: &HostRecord) -> Option<f64> {
    let count_of = |order: u32| {
        record.orders.iter().find(|known| known.order == order).map(|known| known.counted as f64)
    };
    Some(count_of(9)? + 2.0 * count_of(10)?)
}

/// Returns a table of the free 2MB blocks in the kernel's statistics, for snapshots without the states of
/// frames.
fn whole_blocks(record: &HostRecord) -> Option<Section> {
    let whole = free_whole_blocks(record)?;
    let mut section = Section::new("2MB blocks", "", &["what they can be", "blocks", "share"]);
    let share = whole * 512.0 * FRAME_BYTES / memory_bytes(record);
    section.add("whole: all free", whole, count, Some(share));
    Some(section)
}

fn requests(record: &HostRecord) -> Option<Section> {
    if record.requests.is_empty() {
        return None;
    }
    let lead = "Simulated on this memory, share in 2MB pages + share in perforated pages. P \
                §III.C: 12GB, Linux 5.3.8, after a kernel build.";
    let title = format!("A program touches {} (P §III.C)", bytes(record.request_bytes as f64));
    let mut section = Section::new(title, lead, &["when", "pages", "this memory", "P §III.C"]);
    for request in &record.requests {
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
fn memory_bytes(record: &HostRecord) -> f64 {
    (record.memory_bytes as f64).max(1.0)
}
