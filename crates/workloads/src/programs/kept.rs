//! Cache of recently generated graphs. An experiment runs one program under many schemes and machines,
//! and generating a graph takes longer than a short run on it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::rmat::Rmat;

/// Maximum size of all cached graphs in bytes. Evicted graphs that are still in use do not count.
const MOST_BYTES: u64 = 1 << 30;

/// Edges of a graph: the neighbours of all vertices, in one array.
pub(super) struct Edges {
    /// Index of each vertex's first neighbour; the last entry is the end of the last vertex's
    /// neighbours.
    pub(super) offsets: Arc<Vec<u64>>,
    pub(super) neighbours: Arc<Vec<u32>>,
}

/// Parameters that determine a graph, the key of the cache.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Recipe {
    pub(super) rmat: Rmat,
    /// True if each edge is stored at both of its vertices.
    pub(super) is_undirected: bool,
}

impl Recipe {
    /// Upper bound of the size of the graph's edges in bytes.
    fn bytes(&self) -> u64 {
        let ends = if self.is_undirected { 2 } else { 1 };
        8 * (self.rmat.vertices() + 1) + 4 * ends * self.rmat.edges()
    }
}

/// Edges of a graph in the cache, generated or being generated.
type CachedEdges = Arc<OnceLock<Edges>>;

/// Cached graphs, least recently used first.
static CACHE: Mutex<VecDeque<(Recipe, CachedEdges)>> = Mutex::new(VecDeque::new());

/// Returns the cached edges of a graph, or generates them with `make`. Large graphs are not cached.
pub(super) fn edges(recipe: Recipe, make: impl FnOnce() -> (Vec<u64>, Vec<u32>)) -> Edges {
    let make = || {
        let (offsets, neighbours) = make();
        Edges { offsets: Arc::new(offsets), neighbours: Arc::new(neighbours) }
    };
    if recipe.bytes() > MOST_BYTES {
        return make();
    }
    let place = place(recipe);
    let Edges { offsets, neighbours } = place.get_or_init(make);
    Edges { offsets: Arc::clone(offsets), neighbours: Arc::clone(neighbours) }
}

/// Finds or adds the cache entry of a graph. Evicts the least recently used graphs if necessary.
fn place(recipe: Recipe) -> CachedEdges {
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let known = cache.iter().position(|(other, _)| *other == recipe);
    let known = known.and_then(|index| cache.remove(index));
    let place = known.map_or_else(CachedEdges::default, |(_, place)| place);
    cache.push_back((recipe, Arc::clone(&place)));
    let mut bytes: u64 = cache.iter().map(|(recipe, _)| recipe.bytes()).sum();
    while bytes > MOST_BYTES {
        let Some((oldest, _)) = cache.pop_front() else { break };
        bytes -= oldest.bytes();
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(seed: u64) -> Recipe {
        Recipe { rmat: Rmat::filling(1 << 20, 12, 4, seed), is_undirected: false }
    }

    /// A single test, because there is a single cache.
    #[test]
    fn cached_graphs_are_not_generated_again() {
        let made = edges(recipe(1), || (vec![0, 1], vec![7]));
        let again = edges(recipe(1), || unreachable!("it is kept"));
        assert!(Arc::ptr_eq(&made.offsets, &again.offsets));
        assert!(Arc::ptr_eq(&made.neighbours, &again.neighbours));
        let other = edges(Recipe { is_undirected: true, ..recipe(1) }, || (vec![0, 1], vec![8]));
        assert_eq!((*other.neighbours).as_slice(), [8]);

        let large = |seed| Recipe { rmat: Rmat::filling(600 << 20, 12, 4, seed), ..recipe(0) };
        assert!(large(1).bytes() > MOST_BYTES / 2 && large(1).bytes() <= MOST_BYTES);
        edges(large(1), Default::default);
        edges(large(2), Default::default);
        let mut was_made = false;
        edges(large(1), || {
            was_made = true;
            Default::default()
        });
        assert!(was_made, "the other took its room");
    }
}
