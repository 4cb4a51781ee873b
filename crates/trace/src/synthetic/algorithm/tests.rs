//! Whether the algorithms get their results right, and whether their instructions say how.

use std::collections::BTreeMap;

use perforate_types::AccessKind::{Read, Write};
use perforate_types::Chunk;

use super::array::Space;
use super::breadth_first::BreadthFirst;
use super::canneal::Canneal;
use super::code::Code;
use super::dictionary::{Dictionary, Phase};
use super::graph::Graph;
use super::independent_set::IndependentSet;
use super::machine::Machine;
use super::matching::Matching;
use super::set_cover::SetCover;
use super::spanning_tree::SpanningTree;
use super::sparse_matrix::SparseMatrix;
use super::{Algorithm, WorkloadSpec};
use crate::synthetic::random::Random;

const NONE: u32 = u32::MAX;
const START: u64 = 1 << 30;

/// An algorithm that is run step by step.
struct Run<A> {
    algorithm: A,
    code: Code,
    chunk: Chunk,
}

impl<A: Algorithm> Run<A> {
    fn new(spec: &str, seed: u64) -> Self {
        let spec = WorkloadSpec::parse(spec).unwrap();
        Self::of(A::new(&spec, seed, &mut Space::new(START)))
    }

    fn of(algorithm: A) -> Self {
        let code = algorithm.code();
        Self { algorithm, code, chunk: Chunk::default() }
    }

    fn step(&mut self) {
        self.chunk.clear();
        self.keep_step();
    }

    /// A step after whose instructions those before are still there.
    fn keep_step(&mut self) {
        self.algorithm.step(&mut Machine::new(&self.code, &mut self.chunk));
    }

    /// Goes on to where `done` turns true.
    fn until(&mut self, done: impl Fn(&A) -> bool) -> &A {
        while done(&self.algorithm) {
            self.step();
        }
        while !done(&self.algorithm) {
            self.step();
        }
        &self.algorithm
    }
}

/// All edges of a graph, each from the vertex that has it.
fn edges(graph: &Graph) -> impl Iterator<Item = (u32, u32)> {
    let neighbours = graph.neighbours.values();
    graph.offsets.values().windows(2).enumerate().flat_map(|(vertex, range)| {
        let of_vertex = &neighbours[range[0] as usize..range[1] as usize];
        of_vertex.iter().map(move |&neighbour| (vertex as u32, neighbour))
    })
}

/// Distances from a vertex, by relaxing all edges until nothing changes.
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
    let mut run = Run::<BreadthFirst>::new("rmat-bfs:size=1M", 1);
    let mut reached = 0;
    for _ in 0..4 {
        let search = run.until(BreadthFirst::is_done);
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
    let mut run = Run::<IndependentSet>::new("mis:size=1M", 1);
    for _ in 0..2 {
        let set = run.until(IndependentSet::is_done);
        let flags = set.flags.values();
        let mut has_neighbour_in: Vec<bool> = vec![false; flags.len()];
        for (from, to) in edges(&set.graph) {
            has_neighbour_in[from as usize] |= flags[to as usize] == 1;
        }
        for (&flag, has_neighbour_in) in flags.iter().zip(has_neighbour_in) {
            assert_eq!(flag, if has_neighbour_in { 2 } else { 1 });
        }
        // The graph is undirected: every edge is there in both directions, equally often.
        let mut there: Vec<_> = edges(&set.graph).collect();
        let mut back: Vec<_> = there.iter().map(|&(from, to)| (to, from)).collect();
        there.sort_unstable();
        back.sort_unstable();
        assert!(there == back && there.iter().all(|edge| edge.0 != edge.1));
    }
}

#[test]
fn a_matching_is_valid_and_maximal() {
    let mut run = Run::<Matching>::new("matching:size=1M", 1);
    for _ in 0..2 {
        let matching = run.until(Matching::is_done);
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

/// Weight of a minimum spanning forest: edges in order of weight, labels of components renamed.
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
    let mut run = Run::<SpanningTree>::new("mst:size=1M", 1);
    let expected = naive_forest(&run.algorithm);
    for _ in 0..2 {
        let tree = run.until(SpanningTree::is_done);
        assert_eq!(tree.weight, expected);
        // Every edge of the list is in the order once.
        let mut numbers: Vec<u64> = (0..tree.rmat.edges()).map(|rank| tree.number(rank)).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..tree.rmat.edges()));
    }
}

#[test]
fn a_cover_covers_with_few_sets() {
    let mut run = Run::<SetCover>::new("set-cover:size=1M", 1);
    let mut counts = Vec::new();
    for _ in 0..2 {
        let cover = run.until(SetCover::is_done);
        let mut coverable = vec![0; cover.covered.values().len()];
        edges(&cover.graph).for_each(|(_, element)| coverable[element as usize] = 1);
        assert_eq!(cover.covered.values(), coverable);
        let nonempty = cover.graph.offsets.values().windows(2).filter(|one| one[0] < one[1]);
        assert!(cover.chosen_count > 10 && cover.chosen_count < nonempty.count() as u64 / 2);
        counts.push(cover.chosen_count);
    }
    // Another order within buckets gives another cover, but none much larger.
    assert!(counts[0].abs_diff(counts[1]) < counts[0] / 10, "{counts:?}");
}

