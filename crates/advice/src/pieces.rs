//! Pieces: the parts of areas that advice distinguishes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use serde::Serialize;

use crate::{Area, PageOrder};

/// Largest number of pieces of all areas together.
pub(crate) const MAXIMUM_PIECES: usize = 128;
/// Pieces with a smaller share of all walks are not divided: 1/512.
const SMALLEST_SHARE: u64 = 512;

/// Part of an area, between two multiples of 2MB or the ends of the area.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Piece {
    /// Index of the area to which the piece belongs.
    pub area: usize,
    /// Addresses in bytes, multiples of 4096.
    pub bytes: Range<u64>,
}

/// Use that a program makes of one piece.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PieceUse {
    /// Loads and stores of the measured part of the trace to this piece.
    pub accesses: u64,
    /// Numbers of aligned blocks of 2ⁿ × 4KB that were touched or populated, by order n from 0 to 18.
    pub touched_blocks: Vec<u64>,
    /// Number of 4KB pages that were written after a fork while shared with the other process: each is a copy.
    pub pages_copied: u64,
}

/// Cuts areas that take advice into at most `limit` pieces, or one for each area. A piece is the part of an area within an aligned power of two of
/// at least 2MB. Pieces are the smaller the more walks go to them. `walks` counts the walks to a range of
/// addresses of an area with 4KB pages.
///
/// Every aligned 1GB of an area with walks is one more piece, which overlaps the smaller ones in it.
pub(crate) fn cut(
    areas: &[Area],
    limit: usize,
    walks: impl Fn(&Area, &Range<u64>) -> u64,
) -> Vec<Piece> {
    let total: u64 = areas.iter().map(|area| walks(area, &area.bytes)).sum();
    let mut queue = BinaryHeap::new();
    let advised = areas.iter().enumerate().filter(|(_, area)| area.kind.takes_advice());
    for (number, area) in advised {
        push(&mut queue, areas, number, block_around(&area.bytes), &walks);
    }
    let mut whole = Vec::new();
    while let Some((count, Reverse(number), Reverse(start), size)) = queue.pop() {
        let is_last = count * SMALLEST_SHARE <= total || queue.len() + 1 >= limit;
        if is_last || size <= PageOrder::LARGE.bytes() {
            whole.push((number, start..start + size));
        } else {
            for start in [start, start + size / 2] {
                push(&mut queue, areas, number, start..start + size / 2, &walks);
            }
        }
        if whole.len() + queue.len() >= limit {
            break;
        }
    }
    whole.extend(
        queue
            .into_iter()
            .map(|(_, Reverse(number), Reverse(start), size)| (number, start..start + size)),
    );
    let piece = |(number, block): (usize, Range<u64>)| Piece {
        area: number,
        bytes: clipped(&areas[number].bytes, &block),
    };
    let mut pieces: Vec<Piece> = whole.into_iter().map(piece).collect();
    pieces.sort_by_key(|piece| (piece.area, piece.bytes.start));
    pieces
}

/// Pieces for aligned gigabytes with walks, in areas that take advice: the `limit` with the most walks.
pub(crate) fn gigabytes(
    areas: &[Area],
    limit: usize,
    walks: impl Fn(&Area, &Range<u64>) -> u64,
) -> Vec<Piece> {
    let size = PageOrder::HUGE.bytes();
    let advised = areas.iter().enumerate().filter(|(_, area)| area.kind.takes_advice());
    let mut all: Vec<(u64, Piece)> = advised
        .flat_map(|(number, area)| {
            let whole = area.bytes.start.next_multiple_of(size)..area.bytes.end / size * size;
            let walks = &walks;
            whole.step_by(size as usize).map(move |start| {
                let bytes = start..start + size;
                (walks(area, &bytes), Piece { area: number, bytes })
            })
        })
        .filter(|(walks, _)| *walks > 0)
        .collect();
    all.sort_by_key(|(walks, piece)| (Reverse(*walks), piece.area, piece.bytes.start));
    all.truncate(limit);
    all.into_iter().map(|(_, piece)| piece).collect()
}

type Entry = (u64, Reverse<usize>, Reverse<u64>, u64);

/// Puts the part of an area within a block into the queue; parts without walks are left out.
fn push(
    queue: &mut BinaryHeap<Entry>,
    areas: &[Area],
    number: usize,
    block: Range<u64>,
    walks: &impl Fn(&Area, &Range<u64>) -> u64,
) {
    let area = &areas[number];
    let bytes = clipped(&area.bytes, &block);
    let count = if bytes.is_empty() { 0 } else { walks(area, &bytes) };
    if count > 0 {
        queue.push((count, Reverse(number), Reverse(block.start), block.end - block.start));
    }
}

