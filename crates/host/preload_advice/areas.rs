//! Areas that the program has made so far, and advice on them.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::items::{Item, MAX_ITEMS, PAGE_BYTES, Part, Settings, parse};
use super::report;
use super::system::{
    MADV_COLLAPSE, MADV_HUGEPAGE, MAP_ANONYMOUS, MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_HUGETLB,
    MAP_SHARED_VALIDATE, advise,
};

/// Size in bytes from which mappings are numbered: smaller mappings have no room for a 2MB page.
const LEAST_NUMBERED_BYTES: usize = 2 << 20;

/// Words of the report before those of the items.
#[derive(Clone, Copy)]
pub enum Word {
    /// Process that the report describes; 0 before the library has begun.
    Begun,
    /// 1 once the C library's functions lead to this library.
    Patched,
    /// Number of madvise calls that failed.
    Refused,
    /// Number of private anonymous mappings of at least 2MB.
    Mappings,
    /// Number of shared mappings of at least 2MB.
    SharedMappings,
}

/// Index of the first item's first word. Each item has two: start address and length of its area in bytes.
const FIRST_ITEM_WORD: usize = 8;

/// Start and length of an item's area; length 0 before the area exists.
struct Extent {
    start: AtomicUsize,
    bytes: AtomicUsize,
}

/// Items, and the extents of their areas.
struct Areas {
    items: UnsafeCell<[Item; MAX_ITEMS]>,
    count: AtomicUsize,
    is_silent: AtomicBool,
    extents: [Extent; MAX_ITEMS],
    mappings: AtomicUsize,
    shared_mappings: AtomicUsize,
}

// SAFETY: items are written before `count` makes them visible, and never again.
unsafe impl Sync for Areas {}

static AREAS: Areas = Areas {
    items: UnsafeCell::new([Item::NONE; MAX_ITEMS]),
    count: AtomicUsize::new(0),
    is_silent: AtomicBool::new(false),
    extents: [const { Extent { start: AtomicUsize::new(0), bytes: AtomicUsize::new(0) } };
        MAX_ITEMS],
    mappings: AtomicUsize::new(0),
    shared_mappings: AtomicUsize::new(0),
};

/// Fills the list of items from the library's parameters. Returns the settings; `None` if the parameters are
/// malformed.
///
/// # Safety
/// Only one call, before any other function of this module.
pub unsafe fn begin(parameters: &'static [u8]) -> Option<Settings> {
    // SAFETY: promised by the caller.
    let (settings, count) = parse(parameters, unsafe { &mut *AREAS.items.get() })?;
    AREAS.is_silent.store(settings.is_silent, Ordering::Release);
    AREAS.count.store(count, Ordering::Release);
    Some(settings)
}

fn items() -> impl Iterator<Item = (usize, &'static Item)> {
    let count = AREAS.count.load(Ordering::Acquire);
    // SAFETY: items do not change after `count` was stored.
    let all = unsafe { &*AREAS.items.get() };
    all[..count].iter().enumerate()
}

/// Adds to a word of the report.
pub fn count(word: Word, more: u64) {
    if let Some(word) = report::word(word as usize) {
        word.fetch_add(more, Ordering::AcqRel);
    }
}

/// Asks for large pages between two addresses, whole 4KB pages only.
fn advise_range(start: usize, end: usize, advice: i32) {
    let (start, end) = (start.next_multiple_of(PAGE_BYTES), end.next_multiple_of(PAGE_BYTES));
    if start >= end || !is_loud() {
        return;
    }
    // SAFETY: the advice changes no contents.
    if !unsafe { advise(start, end - start, advice) } {
        count(Word::Refused, 1);
    }
}

/// Stores the extent of an item's area.
fn place(number: usize, start: usize, bytes: usize) {
    let extent = &AREAS.extents[number];
    extent.start.store(start, Ordering::Release);
    extent.bytes.store(bytes, Ordering::Release);
    let first = FIRST_ITEM_WORD + 2 * number;
    for (index, value) in [(first, start), (first + 1, bytes)] {
        if let Some(word) = report::word(index) {
            word.store(value as u64, Ordering::Release);
        }
    }
}

/// Advises the parts of an item's ranges that lie between two addresses.
fn advise_part(number: usize, item: &Item, from: usize, to: usize) {
    let area = AREAS.extents[number].start.load(Ordering::Acquire);
    for (start, end) in item.ranges() {
        let (start, end) = (area.saturating_add(start), area.saturating_add(end));
        advise_range(start.max(from), end.min(to), MADV_HUGEPAGE);
    }
}

/// Records an area that exists as a whole, and advises its ranges.
fn made(part: Part, start: usize, bytes: usize) {
    for (number, item) in items().filter(|(_, item)| item.part == part) {
        place(number, start, bytes);
        advise_part(number, item, start, start + bytes);
    }
}

