//! Compares G Algorithm 1 with a second version that follows the paper's text without shortcuts.

use perforate_schemes::gap_tolerant::ChunkPairing;
use proptest::prelude::*;

#[derive(Clone, Copy, PartialEq)]
enum State {
    Unprocessed,
    SelfPaired,
    Paired,
    Discarded,
}

/// G Algorithm 1 line by line. Returns the pairs in order, and the states of the slices.
fn as_printed(vectors: &[u64], threshold: u32) -> (Vec<(usize, usize)>, Vec<State>) {
    let mut order: Vec<usize> = (0..vectors.len()).collect();
    order.sort_by_key(|&slice| vectors[slice].count_ones());
    let whole = |&vector: &u64| vector == u64::MAX;
    let mut states: Vec<State> = vectors
        .iter()
        .map(|vector| if whole(vector) { State::SelfPaired } else { State::Unprocessed })
        .collect();
    let mut pairs = Vec::new();
    loop {
        let left: Vec<usize> =
            order.iter().copied().filter(|&slice| states[slice] == State::Unprocessed).collect();
        let Some((&first, others)) = left.split_first() else { break };
        states[first] = State::Discarded;
        for &second in others {
            if (vectors[first] & vectors[second]).count_ones() >= threshold {
                pairs.push((first, second));
                (states[first], states[second]) = (State::Paired, State::Paired);
                break;
            }
        }
    }
    (pairs, states)
}

/// Availability vectors of all densities, including correlated and full ones.
fn vectors() -> impl Strategy<Value = Vec<u64>> {
    let vector = prop_oneof![
        3 => any::<u64>(),
        4 => (any::<u64>(), any::<u64>()).prop_map(|(a, b)| a | b),
        3 => (any::<u64>(), any::<u64>(), any::<u64>()).prop_map(|(a, b, c)| a | b | c),
        1 => Just(u64::MAX),
        1 => (0..64_u32).prop_map(|bit| !(1 << bit)),
        1 => (0..33_u32).prop_map(|bit| u64::from(u32::MAX) << bit),
        1 => Just(0),
    ];
    proptest::collection::vec(vector, 0..=64)
}

proptest! {
    #[test]
    fn every_slice_is_in_one_group(vectors in vectors(), threshold in 32..=40_u32) {
        let pairing = ChunkPairing::of(&vectors, threshold);
        let mut times = vec![0; vectors.len()];
        for pair in pairing.pairs() {
            let (first, second) = (usize::from(pair.first), usize::from(pair.second));
            times[first] += 1;
            times[second] += 1;
            let common = vectors[first] & vectors[second];
            prop_assert!(common.count_ones() >= threshold);
            prop_assert_eq!(pair.selection.count_ones(), 32);
            prop_assert_eq!(pair.selection & !common, 0);
            // No usable block below the last selected one was skipped.
            let highest = 63 - pair.selection.leading_zeros();
            prop_assert_eq!(common & !pair.selection & ((1 << highest) - 1), 0);
        }
        for (slice, times) in times.iter_mut().enumerate() {
            *times += pairing.self_paired() >> slice & 1;
            *times += pairing.discarded() >> slice & 1;
        }
        prop_assert!(times.iter().all(|&times| times == 1));
        let paired = 2 * pairing.pairs().len() as u32;
        let total = paired + pairing.self_paired().count_ones() + pairing.discarded().count_ones();
        prop_assert_eq!(total as usize, vectors.len());
    }

    /// First fit guarantees that no two discarded slices would fit each other.
    #[test]
    fn no_two_discarded_slices_fit(vectors in vectors()) {
        let pairing = ChunkPairing::of(&vectors, 32);
        let left: Vec<u64> = vectors
            .iter()
            .enumerate()
            .filter(|(slice, _)| pairing.discarded() >> slice & 1 != 0)
            .map(|(_, &vector)| vector)
            .collect();
        for (index, a) in left.iter().enumerate() {
            for b in &left[..index] {
                prop_assert!((a & b).count_ones() < 32);
            }
        }
    }

    #[test]
    fn same_as_printed_in_the_paper(vectors in vectors(), threshold in 32..=36_u32) {
        let pairing = ChunkPairing::of(&vectors, threshold);
        let (pairs, states) = as_printed(&vectors, threshold);
        let ours: Vec<_> = pairing
            .pairs()
            .iter()
            .map(|pair| (usize::from(pair.first), usize::from(pair.second)))
            .collect();
        prop_assert_eq!(ours, pairs);
        let mask = |wanted: State| {
            states.iter().enumerate().fold(0, |mask, (slice, &state)| {
                mask | u64::from(state == wanted) << slice
            })
        };
        prop_assert_eq!(pairing.self_paired(), mask(State::SelfPaired));
        prop_assert_eq!(pairing.discarded(), mask(State::Discarded));
    }
}
