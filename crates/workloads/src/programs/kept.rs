//! Cache of recently generated graphs and netlists. An experiment runs one program under many schemes and
//! machines, and generating a graph takes longer than a short run on it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::{canneal, rmat::Rmat};

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
pub(super) enum Recipe {
    /// Random graph. With `is_undirected`, each edge is stored at both of its vertices.
    Rmat { rmat: Rmat, is_undirected: bool },
    /// Nets of canneal, grouped by the element at which they start.
    Nets { seed: u64, elements: u64 },
}

impl Recipe {
    /// Upper bound of the size of the graph's edges in bytes.
    fn bytes(&self) -> u64 {
        let (vertices, edges) = match self {
            Self::Rmat { rmat, is_undirected: false } => (rmat.vertices(), rmat.edges()),
            Self::Rmat { rmat, is_undirected: true } => (rmat.vertices(), 2 * rmat.edges()),
            Self::Nets { elements, .. } => (*elements, canneal::FAN_IN * elements),
        };
        8 * (vertices + 1) + 4 * edges
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

    fn recipe(bytes: u64, seed: u64, is_undirected: bool) -> Recipe {
        Recipe::Rmat { rmat: Rmat::filling(bytes, 12, 4, seed), is_undirected }
    }

    /// A single test, because there is a single cache.
    #[test]
    fn cached_graphs_are_not_generated_again() {
        let small = |is_undirected| recipe(1 << 20, 1, is_undirected);
        let made = edges(small(false), || (vec![0, 1], vec![7]));
        let again = edges(small(false), || unreachable!("it is kept"));
        assert!(Arc::ptr_eq(&made.offsets, &again.offsets));
        assert!(Arc::ptr_eq(&made.neighbours, &again.neighbours));
        let other = edges(small(true), || (vec![0, 1], vec![8]));
        assert_eq!((*other.neighbours).as_slice(), [8]);

        let large = |seed| recipe(600 << 20, seed, false);
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