/// True if parts of the heap are advised.
pub fn advises_heap() -> bool {
    is_loud() && items().any(|(_, item)| item.part == Part::Heap)
}

/// True if shared areas are advised, and a mapping with this size and these flags has a number among them.
pub fn aligns_shared(bytes: usize, flags: i32) -> bool {
    let is_numbered = flags & MAP_SHARED_VALIDATE & 1 != 0 && flags & MAP_HUGETLB == 0;
    is_numbered
        && bytes >= LEAST_NUMBERED_BYTES
        && is_loud()
        && items().any(|(_, item)| matches!(item.part, Part::Shared(_)))
}

/// True if the library gives advice.
pub fn is_loud() -> bool {
    !AREAS.is_silent.load(Ordering::Acquire)
}

/// Removes the areas of a program that this process executed before from the report.
pub fn forget() {
    items().for_each(|(number, _)| place(number, 0, 0));
}

/// Hears of the heap, which grew from `end` to `new_end`, or shrank.
pub fn heap_resized(start: usize, end: usize, new_end: usize) {
    for (number, item) in items().filter(|(_, item)| item.part == Part::Heap) {
        place(number, start, new_end - start);
        advise_part(number, item, end, new_end);
    }
}

/// Hears of the program's static data.
pub fn static_data(start: usize, bytes: usize) {
    made(Part::Static, start, bytes);
}

/// Hears of anonymous memory that is not a mapping of its own number.
pub fn anonymous(start: usize, bytes: usize) {
    if items().any(|(_, item)| item.part == Part::Anonymous) {
        advise_range(start, start + bytes, MADV_HUGEPAGE);
    }
}

/// Hears of code that a file's mapping holds.
pub fn text(path: &[u8], start: usize, bytes: usize) {
    for (number, item) in items() {
        if let Part::Text(suffix) = item.part
            && path.ends_with(suffix)
        {
            place(number, start, bytes);
            advise_range(start, start + bytes, MADV_COLLAPSE);
        }
    }
}

/// Hears of memory that the program gave a name.
pub fn named(name: &[u8], start: usize, bytes: usize) {
    for (number, item) in items() {
        if let Part::Named(wanted) = item.part
            && wanted == name
        {
            place(number, start, bytes);
            advise_range(start, start + bytes, MADV_HUGEPAGE);
        }
    }
}

/// Hears of a new mapping.
pub fn mapped(start: usize, bytes: usize, flags: i32) {
    if flags & MAP_HUGETLB != 0 {
        return;
    }
    let is_anonymous = flags & MAP_ANONYMOUS != 0;
    // MAP_SHARED and MAP_SHARED_VALIDATE have this bit in common.
    let is_shared = flags & MAP_SHARED_VALIDATE & 1 != 0;
    let is_fixed = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0;
    if is_anonymous && !is_shared {
        anonymous(start, bytes);
    }
    if is_fixed {
        if is_anonymous {
            replaced(start, bytes);
        }
    } else if bytes >= LEAST_NUMBERED_BYTES && (is_anonymous || is_shared) {
        let (counter, word) = match is_shared {
            true => (&AREAS.shared_mappings, Word::SharedMappings),
            false => (&AREAS.mappings, Word::Mappings),
        };
        let number = counter.fetch_add(1, Ordering::AcqRel);
        count(word, 1);
        made(if is_shared { Part::Shared(number) } else { Part::Mapping(number) }, start, bytes);
    }
}

/// Hears of anonymous memory that was mapped over parts of other mappings, which drops their advice.
fn replaced(start: usize, bytes: usize) {
    for (number, item) in items() {
        let Extent { start: area, bytes: length } = &AREAS.extents[number];
        let area = area.load(Ordering::Acquire);
        let end = area + length.load(Ordering::Acquire);
        let (from, to) = (start.max(area), (start + bytes).min(end));
        if matches!(item.part, Part::Mapping(_) | Part::Shared(_)) && from < to {
            advise_part(number, item, from, to);
        }
    }
}

/// Hears of a mapping that was moved or resized.
pub fn moved(old: usize, start: usize, bytes: usize) {
    for (number, item) in items() {
        let Extent { start: area, bytes: length } = &AREAS.extents[number];
        if length.load(Ordering::Acquire) > 0 && area.load(Ordering::Acquire) == old {
            place(number, start, bytes);
            advise_part(number, item, start, start + bytes);
        }
    }
}

/// Asks for large pages in all of a mapping, because the kernel moves no mapping of which only parts have
/// such advice. Returns true if the mapping lies in an area.
pub fn made_one(start: usize, bytes: usize) -> bool {
    let is_area = items().any(|(number, _)| {
        let Extent { start: area, bytes: length } = &AREAS.extents[number];
        let area = area.load(Ordering::Acquire);
        (area..area + length.load(Ordering::Acquire)).contains(&start)
    });
    if is_area {
        advise_range(start, start + bytes, MADV_HUGEPAGE);
    }
    is_area
}
