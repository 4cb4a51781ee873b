//! Tests of the algorithms: their results, and the instructions that they record.

use std::collections::BTreeMap;

use perforate_types::AccessKind::{Read, Write};
use perforate_types::{Chunk, ProgramEvent, Random};

use super::breadth_first::BreadthFirst;
use super::btree::Tree;
use super::canneal::Canneal;
use super::cross_sections::CrossSections;
use super::dictionary::Dictionary;
use super::graph::Graph;
use super::hash_join::Join;
use super::independent_set::IndependentSet;
use super::kept::Edges;
use super::matching::Matching;
use super::page_rank::PageRank;
use super::set_cover::SetCover;
use super::spanning_tree::SpanningTree;
use super::sparse_matrix::SparseMatrix;
use super::{Algorithm, btree};
use crate::traced::{Space, Tracer, Value, complete};

const NONE: u32 = u32::MAX;
const START: u64 = 1 << 30;

fn made<A: Algorithm>(options: &str) -> A {
    A::new(&perforate_config::read(options).unwrap(), 1, &mut Space::new(START))
}

/// A heap that grows does so in steps of 128KB and a page, each of which is filled before the next; other memory
/// is mapped at once.
#[test]
fn a_heap_grows_in_steps() {
    let maps = |options: &str| {
        let mut space = Space::new(START);
        Tree::new(&perforate_config::read(options).unwrap(), 1, &mut space);
        (space.maps(), space.bytes())
    };
    let (whole, bytes) = maps("size=4M");
    let [ProgramEvent::Map { length, populate: true, .. }] = whole[..] else { panic!("{whole:?}") };
    assert_eq!(length, bytes);
    let (events, _) = maps("size=4M,grows=yes");
    let ProgramEvent::Map { length: elements, .. } = events[0] else { panic!("{:?}", events[0]) };
    let heap = START + elements;
    let mut next = heap;
    for pair in events[1..].chunks(2) {
        let [ProgramEvent::Brk { start, end }, ProgramEvent::Advise { start: filled, length, .. }] =
            pair
        else {
            panic!("{pair:?}")
        };
        assert_eq!((start.value(), filled.value()), (heap, next));
        assert_eq!(*length, (132 << 10).min(START + bytes - next));
        next += length;
        assert_eq!(end.value(), next);
    }
    assert_eq!(next, START + bytes);
}

/// Lists all edges of a graph, each with the vertex that stores it.
fn edges(graph: &Graph) -> impl Iterator<Item = (u32, u32)> {
    let neighbours = graph.neighbours.values();
    graph.offsets.values().windows(2).enumerate().flat_map(|(vertex, range)| {
        let of_vertex = &neighbours[range[0] as usize..range[1] as usize];
        of_vertex.iter().map(move |&neighbour| (vertex as u32, neighbour))
    })
}

/// Computes the distances of all vertices from `root`, by relaxing all edges until nothing changes.
fn naive_distances(graph: &Graph, root: u32) -> Vec<u32> {
    let mut distances = vec![NONE; graph.vertices() as usize];
    distances[root as usize] = 0;
    loop {
        let mut changed = false;
        for (from, to) in edges(graph) {
            let through = distances[from as usize].saturating_add(1);
            if through < distances[to as usize] {
                distances[to as usize] = through;
                changed = true;
            }
        }
        if !changed {
            return distances;
        }
    }
}

#[test]
fn a_search_finds_shortest_paths() {
    let mut search: BreadthFirst = made("size=1M");
    let mut reached = 0;
    for _ in 0..4 {
        complete(async |t: &mut Tracer| search.parents.fill(t, |_| NONE).await);
        complete(async |t: &mut Tracer| search.search(t).await);
        let parents = search.parents.values();
        let root = (0..).find(|&vertex| parents[vertex as usize] == vertex).unwrap();
        let distances = naive_distances(&search.graph, root);
        for (vertex, &parent) in parents.iter().enumerate() {
            match parent {
                NONE => assert_eq!(distances[vertex], NONE),
                parent if parent as usize == vertex => assert_eq!(distances[vertex], 0),
                parent => assert_eq!(distances[vertex], distances[parent as usize] + 1),
            }
        }
        reached += parents.iter().filter(|&&parent| parent != NONE).count();
    }
    assert!(reached > 10_000, "{reached}");
}

