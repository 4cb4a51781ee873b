//! Maps of physical memory at some moments of a run.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use perforate_records::{CellRun as Run, MemoryMap};

use crate::chart::{CellRun, Maps, Picture, Series, coarse, common_scale, inner_squares};
use crate::comparison::{Comparison, SchemeRuns};
use crate::format::{bytes, compact};
use crate::html::{Cell, Figure, Grid, Heading, Page, dot, linked};
use crate::labels::{block_classes, with_unknown};

/// Maximum number of memory maps that are drawn for a scheme; in a virtual machine, for its guest and its
/// host each.
const MOST_MAPS: usize = 4;
/// Size of a frame of physical memory in bytes.
const FRAME_BYTES: f64 = 4096.0;

pub(super) fn seeds_note(comparison: &Comparison<'_>) -> &'static str {
    if comparison.seeds() > 1 { " The first seed of each scheme." } else { "" }
}

/// Maps of one memory (a native machine's, the guest's or the host's) in the first run of a scheme.
struct MapSet<'a> {
    workload: &'a str,
    /// Name of the scheme, followed by `guest` or `host` in a virtualized run.
    title: String,
    maps: Vec<&'a MemoryMap>,
}

/// Returns the maps of a scheme's first run, in separate sets for guest and host.
fn map_sets<'a>(scheme: &SchemeRuns<'a>) -> Vec<MapSet<'a>> {
    let run = scheme.first();
    let mut owners: Vec<Option<&str>> = Vec::new();
    for map in &run.memory_maps {
        if !owners.contains(&map.of.as_deref()) {
            owners.push(map.of.as_deref());
        }
    }
    let set = |owner: Option<&str>| MapSet {
        workload: &run.workload,
        title: owner
            .map_or(scheme.name.to_string(), |owner| format!("{}: {owner} memory", scheme.name)),
        maps: run
            .memory_maps
            .iter()
            .filter(|map| map.of.as_deref() == owner)
            .take(MOST_MAPS)
            .collect(),
    };
    owners.into_iter().map(set).collect()
}

/// Returns the memory maps of all schemes that have some.
pub(super) fn maps(comparison: &Comparison<'_>, id: &str, page: &mut Page) -> Markup {
    let sets: Vec<MapSet<'_>> = comparison.schemes.iter().flat_map(map_sets).collect();
    drawn(&sets, id, seeds_note(comparison), page)
}

/// Returns one memory map that belongs to no comparison, such as that of a snapshot.
pub(crate) fn single_map(map: &MemoryMap, id: &str, page: &mut Page) -> Markup {
    let set = MapSet { workload: "", title: "all of it".into(), maps: vec![map] };
    drawn(&[set], id, "", page)
}