fn clipped(bytes: &Range<u64>, block: &Range<u64>) -> Range<u64> {
    bytes.start.max(block.start)..bytes.end.min(block.end)
}

/// Smallest aligned power of two, of at least 2MB, around a range.
fn block_around(bytes: &Range<u64>) -> Range<u64> {
    let mut size = PageOrder::LARGE.bytes();
    while bytes.start / size != (bytes.end - 1) / size {
        size *= 2;
    }
    let start = bytes.start / size * size;
    start..start + size
}

#[cfg(test)]
mod tests {
    use perforate_types::ProcessId;

    use super::*;
    use crate::AreaKind;

    const MB: u64 = 1 << 20;
    const START: u64 = 0x7f00_0000_0000;

    fn area(kind: AreaKind, start_mb: u64, megabytes: u64) -> Area {
        let start = START + start_mb * MB;
        let bytes = start..start + megabytes * MB;
        Area { process: ProcessId(0), name: String::new(), kind, bytes, lifetime: 0..1 }
    }

    /// Walks that all go to the single pages at these addresses in megabytes, the same number to each.
    fn walks_to(pages: &[u64]) -> impl Fn(&Area, &Range<u64>) -> u64 {
        let pages: Vec<u64> = pages.iter().map(|megabyte| START + megabyte * MB).collect();
        move |_, bytes| 1000 * pages.iter().filter(|page| bytes.contains(page)).count() as u64
    }

    fn in_megabytes(pieces: &[Piece]) -> Vec<(u64, u64)> {
        let bytes = pieces.iter().map(|piece| &piece.bytes);
        bytes.map(|bytes| ((bytes.start - START) / MB, (bytes.end - START) / MB)).collect()
    }

    #[test]
    fn pieces_are_small_where_the_walks_are() {
        let areas = [area(AreaKind::Anonymous, 0, 64), area(AreaKind::File, 64, 64)];
        let found = cut(&areas, MAXIMUM_PIECES, walks_to(&[5, 70]));
        assert_eq!(in_megabytes(&found), [(4, 6)], "memory without walks, and files, have none");
        let found = cut(&areas, MAXIMUM_PIECES, walks_to(&[5, 6, 40]));
        assert_eq!(in_megabytes(&found), [(4, 6), (6, 8), (40, 42)]);
        // Of two pieces at most, one is larger.
        let found = cut(&areas, 2, walks_to(&[5, 6, 40]));
        assert_eq!(in_megabytes(&found), [(0, 32), (32, 64)]);
        // A piece with less than 1/512 of all walks is not divided.
        let rare = |share: u64| {
            let common = walks_to(&[5]);
            move |area: &Area, bytes: &Range<u64>| {
                share * common(area, bytes) + walks_to(&[40])(area, bytes)
            }
        };
        assert_eq!(in_megabytes(&cut(&areas, 128, rare(520))), [(4, 6), (32, 64)]);
        assert_eq!(in_megabytes(&cut(&areas, 128, rare(500))), [(4, 6), (40, 42)]);
    }

    /// Pieces lie within their area, whatever its ends are.
    #[test]
    fn pieces_end_with_their_area() {
        let areas = [area(AreaKind::Heap, 3, 4)];
        let found = cut(&areas, MAXIMUM_PIECES, walks_to(&[3, 4, 6]));
        assert_eq!(in_megabytes(&found), [(3, 4), (4, 6), (6, 7)]);
    }

    #[test]
    fn gigabytes_are_whole_and_have_walks() {
        let areas =
            [area(AreaKind::Anonymous, 512, 3 * 1024), area(AreaKind::File, 4096, 2 * 1024)];
        // The first and the last gigabyte are not whole; the third has no walks.
        let walks = walks_to(&[600, 1100, 3500, 3600, 5000]);
        assert_eq!(in_megabytes(&gigabytes(&areas, 8, walks)), [(1024, 2048)]);
        let walks = walks_to(&[1100, 2100, 2200]);
        let both = gigabytes(&areas, 8, &walks);
        assert_eq!(in_megabytes(&both), [(2048, 3072), (1024, 2048)], "most walks first");
        assert_eq!(in_megabytes(&gigabytes(&areas, 1, &walks)), [(2048, 3072)]);
    }
}