#[test]
fn an_independent_set_is_independent_and_maximal() {
    assert_independent_and_maximal(made("size=1M"));
    assert_independent_and_maximal(made("size=1M,order=numbers"));
}

fn assert_independent_and_maximal(mut set: IndependentSet) {
    for _ in 0..2 {
        complete(async |t: &mut Tracer| set.flags.fill(t, |_| 0).await);
        complete(async |t: &mut Tracer| set.find(t).await);
        let flags = set.flags.values();
        let mut has_neighbour_in: Vec<bool> = vec![false; flags.len()];
        for (from, to) in edges(&set.graph) {
            has_neighbour_in[from as usize] |= flags[to as usize] == 1;
        }
        for (&flag, has_neighbour_in) in flags.iter().zip(has_neighbour_in) {
            assert_eq!(flag, if has_neighbour_in { 2 } else { 1 });
        }
        // The graph is undirected: every edge is stored in both directions, equally often.
        let mut there: Vec<_> = edges(&set.graph).collect();
        let mut back: Vec<_> = there.iter().map(|&(from, to)| (to, from)).collect();
        there.sort_unstable();
        back.sort_unstable();
        assert!(there == back && there.iter().all(|edge| edge.0 != edge.1));
    }
}

#[test]
fn a_matching_is_valid_and_maximal() {
    let mut matching: Matching = made("size=1M");
    for _ in 0..2 {
        complete(async |t: &mut Tracer| matching.partners.fill(t, |_| NONE).await);
        complete(async |t: &mut Tracer| matching.find(t).await);
        let partners = matching.partners.values();
        let mut pairs = 0;
        for (vertex, &partner) in partners.iter().enumerate().filter(|one| *one.1 != NONE) {
            assert_eq!(partners[partner as usize] as usize, vertex);
            assert_ne!(partner as usize, vertex);
            pairs += 1;
        }
        let mut used = 0;
        for (first, second) in (0..matching.rmat.edges()).map(|edge| matching.rmat.edge(edge)) {
            let free = |vertex: u32| partners[vertex as usize] == NONE;
            assert!(first == second || !free(first) || !free(second), "an edge more would fit");
            used += u64::from(partners[first as usize] == second);
        }
        assert!(pairs > 100 && used >= pairs / 2, "partners are joined by edges");
    }
}

/// Computes the weight of a minimum spanning forest by relabelling components, with edges in order of weight.
fn naive_forest(tree: &SpanningTree) -> u64 {
    let mut labels: Vec<u32> = (0..tree.rmat.vertices() as u32).collect();
    let mut weight = 0;
    for rank in 0..tree.rmat.edges() {
        let (first, second) = tree.rmat.edge(tree.number(rank));
        let (from, to) = (labels[first as usize], labels[second as usize]);
        if from != to {
            weight += rank;
            labels.iter_mut().filter(|label| **label == from).for_each(|label| *label = to);
        }
    }
    weight
}

#[test]
fn a_forest_is_as_light_as_a_naive_one() {
    let mut tree: SpanningTree = made("size=1M");
    let expected = naive_forest(&tree);
    for _ in 0..2 {
        complete(async |t: &mut Tracer| tree.parents.fill(t, |vertex| vertex as u32).await);
        complete(async |t: &mut Tracer| tree.find_forest(t).await);
        assert_eq!(tree.weight, expected);
    }
    // Every edge of the list occurs in the order once.
    let mut numbers: Vec<u64> = (0..tree.rmat.edges()).map(|rank| tree.number(rank)).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..tree.rmat.edges()));
}

