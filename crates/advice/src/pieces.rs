//! Division of areas into pieces.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use crate::{Area, AreaId, PageOrder, Piece};

/// Largest number of pieces of all areas together.
pub(crate) const MAXIMUM_PIECES: usize = 128;
/// Pieces with a smaller share of all walks are not divided: 1/512.
const SMALLEST_SHARE: u64 = 512;

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
        area: AreaId(number as u32),
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
                (walks(area, &bytes), Piece { area: AreaId(number as u32), bytes })
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
