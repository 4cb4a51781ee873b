//! Simulated annealing of the placement of a chip's elements, as in PARSEC's canneal.
//!
//! Elements are connected by nets and lie on a grid. Two random elements swap places if this makes
//! their nets shorter, or otherwise with a probability that falls with the temperature. The number of
//! swaps per temperature, the first temperature and the number of temperatures are those of PARSEC's
//! native input. As in PARSEC, each temperature is the previous one divided by 1.5.

use std::sync::Arc;

use perforate_config::BoundedSize;
use perforate_types::{Random, scaled};

use super::grouped::Grouped;
use super::kept::{self, Edges, Recipe};
use super::{Algorithm, Data, DataSize, SLACK_BYTES};
use crate::permutation::Permutation;
use crate::registry::Registered;
use crate::traced::{Constants, Place, Space, Tracer, Value};

/// Number of nets (wires) that lead into an element of the circuit: the maximum of PARSEC's inputs. On
/// average, as many nets lead out of an element.
pub(super) const FAN_IN: u64 = 5;
/// Size of an element in bytes: its name, two vectors of nets (begin, end and capacity each), and a pointer
/// to its place.
const ELEMENT_BYTES: u64 = 64;
/// Size of a pointer in bytes, and of one of a place's two coordinates.
const POINTER_BYTES: u64 = 8;
const COORDINATE_BYTES: u64 = 4;
type Field = (u64, u64);
/// Fields of an element (byte offset and length) with the begin and end pointers of its vector of incoming
/// nets.
const INTO: [Field; 2] = [(8, POINTER_BYTES), (16, POINTER_BYTES)];
const OUT: [Field; 2] = [(32, POINTER_BYTES), (40, POINTER_BYTES)];
const PLACE: Field = (56, POINTER_BYTES);
/// Field of a place (byte offset and length) that has the first coordinate.
const X: Field = (0, COORDINATE_BYTES);
const Y: Field = (COORDINATE_BYTES, COORDINATE_BYTES);

const SWAPS_PER_TEMPERATURE: u32 = 15_000;
const TEMPERATURES: u32 = 6_000;
const FIRST_TEMPERATURE: f64 = 2_000.0;
const COOLING: f64 = 1.5;

data_options! { CannealOptions:
    /// Size of all data.
    size;
    /// The heap of nets grows by 132KB at a time, as glibc's does: no 2MB pages on first touches.
    grows: bool = false,
}

pub(crate) struct Canneal {
    elements: Place,
    /// Array of the sources of nets: for each element, the [`FAN_IN`] elements at which the element's
    /// incoming nets start. It has addresses only: the values are computed when they are loaded.
    into: Place,
    /// Array of the elements to which nets lead, grouped by the element at which they start.
    out: Constants<u32>,
    out_starts: Arc<Vec<u64>>,
    /// Array of the coordinates of places. It has addresses only: the values are computed when they are
    /// loaded.
    places: Place,
    /// Number of the place on the grid that each element has.
    placed: Vec<u32>,
    columns: u32,
    seed: u64,
    random: Random,
}

impl Registered for Canneal {
    const NAME: &'static str = "canneal";
    const SUMMARY: &'static str =
        "simulated annealing of a chip's layout, like PARSEC's canneal (paper G: 4.0G)";
    const EXAMPLE: &'static str = "canneal:size=4G";
    type Options = CannealOptions;

    fn host_bytes(options: &CannealOptions) -> u64 {
        options.data_bytes() / 5
    }
}

impl Algorithm for Canneal {
    fn new(options: &CannealOptions, seed: u64, space: &mut Space) -> Self {
        let element_bytes = ELEMENT_BYTES + 2 * FAN_IN * POINTER_BYTES + 2 * COORDINATE_BYTES;
        let count = (options.data_bytes() - SLACK_BYTES) / element_bytes;
        let nets = Recipe::Nets { seed, elements: count };
        let Edges { offsets: out_starts, neighbours } = kept::edges(nets, || reverse(seed, count));
        let permutation = Permutation::new(count, &mut Random::new(!seed));
        Self {
            elements: space.place(count, ELEMENT_BYTES),
            into: space.heap(count * FAN_IN, POINTER_BYTES, options.grows),
            out: space.heap(count * FAN_IN, POINTER_BYTES, options.grows).holding(neighbours),
            out_starts,
            places: space.place(count, 2 * COORDINATE_BYTES),
            placed: (0..count).map(|element| permutation.apply(element) as u32).collect(),
            columns: (count as f64).sqrt().ceil() as u32,
            seed,
            random: Random::new(seed),
        }
    }

