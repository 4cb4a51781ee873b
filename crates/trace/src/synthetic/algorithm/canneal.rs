//! Simulated annealing of the places of a chip's elements, as PARSEC's canneal does it.
//!
//! Elements are connected by nets and lie on a grid. Two random elements swap places if that makes
//! the nets at both shorter, or else with a probability that falls with temperature. Swaps per
//! temperature, the first temperature and the number of temperatures are those of PARSEC's native
//! input; as there, every temperature is the one before divided by 1.5.

use super::array::{Array, Place, Space};
use super::code::{
    Block, Code, Op, call, compare, conditional, divide, float, integer, jump, load, multiply, ret,
    store,
};
use super::machine::Machine;
use super::source::Running;
use super::{Algorithm, SLACK_BYTES, size};
use crate::synthetic::random::{Permutation, Random, scale};
use crate::synthetic::registry::Workload;
use crate::synthetic::spec::WorkloadSpec;

pub(in crate::synthetic) const CANNEAL: Workload = Workload {
    name: "canneal",
    summary: "simulated annealing of a chip's elements (as PARSEC's canneal; paper G)",
    parameters: &[size("bytes of elements, nets and places, 1M to 64G (paper G: 4.0G)")],
    host_bytes: |spec| spec.size("size") / 5,
    build: Running::<Canneal>::boxed,
};

/// Nets that lead into an element: the most that PARSEC's inputs have. As many lead out, on
/// average.
const FAN_IN: u64 = 5;
/// Bytes of an element: its name, two vectors of nets (beginning, end and capacity each) and a
/// pointer to its place.
const ELEMENT_BYTES: u64 = 64;
/// Bytes of a pointer, and of a place: two coordinates.
const POINTER_BYTES: u64 = 8;
const COORDINATE_BYTES: u64 = 4;
/// Offsets in an element.
const INTO_OFFSET: u64 = 8;
const OUT_OFFSET: u64 = 32;
const PLACE_OFFSET: u64 = 56;

const SWAPS_PER_TEMPERATURE: u32 = 15_000;
const TEMPERATURES: u32 = 6_000;
const FIRST_TEMPERATURE: f64 = 2_000.0;
const COOLING: f64 = 1.5;

const RANDOM: u8 = 10;
const FIRST: u8 = 11;
const SECOND: u8 = 12;
const FIRST_PLACE: u8 = 13;
const SECOND_PLACE: u8 = 14;
const FIRST_X: u8 = 15;
const FIRST_Y: u8 = 16;
const SECOND_X: u8 = 17;
const SECOND_Y: u8 = 18;
const ELEMENT: u8 = 19;
const NET: u8 = 20;
const NETS_END: u8 = 21;
const OTHER: u8 = 22;
const PLACE: u8 = 23;
const X: u8 = 24;
const Y: u8 = 25;
const DISTANCE: u8 = 26;
const SIGN: u8 = 27;
const NOW: u8 = 28;
const THEN: u8 = 29;
const COST: u8 = 30;
const DELTA: u8 = 31;
const SWAPS: u8 = 32;
const TEMPERATURE: u8 = 40;
const EXPONENT: u8 = 41;
const DRAWN: u8 = 42;

/// The distance along one coordinate is added to a sum.
const fn distance(from: u8, to: u8, sum: u8) -> [Op; 5] {
    [
        integer(DISTANCE, &[from, to]),
        integer(SIGN, &[DISTANCE]),
        integer(DISTANCE, &[DISTANCE, SIGN]),
        integer(DISTANCE, &[DISTANCE, SIGN]),
        integer(sum, &[sum, DISTANCE]),
    ]
}

/// A net: the place of the element at its other end, and how far it is from the element now and
/// after the swap; taken: another net.
fn net() -> Vec<Op> {
    let mut ops = vec![
        load(OTHER, &[NET]),
        integer(NET, &[NET]),
        load(PLACE, &[OTHER]),
        load(X, &[PLACE]),
        load(Y, &[PLACE]),
    ];
    ops.extend(distance(X, FIRST_X, NOW));
    ops.extend(distance(Y, FIRST_Y, NOW));
    ops.extend(distance(X, SECOND_X, THEN));
    ops.extend(distance(Y, SECOND_Y, THEN));
    ops.extend([compare(&[NET, NETS_END]), conditional()]);
    ops
}

/// An element other than the last one, and both their places.
const PICK_OPS: &[Op] = &[
    integer(FIRST, &[SECOND]),
    integer(RANDOM, &[RANDOM]),
    multiply(SECOND, &[RANDOM]),
    integer(SECOND, &[SECOND, FIRST]),
    integer(SECOND, &[SECOND]),
    load(FIRST_PLACE, &[FIRST]),
    load(SECOND_PLACE, &[SECOND]),
    load(FIRST_X, &[FIRST_PLACE]),
    load(FIRST_Y, &[FIRST_PLACE]),
    load(SECOND_X, &[SECOND_PLACE]),
    load(SECOND_Y, &[SECOND_PLACE]),
    integer(ELEMENT, &[FIRST]),
    call(),
];
const PICK: Block = 0;
const PICKED: Block = 1;
const JUDGE: Block = 2;
const DRAW: Block = 3;
const SWAP: Block = 4;
const NEXT: Block = 5;
const COOL: Block = 6;
const COST_INTO: Block = 7;
const NET_INTO: Block = 8;
const COST_OUT: Block = 9;
const NET_OUT: Block = 10;
const RETURN: Block = 11;