#[test]
fn a_product_is_right() {
    for columns in [1, 3] {
        let spec = format!("spmv:size=1M,columns={columns}");
        let mut run = Run::<SparseMatrix>::new(&spec, 1);
        let matrix = run.until(SparseMatrix::is_done);
        let mut expected = vec![0.0; matrix.product.values().len()];
        for (place, (row, column)) in edges(&matrix.graph).enumerate() {
            for number in 0..columns {
                let factor = matrix.factor(u64::from(column) * columns + number);
                let sum = &mut expected[(u64::from(row) * columns + number) as usize];
                // Small whole numbers: exact in any order.
                *sum += matrix.value(place as u64) * factor;
            }
        }
        assert_eq!(matrix.product.values(), expected);
        assert!(expected.iter().any(|&sum| sum > 1e4));
    }
}

#[test]
fn a_dictionary_holds_what_a_map_does() {
    let mut run = Run::<Dictionary>::new("dict:size=1M,batch=5000", 1);
    let keys = run.algorithm.key_count;
    let mut expected: BTreeMap<u64, u64> =
        (0..keys / 2).map(|place| (run.algorithm.key(place), place)).collect();
    let mut hits = 0;
    for _ in 0..60 {
        let (phase, start) = run.algorithm.begins().unwrap();
        for place in (start..start + 5000).map(|place| place % keys) {
            let key = run.algorithm.key(place);
            match phase {
                Phase::Insert => drop(expected.insert(key, place)),
                Phase::Search => hits += u64::from(expected.contains_key(&key)),
                Phase::Delete => drop(expected.remove(&key)),
            }
        }
        run.until(|dictionary| dictionary.begins().is_some());
        let held = run.algorithm.slots.values().iter().filter(|&&slot| slot != 0);
        let held: BTreeMap<u64, u64> = held
            .map(|&slot| u64::from(slot - 1))
            .map(|place| (run.algorithm.key(place), place))
            .collect();
        assert_eq!(held, expected);
        assert_eq!(run.algorithm.hits, hits);
    }
    assert!((20_000..80_000).contains(&hits), "{hits} of 100,000");
}

#[test]
fn annealing_makes_nets_shorter() {
    let mut run = Run::<Canneal>::new("canneal:size=1M", 1);
    // Hot: costs stay about the same. Cold: they fall for good.
    let start = run.algorithm.total_cost();
    for _ in 0..20_000 {
        run.step();
    }
    assert!(run.algorithm.total_cost() > start * 9 / 10);
    run.algorithm.temperature = 1e-3;
    let mut last = run.algorithm.total_cost();
    for _ in 0..5 {
        for _ in 0..20_000 {
            run.step();
        }
        let cost = run.algorithm.total_cost();
        assert!(cost < last, "{cost}");
        last = cost;
    }
    assert!(last < start * 8 / 10, "{start} to {last}");
    let mut places = run.algorithm.placed().to_vec();
    places.sort_unstable();
    assert!(places.into_iter().eq(0..run.algorithm.count() as u32), "one element in each place");
}

/// A search by hand: 0 → 1, 1 → 0, of which vertex 0 is the root. Arrays are on pages of their own:
/// offsets at `START`, neighbours, parents and the queue on the pages after.
#[test]
fn a_tiny_search_runs_what_was_worked_out_by_hand() {
    const PAGE: u64 = 4096;
    let (offsets, neighbours, parents, queue) =
        (START, START + PAGE, START + 2 * PAGE, START + 3 * PAGE);
    let mut space = Space::new(START);
    let graph = Graph::new(vec![0, 1, 2], vec![1, 0], &mut space);
    let seed = (0..).find(|&seed: &u64| Random::new(!seed).below(2) == 0).unwrap();
    let mut run = Run::of(BreadthFirst::on(graph, seed, &mut space));
    while !run.algorithm.is_done() {
        run.keep_step();
    }
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
    let accesses = run.chunk.accesses.iter();
    assert!(accesses.map(|one| (one.address.value(), one.size, one.kind)).eq(expected));
    // Loads, and the instructions that made their addresses: vertices from the queue, offsets of
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
    assert_eq!(loads_and_their_addresses(&run.chunk), expected);
    let instructions = run.chunk.instructions.iter().enumerate();
    let taken: Vec<_> = instructions.filter(|one| one.1.taken).map(|one| one.0).collect();
    // The jump to the first vertex, to the second, and past a neighbour that was reached.
    assert_eq!(taken, [7, 25, 36]);
    assert_eq!(run.chunk.instructions.len(), 41);
}

/// Each load with the instruction that wrote its address register last.
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