#[test]
fn a_cover_covers_with_few_sets() {
    let mut cover: SetCover = made("size=1M");
    let mut counts = Vec::new();
    for _ in 0..2 {
        complete(async |t: &mut Tracer| cover.cover_all(t).await);
        let mut coverable = vec![0; cover.covered.values().len()];
        edges(&cover.graph).for_each(|(_, element)| coverable[element as usize] = 1);
        assert_eq!(cover.covered.values(), coverable);
        let nonempty = cover.graph.offsets.values().windows(2).filter(|one| one[0] < one[1]);
        assert!(cover.chosen_count > 10 && cover.chosen_count < nonempty.count() as u64 / 2);
        counts.push(cover.chosen_count);
        complete(async |t: &mut Tracer| cover.start_over(t).await);
    }
    // Another order within buckets gives another cover, but not a much larger one.
    assert!(counts[0].abs_diff(counts[1]) < counts[0] / 10, "{counts:?}");
}

#[test]
fn a_product_is_right() {
    for columns in [1, 3] {
        let spec = format!("size=1M,columns={columns}");
        let mut matrix: SparseMatrix = made(&spec);
        complete(async |t: &mut Tracer| matrix.multiply(t).await);
        let mut expected = vec![0.0; matrix.product.values().len()];
        for (place, (row, column)) in edges(&matrix.graph).enumerate() {
            for number in 0..columns {
                let factor = matrix.factor(u64::from(column) * columns + number);
                let sum = &mut expected[(u64::from(row) * columns + number) as usize];
                // Small whole numbers: sums are exact in any order.
                *sum += matrix.value(place as u64) * factor;
            }
        }
        assert_eq!(matrix.product.values(), expected);
        assert!(expected.iter().any(|&sum| sum > 1e4));
    }
}

#[test]
fn a_tree_finds_its_keys_and_no_others() {
    let tree: Tree = made("size=1M");
    complete(async |t: &mut Tracer| {
        for key in 0..2 * tree.keys {
            let found = tree.look_up(t, Value::constant(key));
            assert_eq!(found.is_some(), key % 2 == 0, "{key}");
            t.pause().await;
        }
    });
}

#[test]
fn records_and_nodes_of_a_tree_fill_its_heap() {
    let tree: Tree = made("size=1M");
    let mut blocks: Vec<u64> = (0..tree.keys).map(|time| tree.record_block(time)).collect();
    let levels = 0..tree.below.len() - 1;
    let nodes = levels.flat_map(|level| {
        (0..tree.nodes_of(level)).map(move |number| btree::Node { level, number })
    });
    blocks.extend(nodes.map(|node| tree.node_block(node)).flat_map(|block| block..block + 3));
    blocks.sort_unstable();
    assert!(blocks.iter().copied().eq(0..blocks.len() as u64));
}

#[test]
fn a_join_counts_the_rows_whose_key_is_there() {
    let mut join: Join = made("size=1M,ratio=3");
    let entries = join.heads.values().len() as u64;
    complete(async |t: &mut Tracer| join.join(t).await);
    // Every fourth key exists, and is in the first of its two chains. The second is the same by chance.
    let (rows, there) = (3 * entries, (3 * entries - 1) / 4);
    assert!(there < entries && join.matches >= there, "{} of {rows} rows", join.matches);
    assert!(join.matches <= there + 5, "{} of {rows} rows", join.matches);
}

#[test]
fn a_bisection_finds_the_energy() {
    let sections: CrossSections = made("size=64M");
    complete(async |t: &mut Tracer| {
        for energy in (0..sections.points - 1).step_by(7) {
            assert_eq!(*sections.find(t, Value::constant(energy)), energy);
            t.pause().await;
        }
    });
}

