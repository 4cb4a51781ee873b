//! Graphs that were made lately. An experiment runs one program under many schemes and machines, and
//! a graph takes longer to make than a short run on it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::rmat::Rmat;

/// Bytes of graphs that are kept, besides those in use.
const MOST_BYTES: u64 = 1 << 30;

/// The neighbours of all vertices, one after the other.
pub(super) struct Edges {
    /// Where the neighbours of each vertex begin; one more entry for the end of the last.
    pub(super) offsets: Arc<Vec<u64>>,
    pub(super) neighbours: Arc<Vec<u32>>,
}

/// What a graph is made from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Recipe {
    pub(super) rmat: Rmat,
    /// Whether each edge is at both of its ends.
    pub(super) is_undirected: bool,
}

impl Recipe {
    /// Bytes of the edges, at the most.
    fn bytes(&self) -> u64 {
        let ends = if self.is_undirected { 2 } else { 1 };
        8 * (self.rmat.vertices() + 1) + 4 * ends * self.rmat.edges()
    }
}

/// A graph that is there or is being made.
type Kept = Arc<OnceLock<Edges>>;

/// Those used last at the back.
static KEPT: Mutex<VecDeque<(Recipe, Kept)>> = Mutex::new(VecDeque::new());

/// The edges that `make` makes, which are kept if they are not too many.
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

/// The place of a graph, for which those that were not used for longest make room.
fn place(recipe: Recipe) -> Kept {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let known = kept.iter().position(|(other, _)| *other == recipe);
    let known = known.and_then(|index| kept.remove(index));
    let place = known.map_or_else(Kept::default, |(_, place)| place);
    kept.push_back((recipe, Arc::clone(&place)));
    let mut bytes: u64 = kept.iter().map(|(recipe, _)| recipe.bytes()).sum();
    while bytes > MOST_BYTES {
        let Some((oldest, _)) = kept.pop_front() else { break };
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

    /// One test, as there is one room.
    #[test]
    fn what_was_made_is_not_made_again_while_there_is_room() {
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