pub(super) struct Canneal {
    elements: Place,
    /// Elements that nets come from, [`FAN_IN`] for each element; computed.
    into: Place,
    /// Elements that nets lead to, and where those of each element begin.
    out: Array<u32>,
    out_starts: Vec<u32>,
    /// Coordinates of the places, computed.
    places: Place,
    /// The place of each element.
    placed: Vec<u32>,
    columns: u32,
    seed: u64,
    random: Random,
    second: u32,
    swaps: u32,
    temperatures: u32,
    pub(super) temperature: f64,
}

impl Algorithm for Canneal {
    fn new(spec: &WorkloadSpec, seed: u64, space: &mut Space) -> Self {
        let element_bytes = ELEMENT_BYTES + 2 * FAN_IN * POINTER_BYTES + 2 * COORDINATE_BYTES;
        let count = (spec.size("size") - SLACK_BYTES) / element_bytes;
        let (out_starts, out) = reverse(seed, count);
        let permutation = Permutation::new(count, &mut Random::new(!seed));
        Self {
            elements: space.place(count, ELEMENT_BYTES),
            into: space.place(count * FAN_IN, POINTER_BYTES),
            out: space.array(out, POINTER_BYTES),
            out_starts,
            places: space.place(count, 2 * COORDINATE_BYTES),
            placed: (0..count).map(|element| permutation.apply(element) as u32).collect(),
            columns: (count as f64).sqrt().ceil() as u32,
            seed,
            random: Random::new(seed),
            second: 0,
            swaps: 0,
            temperatures: 0,
            temperature: FIRST_TEMPERATURE,
        }
    }

    fn code(&self) -> Code {
        let net = net();
        Code::new(&[
            PICK_OPS,
            // PICKED: the same for the second element
            &[integer(DELTA, &[COST]), integer(ELEMENT, &[SECOND]), call()],
            // JUDGE: taken: the nets get shorter
            &[integer(DELTA, &[DELTA, COST]), compare(&[DELTA]), conditional()],
            // DRAW: a random number against exp(−delta ÷ temperature), a polynomial of degree 5;
            // taken: no swap
            &[
                integer(RANDOM, &[RANDOM]),
                float(DRAWN, &[RANDOM]),
                float(EXPONENT, &[DELTA]),
                divide(EXPONENT, &[EXPONENT, TEMPERATURE]),
                float(EXPONENT, &[EXPONENT]),
                float(EXPONENT, &[EXPONENT]),
                float(EXPONENT, &[EXPONENT]),
                float(EXPONENT, &[EXPONENT]),
                float(EXPONENT, &[EXPONENT]),
                compare(&[DRAWN, EXPONENT]),
                conditional(),
            ],
            // SWAP: each element gets the other's place
            &[store(&[SECOND_PLACE, FIRST]), store(&[FIRST_PLACE, SECOND])],
            // NEXT: taken: another pair at this temperature
            &[integer(SWAPS, &[SWAPS]), compare(&[SWAPS]), conditional()],
            // COOL
            &[divide(TEMPERATURE, &[TEMPERATURE]), integer(SWAPS, &[]), jump()],
            // COST_INTO: what a swap costs at an element, a function: its nets that lead into it
            &[
                load(NET, &[ELEMENT]),
                load(NETS_END, &[ELEMENT]),
                integer(NOW, &[]),
                integer(THEN, &[]),
            ],
            &net,
            // COST_OUT: its nets that lead out; taken: there are none
            &[
                load(NET, &[ELEMENT]),
                load(NETS_END, &[ELEMENT]),
                compare(&[NET, NETS_END]),
                conditional(),
            ],
            &net,
            // RETURN
            &[integer(COST, &[THEN, NOW]), ret()],
        ])
    }

    fn step(&mut self, machine: &mut Machine) {
        let first = self.second;
        let others = self.count() - 1;
        let number = self.random.below(others);
        self.second = self.nth_after(first, number);
        let second = self.second;
        for element in [first, second] {
            self.elements.read_part(element.into(), PLACE_OFFSET, POINTER_BYTES, machine);
        }
        let from = self.load_place(first, machine);
        let to = self.load_place(second, machine);
        machine.run(PICK, true);
        let cost = self.swap_cost(first, from, to, machine);
        machine.run(PICKED, true);
        let delta = cost + self.swap_cost(second, to, from, machine);
        machine.run(JUDGE, delta < 0);
        if delta < 0 || self.accepts(delta, machine) {
            for element in [first, second] {
                self.elements.write_part(element.into(), PLACE_OFFSET, POINTER_BYTES, machine);
            }
            self.placed.swap(first as usize, second as usize);
            machine.run(SWAP, false);
        }
        self.swaps += 1;
        let more = self.swaps < SWAPS_PER_TEMPERATURE;
        machine.run(NEXT, more);
        if !more {
            self.cool(machine);
        }
    }
}