    async fn repeat(&mut self, t: &mut Tracer) {
        let mut last = Value::constant(0);
        loop {
            let mut temperature = Value::constant(FIRST_TEMPERATURE);
            for _ in 0..TEMPERATURES {
                last = self.anneal(t, temperature, SWAPS_PER_TEMPERATURE, last).await;
                temperature = t.divide(temperature, *temperature / COOLING);
                t.jump();
            }
        }
    }
}

/// Computes the element at which net `number` into `element` starts: any other element.
#[inline]
fn source_of(seed: u64, count: u64, element: u64, number: u64) -> u32 {
    let drawn = Random::new(seed.wrapping_add(element * FAN_IN + number)).next();
    let source = element + 1 + scaled(drawn, count - 1);
    (if source < count { source } else { source - count }) as u32
}

/// Calls `visit` with source and target of each net; those of a source in order of their targets.
fn for_each_net(seed: u64, count: u64, visit: impl FnMut(u32, u32)) {
    let mut nets = Grouped::new(count, visit);
    for element in 0..count {
        for number in 0..FAN_IN {
            nets.add(source_of(seed, count, element, number), element as u32);
        }
    }
    nets.finish();
}

/// Sorts nets by the element at which they start. Returns the index of each element's first net, and the
/// elements to which the nets lead.
fn reverse(seed: u64, count: u64) -> (Vec<u64>, Vec<u32>) {
    let mut starts = vec![0; count as usize + 1];
    for_each_net(seed, count, |source, _| starts[source as usize] += 1);
    let mut sum = 0;
    for start in &mut starts {
        sum += *start;
        *start = sum;
    }
    let mut out = vec![0; sum as usize];
    for_each_net(seed, count, |source, element| {
        let start = &mut starts[source as usize];
        *start -= 1;
        out[*start as usize] = element;
    });
    (starts, out)
}

/// Coordinates of a place on the grid.
#[derive(Clone, Copy)]
struct Point {
    x: Value<i64>,
    y: Value<i64>,
}

impl Canneal {
    /// Tries `swaps` swaps at one temperature, the first with the element `last`. Returns the element that
    /// was chosen last.
    pub(super) async fn anneal(
        &mut self,
        t: &mut Tracer,
        temperature: Value<f64>,
        swaps: u32,
        last: Value<u32>,
    ) -> Value<u32> {
        let mut last = last;
        let mut done = t.integer((), 0);
        loop {
            last = self.try_swap(t, temperature, last);
            done = t.integer(done, *done + 1);
            t.pause().await;
            if !t.branch(*done < swaps, done) {
                return last;
            }
        }
    }

    /// Swaps the places of `last` and a random other element, if this shortens their nets or the random
    /// decision accepts the swap. Returns the other element.
    fn try_swap(
        &mut self,
        t: &mut Tracer,
        temperature: Value<f64>,
        last: Value<u32>,
    ) -> Value<u32> {
        let first = t.integer(last, *last);
        let second = self.pick(t, first);
        let first_place = self.load_place(t, first);
        let second_place = self.load_place(t, second);
        let from = self.load_point(&mut t.inlined(), first_place);
        let to = self.load_point(&mut t.inlined(), second_place);
        let cost = self.swap_cost(&mut t.inlined(), first, from, to);
        let other_cost = self.swap_cost(&mut t.inlined(), second, to, from);
        let cost = t.integer((cost, other_cost), *cost + *other_cost);
        if t.branch(*cost < 0, cost) || self.is_accepted(t, cost, temperature) {
            self.elements.store_field(t, first, PLACE, second_place);
            self.elements.store_field(t, second, PLACE, first_place);
            self.placed.swap(*first as usize, *second as usize);
        }
        second
    }

    /// Chooses a random element other than `first`.
    fn pick(&mut self, t: &mut Tracer, first: Value<u32>) -> Value<u32> {
        let number = self.random.below(self.count() - 1);
        let random = t.integer((), ());
        let scaled = t.multiply(random, ());
        let second = t.integer((scaled, first), ());
        t.integer(second, self.nth_after(*first, number))
    }

    /// Loads the pointer to an element's place. Returns the number of the place.
    #[inline(always)]
    #[track_caller]
    fn load_place(&self, t: &mut Tracer, element: Value<u32>) -> Value<u32> {
        self.elements.load_field(t, element, PLACE, self.placed[*element as usize])
    }

    /// Loads both coordinates of the place with this number.
    #[inline]
    fn load_point(&self, t: &mut Tracer, place: Value<u32>) -> Point {
        let (x, y) = self.coordinates(*place);
        let x = self.places.load_field(t, place, X, x);
        Point { x, y: self.places.load_field(t, place, Y, y) }
    }

