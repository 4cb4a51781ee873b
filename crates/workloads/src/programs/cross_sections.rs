//! Workload `xsbench`: look-ups of neutron cross-sections, as in the kernel of XSBench.
//!
//! XSBench (Tramm et al., PHYSOR 2014) stands for OpenMC, a Monte Carlo program of reactor physics. Each look-up
//! takes a random energy and a random material. It searches the energy in the grid of all energies of all
//! nuclides by bisection. For each nuclide of the material, the row that it found there gives the place of
//! the energy in the nuclide's own grid, where two neighbouring points are read and interpolated.
//!
//! The problem is its "large" one, a reactor core of 355 nuclides. Numbers of nuclides in each material and
//! probabilities of the materials are XSBench's. Energies are uniformly distributed. The grids are computed and
//! not stored.

use std::ops::Range;

use perforate_config::BoundedSize;
use perforate_types::{Random, scaled};

use super::{Algorithm, Data, DataSize, SLACK_BYTES};
use crate::permutation::Permutation;
use crate::registry::Registered;
use crate::traced::{Place, Space, Tracer, Value};

data_options! { CrossSectionOptions:
    /// Size of all grids; 85G in Mitosis.
    size;
}

/// Number of nuclides in the reactor core of XSBench's "large" problem.
const NUCLIDES: u64 = 355;
/// Number of nuclides of each material, and its share of the look-ups in thousandths.
const MATERIALS: [(u64, u64); 12] = [
    (321, 140),
    (5, 52),
    (4, 275),
    (4, 134),
    (27, 154),
    (21, 64),
    (21, 66),
    (21, 55),
    (21, 8),
    (21, 15),
    (9, 25),
    (9, 12),
];
/// Largest number of nuclides of a material.
const MOST_NUCLIDES: u64 = 321;
/// Size of a floating-point number in bytes.
const NUMBER_BYTES: u64 = 8;
/// Size of an index into a nuclide's grid in bytes.
const INDEX_BYTES: u64 = 4;
/// Number of cross-sections in a point of a nuclide's grid, beside its energy.
const CHANNELS: usize = 5;
/// Size of a point of a nuclide's grid in bytes.
const POINT_BYTES: u64 = (1 + CHANNELS as u64) * NUMBER_BYTES;

/// Program of the workload `xsbench`.
pub(crate) struct CrossSections {
    /// Number of points in the grids of all nuclides, and of energies.
    pub(super) points: u64,
    /// Energies of all grids together, in order.
    energies: Place,
    /// For each of these energies, a row with the place of the energy in each nuclide's grid.
    rows: Place,
    /// Grids of the nuclides, one after the other.
    grids: Place,
    /// Nuclides of the materials, and their densities.
    nuclides: Place,
    densities: Place,
    mixtures: [Permutation; MATERIALS.len()],
    seed: u64,
}

impl Registered for CrossSections {
    const NAME: &'static str = "xsbench";
    const SUMMARY: &'static str =
        "look-ups of neutron cross-sections, like XSBench with its unionized grid (in Mitosis)";
    const EXAMPLE: &'static str = "xsbench:size=4G";
    type Options = CrossSectionOptions;
}

impl Algorithm for CrossSections {
    fn new(options: &CrossSectionOptions, seed: u64, space: &mut Space) -> Self {
        let energy_bytes = NUMBER_BYTES + NUCLIDES * INDEX_BYTES + POINT_BYTES;
        let points = (options.data_bytes() - SLACK_BYTES) / energy_bytes;
        let mixed = MATERIALS.len() as u64 * MOST_NUCLIDES;
        let mut random = Random::new(!seed);
        Self {
            points,
            energies: space.place(points, NUMBER_BYTES),
            rows: space.place(points, NUCLIDES * INDEX_BYTES),
            grids: space.place(points, POINT_BYTES),
            nuclides: space.place(mixed, INDEX_BYTES),
            densities: space.place(mixed, NUMBER_BYTES),
            mixtures: std::array::from_fn(|_| Permutation::new(NUCLIDES, &mut random)),
            seed,
        }
    }

