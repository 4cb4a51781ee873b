//! Workload `btree`: look-ups in a B+ tree that was filled in random order.
//!
//! The tree is that of the benchmark BTree of Mitosis (Achermann et al., ASPLOS 2020): at most six children,
//! keys that are multiples of 2, and look-ups of random keys, of which half exist. Each key belongs to a
//! record, which points to an element of an array; the elements were inserted in the order of the array. A
//! node consists of three blocks: a header, the array of its keys, and the array of its pointers. The
//! allocator places each block at the next multiple of 64 bytes.
//!
//! The tree is computed and not stored. An inner node has four children, and two leaves have seven keys
//! together: random insertions fill nodes to ln 2 of their capacity on average. Nodes and records are
//! created at random times, so neighbours in the tree are not neighbours in memory.

use perforate_config::BoundedSize;
use perforate_types::{Random, scaled};

use super::{Algorithm, Data, DataSize, SLACK_BYTES};
use crate::permutation::Permutation;
use crate::registry::Registered;
use crate::traced::{Place, Space, Tracer, Value};

data_options! { TreeOptions:
    /// Size of the tree, its records and the array of elements; 35G in Mitosis.
    size;
    /// The heap of nodes grows by 132KB at a time, as glibc's does: no 2MB pages on first touches.
    grows: bool = false,
}

/// Children of an inner node: ln 2 of 6, rounded.
const CHILDREN: u64 = 4;
/// Keys in two neighbouring leaves: ln 2 of 2 × 5, rounded.
const PAIR_KEYS: u64 = 7;
/// Distance between neighbouring keys.
const STRIDE: u64 = 2;
/// Size of an element in bytes.
const ELEMENT_BYTES: u64 = 64;
/// Size of a record, and of each of a node's three blocks, with the space up to the next block.
const BLOCK_BYTES: u64 = 64;
/// Blocks of a node: header, keys, pointers.
const NODE_BLOCKS: u64 = 3;
/// Size of a key or pointer in bytes.
const WORD_BYTES: u64 = 8;

/// Fields of a node's header, as offset and size in bytes: pointer to the array of pointers, pointer to the
/// array of keys, flag of a leaf, number of keys.
const POINTERS: Field = (0, WORD_BYTES);
const KEYS: Field = (8, WORD_BYTES);
const IS_LEAF: Field = (24, 1);
const KEY_COUNT: Field = (32, WORD_BYTES);
/// Fields of a record: pointer to the element, number of look-ups.
const ELEMENT: Field = (0, WORD_BYTES);
const LOOK_UPS: Field = (24, WORD_BYTES);
/// Field of an element: its value.
const VALUE: Field = (16, WORD_BYTES);

/// Offset and size of a field in bytes.
type Field = (u64, u64);

/// Number of a node's block of keys, and of pointers; the header is block 0.
const KEY_BLOCK: u64 = 1;
const POINTER_BLOCK: u64 = 2;

/// Node of the tree: its level, 0 for leaves, and its number among the nodes of this level in order of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) level: usize,
    pub(super) number: u64,
}

/// Program of the workload `btree`.
pub(crate) struct Tree {
    /// Number of keys, records and elements.
    pub(super) keys: u64,
    /// Number of nodes of all levels below each level; the last entry is the number of all nodes.
    pub(super) below: Vec<u64>,
    elements: Place,
    /// Blocks of records and nodes, in the order in which they were allocated.
    heap: Place,
    /// Time of insertion of each key, as a number of insertions before it.
    inserted: Permutation,
    /// Order in which the nodes were created.
    created: Permutation,
    first_random: u64,
}

impl Registered for Tree {
    const NAME: &'static str = "btree";
    const SUMMARY: &'static str =
        "look-ups in a B+ tree of nodes of six children (BTree in Mitosis)";
    const EXAMPLE: &'static str = "btree:size=4G";
    type Options = TreeOptions;
}

impl Algorithm for Tree {
    fn new(options: &TreeOptions, seed: u64, space: &mut Space) -> Self {
        let bytes = options.data_bytes() - SLACK_BYTES;
        // Two leaves need up to 2 × 4/3 nodes with the inner nodes above them, and a few on each level.
        let pair_bytes =
            PAIR_KEYS * (ELEMENT_BYTES + BLOCK_BYTES) + NODE_BLOCKS * BLOCK_BYTES * 8 / 3;
        let keys = bytes / pair_bytes * PAIR_KEYS;
        let below = nodes_below(keys);
        let nodes = below[below.len() - 1];
        Self {
            keys,
            elements: space.place(keys, ELEMENT_BYTES),
            heap: space.heap(keys + nodes * NODE_BLOCKS, BLOCK_BYTES, options.grows),
            inserted: Permutation::new(keys, &mut Random::new(!seed)),
            created: Permutation::new(nodes, &mut Random::new(seed.rotate_left(32))),
            below,
            first_random: seed,
        }
    }

    async fn repeat(&mut self, t: &mut Tracer) {
        let mut random = Random::new(self.first_random);
        let mut state = Value::constant(());
        let mut sum = Value::constant(0);
        loop {
            // Multiply and add, and the remainder of a division by the number of keys.
            state = t.multiply(state, ());
            state = t.integer(state, ());
            let key = t.divide(state, scaled(random.next(), self.keys * STRIDE));
            if let Some(value) = self.look_up(t, key) {
                sum = t.integer((sum, value), *sum + *value);
            }
            t.jump();
            t.pause().await;
        }
    }
}