#[test]
fn scores_follow_the_edges() {
    let mut ranks: PageRank = made("size=1M");
    let vertices = ranks.graph.vertices() as usize;
    let mut expected = vec![1.0 / vertices as f32; vertices];
    for _ in 0..3 {
        complete(async |t: &mut Tracer| ranks.iterate(t).await);
        let degrees = ranks.degrees.values();
        let mut next = vec![0.15 / vertices as f32; vertices];
        for (to, from) in edges(&ranks.graph) {
            next[to as usize] += 0.85 * expected[from as usize] / degrees[from as usize] as f32;
        }
        for (found, expected) in ranks.scores.values().iter().zip(&next) {
            assert!((found / expected - 1.0).abs() < 1e-3, "{found} {expected}");
        }
        expected = next;
    }
    let (least, most) = expected
        .iter()
        .fold((1.0_f32, 0.0_f32), |(least, most), &score| (least.min(score), most.max(score)));
    assert!(most > 20.0 * least, "{least} to {most}");
}

#[test]
fn a_dictionary_holds_what_a_map_does() {
    let mut dictionary: Dictionary = made("size=1M,batch=5000");
    let keys = dictionary.key_count;
    let mut expected: BTreeMap<u64, u64> =
        (0..keys / 2).map(|place| (dictionary.key(place), place)).collect();
    let mut hits = 0;
    for batch in 0..60 {
        let start = dictionary.random_place();
        let act = [Dictionary::insert, Dictionary::search, Dictionary::delete][batch % 3];
        for place in (start..start + 5000).map(|place| place % keys) {
            let key = dictionary.key(place);
            match batch % 3 {
                0 => drop(expected.insert(key, place)),
                1 => hits += u64::from(expected.contains_key(&key)),
                _ => drop(expected.remove(&key)),
            }
        }
        complete(async |t: &mut Tracer| dictionary.for_batch(t, start, act).await);
        let held = dictionary.slots.values().iter().filter(|&&slot| slot != 0);
        let held: BTreeMap<u64, u64> = held
            .map(|&slot| u64::from(slot - 1))
            .map(|place| (dictionary.key(place), place))
            .collect();
        assert_eq!(held, expected);
        assert_eq!(dictionary.hits, hits);
    }
    assert!((20_000..80_000).contains(&hits), "{hits} of 100,000");
}

#[test]
fn annealing_makes_nets_shorter() {
    let mut chip: Canneal = made("size=1M");
    let mut anneal = |temperature: f64| {
        let temperature = Value::constant(temperature);
        complete(async |t: &mut Tracer| {
            chip.anneal(t, temperature, 20_000, Value::constant(0)).await;
        });
        let mut places = chip.placed().to_vec();
        places.sort_unstable();
        let count = chip.count() as u32;
        assert!(places.into_iter().eq(0..count), "one element in each place");
        chip.total_cost()
    };
    // Hot: costs stay about the same. Cold: costs keep falling.
    let start = anneal(2000.0);
    assert!(anneal(2000.0) > start * 9 / 10);
    let mut last = anneal(1e-3);
    for _ in 0..4 {
        let cost = anneal(1e-3);
        assert!(cost < last, "{cost}");
        last = cost;
    }
    assert!(last < start * 8 / 10, "{start} to {last}");
}