    async fn repeat(&mut self, t: &mut Tracer) {
        let mut random = Random::new(self.seed);
        let mut state = Value::constant(());
        loop {
            // A multiplicative random-number generator, once for the energy and once for the material.
            state = t.multiply(state, ());
            state = t.integer(state, ());
            let energy = t.float(state, scaled(random.next(), self.points));
            state = t.multiply(state, ());
            state = t.integer(state, ());
            let material = t.float(state, material(random.below(1000)));
            t.compute(2 * MATERIALS.len() as u32, 1);
            self.look_up(t, energy, material).await;
            t.jump();
        }
    }
}

impl CrossSections {
    /// Looks up the cross-sections of a material at an energy, which is given as its place among all energies.
    async fn look_up(&self, t: &mut Tracer, energy: Value<u64>, material: Value<usize>) {
        let row = self.find(t, energy);
        let (count, _) = MATERIALS[*material];
        let mut sums = [Value::constant(()); CHANNELS];
        let mut number = t.integer((), 0);
        loop {
            let place = number.map(|number| *material as u64 * MOST_NUCLIDES + number);
            let nuclide = self.nuclides.load(t, place, self.mixtures[*material].apply(*number));
            let density = self.densities.load(t, place, ());
            let micro = self.interpolate(t, energy, row, nuclide);
            for (channel, (sum, value)) in sums.iter_mut().zip(micro).enumerate() {
                let t = &mut t.unrolled(channel);
                let product = t.float((value, density), ());
                *sum = t.float((*sum, product), ());
            }
            number = t.integer(number, *number + 1);
            t.pause().await;
            if !t.branch(*number < count, number) {
                break;
            }
        }
    }

    /// Finds the last energy of all grids that is not above `energy`, by bisection without branches.
    pub(super) fn find(&self, t: &mut Tracer, energy: Value<u64>) -> Value<u64> {
        let mut lower = t.integer((), 0);
        let mut length = self.points - 1;
        while length > 1 {
            let middle = lower.map(|lower| lower + length / 2);
            let held = self.energies.load(t, middle, *middle);
            let is_above = *held > *energy;
            // Compare, and two conditional moves.
            let compared = t.integer((held, energy), ());
            lower = t.integer((lower, compared), if is_above { *lower } else { *middle });
            length = if is_above { length / 2 } else { length - length / 2 };
            let rest = t.integer(compared, length);
            t.branch(*rest > 1, rest);
        }
        lower
    }

    /// Range of the points of a nuclide's grid.
    fn grid(&self, nuclide: u64) -> Range<u64> {
        nuclide * self.points / NUCLIDES..(nuclide + 1) * self.points / NUCLIDES
    }

    /// Reads the two points of a nuclide's grid around an energy, and interpolates each cross-section.
    fn interpolate(
        &self,
        t: &mut Tracer,
        energy: Value<u64>,
        row: Value<u64>,
        nuclide: Value<u64>,
    ) -> [Value<()>; CHANNELS] {
        // The grids are uniform: they have as many points below an energy as all have on average.
        let grid = self.grid(*nuclide);
        let index = (*row / NUCLIDES).min((grid.end - grid.start).saturating_sub(2));
        let start = self.rows.address(*row) + *nuclide * INDEX_BYTES;
        let index = t.load(start, INDEX_BYTES, (row, nuclide), index);
        let low = t.integer((index, nuclide), grid.start + *index);
        let high = low.map(|low| (low + 1).min(self.points - 1));
        let low_energy = self.grids.load_field(t, low, (0, NUMBER_BYTES), ());
        let high_energy = self.grids.load_field(t, high, (0, NUMBER_BYTES), ());
        let above = t.float((high_energy, energy), ());
        let width = t.float((high_energy, low_energy), ());
        let share = t.divide((above, width), ());
        std::array::from_fn(|channel| {
            let t = &mut t.unrolled(channel);
            let field = ((1 + channel as u64) * NUMBER_BYTES, NUMBER_BYTES);
            let low = self.grids.load_field(t, low, field, ());
            let high = self.grids.load_field(t, high, field, ());
            let difference = t.float((high, low), ());
            let part = t.float((share, difference), ());
            t.float((high, part), ())
        })
    }
}

/// Material of a look-up, for a random number below 1000.
fn material(roll: u64) -> usize {
    let mut sum = 0;
    let is_reached = |&(_, share): &(u64, u64)| {
        sum += share;
        roll < sum
    };
    MATERIALS.iter().position(is_reached).expect("the shares sum up to 1000")
}