impl Tree {
    /// Looks up a key. Returns the value of its element, or `None` if the tree does not have the key.
    pub(super) fn look_up(&self, t: &mut Tracer, key: Value<u64>) -> Option<Value<u64>> {
        let mut node = self.root();
        let mut header = Value::constant(self.node_block(node));
        loop {
            let is_leaf = self.heap.load_field(t, header, IS_LEAF, node.level == 0);
            if t.branch(*is_leaf, is_leaf) {
                break;
            }
            (node, header) = self.find_child(t, node, header, key);
        }
        let place = self.search_leaf(t, node, header, key)?;
        let pointers = self.heap.load_field(t, header, POINTERS, ());
        let rank = first_rank(node.number) + *place;
        let time = self.inserted.apply(rank);
        let record = self.record_block(time);
        let record = self.word(t, *header + POINTER_BLOCK, (pointers, place), record);
        let element = self.heap.load_field(t, record, ELEMENT, time);
        let count = self.heap.load_field(t, record, LOOK_UPS, ());
        let count = t.integer(count, ());
        self.heap.store_field(t, record, LOOK_UPS, count);
        Some(self.elements.load_field(t, element, VALUE, 1))
    }

    /// Finds the child of an inner node whose subtree has the keys around `key`, and its header's block.
    /// `header` is the block of the node's own header.
    fn find_child(
        &self,
        t: &mut Tracer,
        node: Node,
        header: Value<u64>,
        key: Value<u64>,
    ) -> (Node, Value<u64>) {
        let count = self.heap.load_field(t, header, KEY_COUNT, self.children(node) - 1);
        let keys = self.heap.load_field(t, header, KEYS, ());
        let mut place = t.integer((), 0);
        while t.branch(*place < *count, (place, count)) {
            let separator = node.child(*place + 1).smallest_key();
            let separator = self.word(t, *header + KEY_BLOCK, (keys, place), separator);
            if t.branch(*key < *separator, (key, separator)) {
                break;
            }
            place = t.integer(place, *place + 1);
        }
        let pointers = self.heap.load_field(t, header, POINTERS, ());
        let child = node.child(*place);
        let block = self.node_block(child);
        (child, self.word(t, *header + POINTER_BLOCK, (pointers, place), block))
    }

    /// Finds the place of `key` among the keys of a leaf, whose header is in block `header`.
    fn search_leaf(
        &self,
        t: &mut Tracer,
        leaf: Node,
        header: Value<u64>,
        key: Value<u64>,
    ) -> Option<Value<u64>> {
        let first = first_rank(leaf.number);
        let count = self.heap.load_field(t, header, KEY_COUNT, first_rank(leaf.number + 1) - first);
        let keys = self.heap.load_field(t, header, KEYS, ());
        let mut place = t.integer((), 0);
        while t.branch(*place < *count, (place, count)) {
            let held = (first + *place) * STRIDE;
            let held = self.word(t, *header + KEY_BLOCK, (keys, place), held);
            if t.branch(*held == *key, (held, key)) {
                return Some(place);
            }
            place = t.integer(place, *place + 1);
        }
        None
    }

    /// Loads the word at index `place` of the array of keys or pointers in a block of the heap; `array` is the
    /// pointer to it.
    #[inline(always)]
    #[track_caller]
    fn word<T>(
        &self,
        t: &mut Tracer,
        block: u64,
        (array, place): (Value<()>, Value<u64>),
        contents: T,
    ) -> Value<T> {
        let start = self.heap.address(block) + *place * WORD_BYTES;
        t.load(start, WORD_BYTES, (array, place), contents)
    }

    fn root(&self) -> Node {
        Node { level: self.below.len() - 2, number: 0 }
    }

    /// Number of nodes of a level.
    pub(super) fn nodes_of(&self, level: usize) -> u64 {
        self.below[level + 1] - self.below[level]
    }

    /// Number of nodes of all levels.
    fn nodes(&self) -> u64 {
        self.below[self.below.len() - 1]
    }

    /// Number of children of an inner node.
    fn children(&self, node: Node) -> u64 {
        (self.nodes_of(node.level - 1) - node.number * CHILDREN).min(CHILDREN)
    }

    /// Block of a record's insertion: each insertion allocates a record, and then a node if one is due.
    pub(super) fn record_block(&self, time: u64) -> u64 {
        time + NODE_BLOCKS * (time * self.nodes() / self.keys)
    }

    /// First block of a node.
    pub(super) fn node_block(&self, node: Node) -> u64 {
        let time = self.created.apply(self.below[node.level] + node.number);
        let records = ((time + 1) * self.keys).div_ceil(self.nodes());
        records + NODE_BLOCKS * time
    }
}

impl Node {
    /// Child at index `place` of an inner node.
    fn child(self, place: u64) -> Self {
        Self { level: self.level - 1, number: self.number * CHILDREN + place }
    }

    /// Smallest key in the subtree of a node.
    fn smallest_key(self) -> u64 {
        first_rank(self.number * CHILDREN.pow(self.level as u32)) * STRIDE
    }
}

/// Rank of the first key of a leaf among all keys.
fn first_rank(leaf: u64) -> u64 {
    (leaf * PAIR_KEYS).div_ceil(2)
}

/// Numbers of nodes below each level of a tree with `keys` keys, and the number of all nodes.
fn nodes_below(keys: u64) -> Vec<u64> {
    let mut nodes = keys / PAIR_KEYS * 2;
    let mut below = vec![0, nodes];
    while nodes > 1 {
        nodes = nodes.div_ceil(CHILDREN);
        below.push(below[below.len() - 1] + nodes);
    }
    below
}
