//! Hardware that each core has for itself.
//!
//! One core is at work at a time: what is its own is in place, and that of the others is put aside. So
//! a core alone costs nothing more.

/// The parts of one kind of the cores that are not at work.
#[derive(Clone, Debug)]
pub struct Parked<T> {
    /// One for each core; the part of the core at work is elsewhere, and its place here means nothing.
    cores: Vec<T>,
    running: usize,
}

impl<T> Default for Parked<T> {
    fn default() -> Self {
        Self { cores: Vec::new(), running: 0 }
    }
}

impl<T: Clone> Parked<T> {
    /// There are so many cores from now on; each has what the core at work has.
    pub fn set_cores(&mut self, own: &T, cores: usize) {
        *self = Self { cores: vec![own.clone(); cores], running: 0 };
    }

    /// This core is at work from now on, and `own` becomes its part.
    ///
    /// # Panics
    /// If there are fewer cores.
    pub fn run_on(&mut self, own: &mut T, core: usize) {
        if core != self.running {
            std::mem::swap(own, &mut self.cores[self.running]);
            std::mem::swap(own, &mut self.cores[core]);
            self.running = core;
        }
    }

    /// Those of the other cores.
    pub fn others(&self) -> impl Iterator<Item = &T> {
        self.numbered().map(|(_, part)| part)
    }

    /// Hardware of the cores that are not at work, with the numbers of the cores.
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