/// A search worked out by hand on the edges 0 → 1 and 1 → 0, with root 0. Each array starts on its own
/// page: offsets at `START`, then neighbours, parents and the queue.
#[test]
fn a_tiny_search_runs_what_was_worked_out_by_hand() {
    const PAGE: u64 = 4096;
    let (offsets, neighbours, parents, queue) =
        (START, START + PAGE, START + 2 * PAGE, START + 3 * PAGE);
    let mut space = Space::new(START);
    let graph = Graph::new(
        Edges { offsets: vec![0, 1, 2].into(), neighbours: vec![1, 0].into() },
        &mut space,
    );
    let seed = (0..).find(|&seed: &u64| Random::new(!seed).below(2) == 0).unwrap();
    let mut search = BreadthFirst::on(graph, seed, &mut space);
    let chunk = complete(async |t: &mut Tracer| search.search(t).await);
    let expected = [
        // The root: its parent and the head of the queue.
        (parents, 4, Write),
        (queue, 4, Write),
        // Vertex 0 is taken; its neighbour 1 is reached.
        (queue, 4, Read),
        (offsets, 8, Read),
        (offsets + 8, 8, Read),
        (neighbours, 4, Read),
        (parents + 4, 4, Read),
        (parents + 4, 4, Write),
        (queue + 4, 4, Write),
        // Vertex 1 is taken; its neighbour 0 was reached before.
        (queue + 4, 4, Read),
        (offsets + 8, 8, Read),
        (offsets + 16, 8, Read),
        (neighbours + 4, 4, Read),
        (parents, 4, Read),
    ];
    let accesses = chunk.accesses.iter();
    assert!(accesses.map(|one| (one.address.value(), one.size, one.kind)).eq(expected));
    // Loads, and the instructions that computed their addresses: vertices from the queue, offsets of
    // vertices, neighbours from offsets, parents of neighbours.
    let expected = [
        (8, 4),
        (10, 8),
        (11, 8),
        (14, 10),
        (16, 14),
        (26, 9),
        (28, 26),
        (29, 26),
        (32, 28),
        (34, 32),
    ];
    assert_eq!(loads_and_their_addresses(&chunk), expected);
    let instructions = chunk.instructions.iter().enumerate();
    let taken: Vec<_> = instructions.filter(|one| one.1.taken).map(|one| one.0).collect();
    // The jump to the first vertex, the branch to the second, and the branch past a reached neighbour.
    assert_eq!(taken, [7, 25, 36]);
    assert_eq!(chunk.instructions.len(), 41);
}

/// Eleven elements of 4 bytes: two vectors of 16 bytes, and 12 bytes.
#[test]
fn an_array_is_filled_to_its_end() {
    let mut array = Space::new(START).array(vec![0; 11], 4);
    let chunk = complete(async |t: &mut Tracer| array.fill(t, |index| index as u32).await);
    let stores = chunk.accesses.iter().map(|one| (one.address.value() - START, one.size, one.kind));
    assert!(stores.eq([(0, 16, Write), (16, 16, Write), (32, 12, Write)]));
    assert!(array.values().iter().copied().eq(0..11));
}

/// Two registers of instructions before it: the address is known with the index, not with the value.
#[test]
fn a_store_waits_for_its_index_and_its_value_apart() {
    let mut array = Space::new(START).array(vec![0; 11], 4);
    let chunk = complete(async |t: &mut Tracer| {
        let index = t.integer((), 7_u32);
        let value = t.integer((), 5);
        array.store(t, index, value);
    });
    let [index, value, store] = &chunk.instructions[..] else { panic!("three instructions") };
    assert_ne!(index.destinations, value.destinations);
    assert_eq!(store.sources, [index.destinations[0], 0, value.destinations[0], 0]);
    assert_eq!(store.data_sources, 0b1100);
    assert_eq!(chunk.accesses[0].address.value(), START + 28);
    assert_eq!(array.values()[7], 5);
}

#[test]
fn aligned_code_begins_a_cache_line() {
    let chunk = complete(async |t: &mut Tracer| {
        t.integer((), 0);
        t.align();
        t.integer((), 0);
    });
    let [before, after] = [0, 1].map(|place| chunk.instructions[place].ip.value());
    assert_eq!((before % 64, after), (0, before + 64));
}

/// Lists each load with the last instruction that wrote its address register, both by number.
fn loads_and_their_addresses(chunk: &Chunk) -> Vec<(usize, usize)> {
    let mut writers = [usize::MAX; 256];
    let mut loads = Vec::new();
    for (number, instruction) in chunk.instructions.iter().enumerate() {
        if instruction.accesses > 0 && instruction.destinations[0] != 0 {
            loads.push((number, writers[usize::from(instruction.sources[0])]));
        }
        writers[usize::from(instruction.destinations[0])] = number;
    }
    loads
}
