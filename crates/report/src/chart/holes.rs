//! The holes of one 2MB page as a grid: 32 × 16 sub-pages of 4KB, eight regions of 256KB.

use super::svg::{Anchor, Ink, Svg, length};
use crate::Region;
use crate::palette;

/// Sub-pages per line; a filter region of 64 sub-pages is two lines.
const ACROSS: usize = 32;
const DOWN: usize = 16;
const CELL: f64 = 10.0;
const GAP: f64 = 1.0;
const REGION_GAP: f64 = 4.0;
const LEFT: f64 = 22.0;

/// The picture of one page.
pub(crate) fn holes(region: &Region, title: &str) -> String {
    let mut svg = Svg::new();
    let height = top_of(DOWN - 1) + CELL + 3.0;
    let width = LEFT + ACROSS as f64 * CELL + 4.0;
    for filter_region in 0..8 {
        draw_region(&mut svg, region, filter_region);
    }
    let kinds: [(&str, &dyn Fn(usize) -> bool); 3] = [
        ("in-place", &|index| !region.is_hole(index)),
        ("hole", &|index| region.is_allocated_hole(index)),
        ("unallocated", &|index| region.is_hole(index) && !region.is_allocated_hole(index)),
    ];
    for (kind, is_kind) in kinds {
        draw_cells(&mut svg, kind, is_kind);
    }
    let data = format!(" data-holes=\"{}\" data-left=\"{}\"", states(region), length(LEFT));
    svg.finish_sized(width, height, title, &data)
}

fn top_of(line: usize) -> f64 {
    3.0 + line as f64 * CELL + (line / 2) as f64 * REGION_GAP
}

/// Outline of one filter region; strong where its filter bit is set.
fn draw_region(svg: &mut Svg, region: &Region, index: usize) {
    let is_set = region.filter >> index & 1 == 1;
    let top = top_of(index * 2);
    let (class, stroke) = if is_set { ("region set", "#1b2128") } else { ("region", "#d3dae0") };
    svg.raw(&format!(
        "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"2\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"1.2\"/>",
        length(LEFT - 1.5), length(top - 1.5), length(ACROSS as f64 * CELL + 2.0), length(2.0 * CELL + 2.0),
    ));
    let ink = if is_set { Ink::Strong } else { Ink::Muted };
    svg.text(LEFT - 7.0, top + CELL + 4.0, 11.0, Anchor::End, ink, &index.to_string());
}

/// All cells of one kind as a single path. Unallocated holes are hollow: no colour is needed to
/// tell them from allocated ones.
fn draw_cells(svg: &mut Svg, kind: &str, is_kind: &dyn Fn(usize) -> bool) {
    let hollow = kind == "unallocated";
    let (inset, size) = if hollow { (1.0, CELL - GAP - 2.0) } else { (0.0, CELL - GAP) };
    let mut path = String::new();
    for index in (0..ACROSS * DOWN).filter(|&index| is_kind(index)) {
        let x = LEFT + (index % ACROSS) as f64 * CELL + inset;
        let y = top_of(index / ACROSS) + inset;
        let size = length(size);
        path.push_str(&format!("M{} {}h{size}v{size}h-{size}z", length(x), length(y)));
    }
    if path.is_empty() {
        return;
    }
    if hollow {
        let stroke = palette::light("hole");
        svg.raw(&format!("<path class=\"s-hole\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"1.6\" d=\"{path}\"/>"));
    } else {
        svg.raw(&format!(
            "<path class=\"f-{kind}\" fill=\"{}\" d=\"{path}\"/>",
            palette::light(kind)
        ));
    }
}

/// One letter per sub-page for the page's script: in place, allocated, unallocated.
fn states(region: &Region) -> String {
    (0..ACROSS * DOWN)
        .map(|index| match (region.is_hole(index), region.is_allocated_hole(index)) {
            (false, _) => 'i',
            (true, true) => 'a',
            (true, false) => 'u',
        })
        .collect()
}
