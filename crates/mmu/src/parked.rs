//! Hardware that exists once per core.
//!
//! Only one core runs at a time. Its state is in the hardware's own fields; [`Parked`] has the
//! states of the other cores. So a simulation of one core has no overhead.

/// Parked hardware state of the cores that are not running.
#[derive(Clone, Debug)]
pub struct Parked<T> {
    /// Hardware state of each core. The element of the running core is stale, because its state is
    /// in the hardware's own fields.
    cores: Vec<T>,
    running: usize,
}

impl<T> Default for Parked<T> {
    fn default() -> Self {
        Self { cores: Vec::new(), running: 0 }
    }
}

impl<T: Clone> Parked<T> {
    /// Sets the number of cores. Each core gets a copy of `own`, the state of the running core.
    pub fn set_cores(&mut self, own: &T, cores: usize) {
        *self = Self { cores: vec![own.clone(); cores], running: 0 };
    }

    /// Makes `core` the running core: parks the state in `own` and replaces it by the state of
    /// `core`.
    ///
    /// # Panics
    /// If `core` is not less than the number of cores.
    pub fn run_on(&mut self, own: &mut T, core: usize) {
        if core != self.running {
            std::mem::swap(own, &mut self.cores[self.running]);
            std::mem::swap(own, &mut self.cores[core]);
            self.running = core;
        }
    }

    /// Parked state of the cores that are not running.
    pub fn others(&self) -> impl Iterator<Item = &T> {
        self.numbered().map(|(_, part)| part)
    }

    /// Parked state of the cores that are not running, each with its core number.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (usize, &T)> {
        let others = self.cores.iter().enumerate();
        others.filter(|(core, _)| *core != self.running)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_core_finds_its_own_part_again() {
        let (mut own, mut parked) = (vec!["new"], Parked::default());
        parked.set_cores(&own, 3);
        own.push("of 0");
        for (core, mark) in [(2, "of 2"), (1, "of 1")] {
            parked.run_on(&mut own, core);
            assert_eq!(own, ["new"]);
            own.push(mark);
        }
        parked.run_on(&mut own, 1);
        assert_eq!(own, ["new", "of 1"], "it is at work already");
        let others: Vec<_> = parked.others().map(|part| part[1]).collect();
        assert_eq!(others, ["of 0", "of 2"]);
        parked.run_on(&mut own, 0);
        assert_eq!(own, ["new", "of 0"]);
    }
}