    /// Computes the increase of the length of an element's nets if it moves from place `from` to place `to`.
    fn swap_cost(&self, t: &mut Tracer, element: Value<u32>, from: Point, to: Point) -> Value<i64> {
        let nets = u64::from(*element) * FAN_IN;
        let mut net = self.elements.load_field(t, element, INTO[0], nets);
        let end = self.elements.load_field(t, element, INTO[1], nets + FAN_IN);
        let mut lengths = [t.integer((), 0), t.integer((), 0)];
        loop {
            let number = *net - nets;
            let source = source_of(self.seed, self.count(), u64::from(*element), number);
            let other = self.into.load(t, net, source);
            net = t.integer(net, *net + 1);
            lengths = self.add_net(&mut t.inlined(), other, [from, to], lengths);
            if !t.branch(*net < *end, (net, end)) {
                break;
            }
        }
        let place = *element as usize;
        let (first, last) = (self.out_starts[place], self.out_starts[place + 1]);
        let mut net = self.elements.load_field(t, element, OUT[0], first);
        let end = self.elements.load_field(t, element, OUT[1], last);
        let mut is_done = t.branch(*net == *end, (net, end));
        while !is_done {
            let other = self.out.load(t, net);
            net = t.integer(net, *net + 1);
            lengths = self.add_net(&mut t.inlined(), other, [from, to], lengths);
            is_done = !t.branch(*net < *end, (net, end));
        }
        let [now, then] = lengths;
        t.integer((then, now), *then - *now)
    }

    /// Adds the distances from `other`, the element at the other end of a net, to the old and the new place
    /// to `lengths`.
    #[inline]
    fn add_net(
        &self,
        t: &mut Tracer,
        other: Value<u32>,
        points: [Point; 2],
        lengths: [Value<i64>; 2],
    ) -> [Value<i64>; 2] {
        let place = self.load_place(t, other);
        let other = self.load_point(&mut t.inlined(), place);
        let [now, then] = lengths;
        let now = add_distance(&mut t.inlined(), other.x, points[0].x, now);
        let now = add_distance(&mut t.inlined(), other.y, points[0].y, now);
        let then = add_distance(&mut t.inlined(), other.x, points[1].x, then);
        [now, add_distance(&mut t.inlined(), other.y, points[1].y, then)]
    }

    /// True if a swap that does not shorten the nets is accepted: a random number is compared with
    /// exp(−`cost` ÷ `temperature`), computed by a polynomial of degree 5.
    fn is_accepted(&mut self, t: &mut Tracer, cost: Value<i64>, temperature: Value<f64>) -> bool {
        let drawn = self.random.next() as f64 / 2f64.powi(64);
        let random = t.integer((), ());
        let drawn = t.float(random, drawn);
        let exponent = t.float(cost, -(*cost as f64));
        let exponent = t.divide((exponent, temperature), *exponent / *temperature);
        let power = t.float(exponent, ());
        let power = t.float(power, ());
        let power = t.float(power, ());
        let power = t.float(power, ());
        let power = t.float(power, exponent.exp());
        !t.branch(*drawn >= *power, (drawn, power))
    }

    pub(super) fn count(&self) -> u64 {
        self.placed.len() as u64
    }

    /// Returns the element `number` + 1 positions after `element`, cyclically.
    fn nth_after(&self, element: u32, number: u64) -> u32 {
        let after = u64::from(element) + 1 + number;
        (if after < self.count() { after } else { after - self.count() }) as u32
    }

    #[inline]
    fn coordinates(&self, place: u32) -> (i64, i64) {
        (i64::from(place % self.columns), i64::from(place / self.columns))
    }

    /// Computes the total length of all nets, without recording instructions.
    #[cfg(test)]
    pub(super) fn total_cost(&self) -> i64 {
        let at = |element: u32| self.coordinates(self.placed[element as usize]);
        let nets =
            (0..self.count()).flat_map(|element| (0..FAN_IN).map(move |number| (element, number)));
        nets.map(|(element, number)| {
            length(at(element as u32), at(source_of(self.seed, self.count(), element, number)))
        })
        .sum()
    }

    /// Number of the place on the grid that each element has.
    #[cfg(test)]
    pub(super) fn placed(&self) -> &[u32] {
        &self.placed
    }
}

/// Adds the distance between two points along one coordinate to `sum`.
#[inline]
fn add_distance(t: &mut Tracer, from: Value<i64>, to: Value<i64>, sum: Value<i64>) -> Value<i64> {
    let difference = t.integer((from, to), *from - *to);
    let sign = t.integer(difference, *difference >> 63);
    let flipped = t.integer((difference, sign), *difference ^ *sign);
    let distance = t.integer((flipped, sign), *flipped - *sign);
    t.integer((sum, distance), *sum + *distance)
}

/// Manhattan distance between two points, the length of a net between them.
#[cfg(test)]
fn length(one: (i64, i64), other: (i64, i64)) -> i64 {
    (one.0 - other.0).abs() + (one.1 - other.1).abs()
}