fn drawn(sets: &[MapSet<'_>], id: &str, note: &str, page: &mut Page) -> Markup {
    let all = || sets.iter().flat_map(|set| set.maps.iter().copied());
    let present: BTreeSet<String> = all().flat_map(classes_of).collect();
    let series = with_unknown(block_classes(), &present);
    if series.is_empty() {
        return html! {};
    }
    let pictures: Vec<Vec<Picture>> = sets.iter().map(|set| pictures(set, &series)).collect();
    let free_class = series.iter().position(|one| one.key == "free");
    let scale = common_scale(&pictures, free_class);
    let pictures: Vec<Vec<Picture>> =
        pictures.iter().map(|maps| maps.iter().map(|map| coarse(map, scale)).collect()).collect();
    // The legend omits classes that no cell of the map has at this scale.
    let shown: BTreeSet<usize> =
        pictures.iter().flatten().flat_map(|map| map.runs.iter().map(|run| run.class)).collect();
    let (series, pictures) = only_shown(&series, pictures, &shown);
    let squares = inner_squares(&series, &pictures.concat());
    let figures = sets.iter().zip(pictures).enumerate();
    let figures = figures.map(|(index, (set, maps))| {
        map_figure(set, &series, maps, format!("{id}-memory-map-{index}"))
    });
    let figures = linked(figures.collect(), page);
    html! {
        h2 { "Physical memory" }
        p.lead {
            (cell_size(scale))
            " Lowest addresses first, from left to right and down; long free stretches are left out and named."
            (note)
        }
        @if !squares.is_empty() {
            p.key {
                @for (colour, meaning) in squares {
                    span { (dot(colour)) "square inside: share of " (meaning) }
                }
            }
        }
        (figures)
    }
}

fn cell_size(blocks: u64) -> String {
    if blocks == 1 {
        return "Each cell is a 2MB block.".into();
    }
    format!(
        "Each cell is {blocks} blocks of 2MB ({}), in the colour of what most of them are.",
        bytes(blocks as f64 * 512.0 * FRAME_BYTES)
    )
}

fn classes_of(map: &MemoryMap) -> Vec<String> {
    let places = map.cells.iter().filter_map(|run| map.classes.get(run.class?));
    places.cloned().collect()
}

fn pictures(set: &MapSet<'_>, series: &[Series]) -> Vec<Picture> {
    let runs = |map: &MemoryMap| {
        let run = |run: &Run| {
            let name = map.classes.get(run.class?)?;
            Some(CellRun {
                cells: run.cells,
                class: series.iter().position(|one| one.key == *name)?,
                free: run.free_frames as f64,
                holes: run.hole_frames as f64,
                kept: run.kept_frames as f64,
            })
        };
        map.cells.iter().filter_map(run).filter(|run| run.cells > 0).collect()
    };
    let picture = |map: &&MemoryMap| Picture {
        heading: heading(map),
        blocks_per_cell: map.blocks_per_cell.max(1),
        runs: runs(map),
    };
    set.maps.iter().map(picture).collect()
}

/// Returns the heading of a map: the number of instructions after which it was recorded.
fn heading(map: &MemoryMap) -> String {
    match map.instructions.as_slice() {
        [] => String::new(),
        [one] => format!("after {} instructions", compact(*one as f64)),
        [first, .., last] => {
            format!(
                "after {} instructions, unchanged up to {}",
                compact(*first as f64),
                compact(*last as f64)
            )
        }
    }
}

/// Returns the classes with indices in `shown`, which some map has, and the maps with class indices that
/// refer to this shorter list.
fn only_shown(
    series: &[Series],
    mut pictures: Vec<Vec<Picture>>,
    shown: &BTreeSet<usize>,
) -> (Vec<Series>, Vec<Vec<Picture>>) {
    let places: Vec<usize> = shown.iter().copied().collect();
    for run in pictures.iter_mut().flatten().flat_map(|map| &mut map.runs) {
        run.class = places.binary_search(&run.class).expect("shown");
    }
    (places.iter().map(|&place| series[place].clone()).collect(), pictures)
}

fn map_figure(set: &MapSet<'_>, series: &[Series], maps: Vec<Picture>, id: String) -> Figure {
    let names = |of: fn(&MemoryMap) -> &BTreeMap<String, u64>| -> BTreeSet<String> {
        set.maps.iter().flat_map(|map| of(map).keys().cloned()).collect()
    };
    let blocks = with_unknown(block_classes(), &names(|map| &map.block_classes));
    let frames = names(|map| &map.frames);
    let mut head = vec![Heading::from("instructions")];
    head.extend(blocks.iter().map(|one| Heading::from(format!("{} blocks", one.label))));
    let memory = |name: &String| format!("{} memory", name.replace('_', " "));
    head.extend(frames.iter().map(|name| Heading::with_unit(&memory(name), "bytes")));
    let row = |map: &&MemoryMap| {
        let block = |one: &Series| {
            map.block_classes
                .get(&one.key)
                .map_or_else(Cell::missing, |&blocks| Cell::count(blocks))
        };
        let frame = |name: &String| {
            let frames = map.frames.get(name);
            Cell::value(frames.map(|&frames| frames as f64 * FRAME_BYTES), bytes)
        };
        let mut row = vec![Cell::text(&heading(map))];
        row.extend(blocks.iter().map(block));
        row.extend(frames.iter().map(frame));
        row
    };
    Figure {
        id,
        name: format!("{} Physical memory: {}", set.workload, set.title),
        title: set.title.clone(),
        caption: String::new(),
        data: Grid { head, rows: set.maps.iter().map(row).collect() },
        chart: Maps { series, maps }.spec(),
    }
}