/// Where a net of an element comes from: any other element.
#[inline]
fn source_of(seed: u64, count: u64, element: u64, number: u64) -> u32 {
    let drawn = Random::new(seed.wrapping_add(element * FAN_IN + number)).next();
    let source = element + 1 + scale(drawn, count - 1);
    (if source < count { source } else { source - count }) as u32
}

/// The nets by the elements that they come from: where each begins, and the elements they lead to.
fn reverse(seed: u64, count: u64) -> (Vec<u32>, Vec<u32>) {
    let nets = || (0..count).flat_map(|element| (0..FAN_IN).map(move |number| (element, number)));
    let mut starts = vec![0; count as usize + 1];
    for (element, number) in nets() {
        starts[source_of(seed, count, element, number) as usize] += 1;
    }
    let mut sum = 0;
    for start in &mut starts {
        sum += *start;
        *start = sum;
    }
    let mut out = vec![0; sum as usize];
    for (element, number) in nets() {
        let start = &mut starts[source_of(seed, count, element, number) as usize];
        *start -= 1;
        out[*start as usize] = element as u32;
    }
    (starts, out)
}

impl Canneal {
    pub(super) fn count(&self) -> u64 {
        self.placed.len() as u64
    }

    /// The element `number` + 1 after another, round the end.
    fn nth_after(&self, element: u32, number: u64) -> u32 {
        let after = u64::from(element) + 1 + number;
        (if after < self.count() { after } else { after - self.count() }) as u32
    }

    #[inline]
    fn coordinates(&self, place: u32) -> (i64, i64) {
        (i64::from(place % self.columns), i64::from(place / self.columns))
    }

    /// Loads both coordinates of an element's place.
    #[inline]
    fn load_place(&self, element: u32, machine: &mut Machine) -> (i64, i64) {
        let place = self.placed[element as usize];
        self.places.read_part(place.into(), 0, COORDINATE_BYTES, machine);
        self.places.read_part(place.into(), COORDINATE_BYTES, COORDINATE_BYTES, machine);
        self.coordinates(place)
    }

    /// How much longer an element's nets get if it goes from a place to another.
    fn swap_cost(
        &self,
        element: u32,
        from: (i64, i64),
        to: (i64, i64),
        machine: &mut Machine,
    ) -> i64 {
        let element = u64::from(element);
        self.load_nets(element, INTO_OFFSET, machine);
        machine.run(COST_INTO, false);
        let mut cost = 0;
        for number in 0..FAN_IN {
            self.into.read(element * FAN_IN + number, machine);
            let other = source_of(self.seed, self.count(), element, number);
            cost += self.net_cost(other, from, to, machine);
            machine.run(NET_INTO, number + 1 < FAN_IN);
        }
        let (start, end) =
            (self.out_starts[element as usize], self.out_starts[element as usize + 1]);
        self.load_nets(element, OUT_OFFSET, machine);
        machine.run(COST_OUT, start == end);
        for net in start..end {
            let other = self.out.load(net.into(), machine);
            cost += self.net_cost(other, from, to, machine);
            machine.run(NET_OUT, net + 1 < end);
        }
        machine.run(RETURN, true);
        cost
    }

    /// Loads where an element's vector of nets begins and ends.
    fn load_nets(&self, element: u64, offset: u64, machine: &mut Machine) {
        self.elements.read_part(element, offset, POINTER_BYTES, machine);
        self.elements.read_part(element, offset + POINTER_BYTES, POINTER_BYTES, machine);
    }

    #[inline]
    fn net_cost(&self, other: u32, from: (i64, i64), to: (i64, i64), machine: &mut Machine) -> i64 {
        self.elements.read_part(other.into(), PLACE_OFFSET, POINTER_BYTES, machine);
        let place = self.load_place(other, machine);
        length(place, to) - length(place, from)
    }

    /// Whether a swap that makes nets longer, or leaves them, is done all the same.
    fn accepts(&mut self, delta: i64, machine: &mut Machine) -> bool {
        let drawn = self.random.next() as f64 / 2f64.powi(64);
        let accepts = drawn < (-(delta as f64) / self.temperature).exp();
        machine.run(DRAW, !accepts);
        accepts
    }

    fn cool(&mut self, machine: &mut Machine) {
        machine.run(COOL, true);
        self.swaps = 0;
        self.temperatures += 1;
        self.temperature /= COOLING;
        if self.temperatures == TEMPERATURES {
            (self.temperatures, self.temperature) = (0, FIRST_TEMPERATURE);
        }
    }

    /// The length of all nets.
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

    /// The place of each element.
    #[cfg(test)]
    pub(super) fn placed(&self) -> &[u32] {
        &self.placed
    }
}

/// Length of a net along both coordinates.
#[inline]
fn length(one: (i64, i64), other: (i64, i64)) -> i64 {
    (one.0 - other.0).abs() + (one.1 - other.1).abs()
}
