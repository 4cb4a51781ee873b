//! Changes of areas: mmap, munmap, madvise for large pages, brk, stacks.

use std::ops::Range;

use perforate_types::{Backing, Permissions, SpaceId, VirtualAddress};

use super::{Core, range};
use crate::OsError;
use crate::space::{Area, Attributes, LargePageAdvice, is_canonical, pages_of, region_of};

/// Largest distance of a touch below a stack that extends it, in pages: 8MB, Linux's default limit.
const STACK_GROWTH_PAGES: u64 = (8 << 20) >> 12;

/// Pages that overlap a byte range. Fails if the range crosses from the lower (user) to the upper half of the
/// 48-bit address space, or lies outside both.
pub(super) fn page_range(start: VirtualAddress, length_bytes: u64) -> Result<Range<u64>, OsError> {
    let invalid = OsError::InvalidRange { start: start.value(), length_bytes };
    let Some(end) = start.value().checked_add(length_bytes) else { return Err(invalid) };
    let pages = start.value() >> 12..end.div_ceil(4096);
    let last = pages.end.max(pages.start + 1) - 1;
    // Both ends must lie in the same half of the address space.
    let in_one_half =
        is_canonical(pages.start) && is_canonical(last) && (pages.start >> 51) == (last >> 51);
    if in_one_half { Ok(pages) } else { Err(invalid) }
}

/// Maps a memory area (mmap). Earlier mappings in the range are unmapped first.
pub(super) fn map(
    core: &mut Core,
    id: SpaceId,
    pages: Range<u64>,
    attributes: Attributes,
) -> Result<(), OsError> {
    if pages.is_empty() {
        return Ok(());
    }
    range::unmap(core, id, pages.clone())?;
    core.space_mut(id)?.areas.insert(pages, attributes);
    Ok(())
}

/// Unmaps `pages` (munmap) and removes them from all memory areas.
pub(super) fn unmap(core: &mut Core, id: SpaceId, pages: Range<u64>) -> Result<(), OsError> {
    range::unmap(core, id, pages.clone())?;
    core.space_mut(id)?.areas.remove(pages);
    Ok(())
}

/// Stores the program's advice on large pages (MADV_HUGEPAGE, MADV_NOHUGEPAGE).
pub(super) fn advise_large_pages(
    core: &mut Core,
    id: SpaceId,
    pages: Range<u64>,
    large_pages: LargePageAdvice,
) -> Result<(), OsError> {
    let space = &mut core.space_mut(id)?;
    space.areas.change(pages, |attributes| attributes.large_pages = large_pages);
    Ok(())
}

/// brk: moves the end of the heap, which begins at `start`, to `end`.
pub(super) fn brk(
    core: &mut Core,
    id: SpaceId,
    start: VirtualAddress,
    end: VirtualAddress,
) -> Result<(), OsError> {
    let length = end.value().saturating_sub(start.value());
    let pages = page_range(start, length)?;
    let space = &mut core.space_mut(id)?;
    // The heap may begin in the last page of the program's data, which is mapped already.
    let first = match space.areas.find(pages.start) {
        Some(area) if area.attributes.backing != Backing::Heap => pages.start + 1,
        _ => pages.start,
    };
    let old_end = space.heap_end.unwrap_or(first).max(first);
    let new_end = pages.end.max(first);
    space.heap_end = Some(new_end);
    if new_end < old_end {
        return unmap(core, id, new_end..old_end);
    }
    let attributes = Attributes::private(Permissions::READ_WRITE, Backing::Heap);
    map(core, id, old_end..new_end, attributes)
}

/// Makes a memory area for a touched page outside all areas: extends a stack down to the page, or, with
/// `implicit_maps`, creates an anonymous area in the 2MB around it. `None` if neither applies.
#[cold]
pub(super) fn make(core: &mut Core, id: SpaceId, page: u64) -> Result<Option<Area>, OsError> {
    let implicit_maps = core.config.implicit_maps;
    let space = &mut core.space_mut(id)?;
    if !is_canonical(page) {
        return Ok(None);
    }
    let above = space.areas.next_above(page);
    if let Some(stack) = above.filter(|area| area.attributes.backing == Backing::Stack)
        && stack.start - page <= STACK_GROWTH_PAGES
    {
        space.areas.insert(page..stack.start, stack.attributes);
        return Ok(space.areas.find(page));
    }
    if implicit_maps {
        let attributes = Attributes::private(Permissions::ALL, Backing::Anonymous);
        for gap in space.areas.gaps(pages_of(region_of(page))) {
            space.areas.insert(gap, attributes);
        }
    }
    Ok(space.areas.find(page))
}
