//! The registers through which instructions wait for each other.

use crate::agenda::UNKNOWN;

/// The register that stands for none.
pub(super) const NONE: u8 = 0;
/// Registers that an instruction reads.
const SOURCES: usize = 4;

/// What is known of a register's value.
#[derive(Clone, Copy, Debug, Default)]
struct Register {
    /// When it is there.
    ready: u64,
    /// Number of the instruction that writes it, in program order.
    number: u64,
    /// That instruction's place in the window.
    writer: u32,
}

/// All registers.
#[derive(Clone, Debug)]
pub(super) struct Registers {
    list: [Register; 256],
}

/// What an instruction reads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Read {
    /// When everything known of its addresses is there.
    pub(super) addresses: u64,
    /// When everything known of its operands is there.
    pub(super) operands: u64,
    /// How far back the instructions lie that wrote its sources; 0 for none within reach.
    pub(super) producers: [u16; SOURCES],
    /// Sources of which it is not known when they are there, a bit each.
    pub(super) unknown: u8,
}

impl Registers {
    pub(super) fn new() -> Self {
        Self { list: [Register::default(); 256] }
    }

    /// The instruction with this number reads `sources`, of which `data_sources` make no address.
    #[inline]
    pub(super) fn read(&self, number: u64, sources: [u8; SOURCES], data_sources: u8) -> Read {
        let mut read = Read::default();
        for (place, &source) in sources.iter().enumerate() {
            if source == NONE {
                continue;
            }
            let source = &self.list[usize::from(source)];
            read.producers[place] = u16::try_from(number - source.number).unwrap_or(0);
            if source.ready == UNKNOWN {
                read.unknown |= 1 << place;
            } else if data_sources >> place & 1 != 0 {
                read.operands = read.operands.max(source.ready);
            } else {
                read.addresses = read.addresses.max(source.ready);
            }
        }
        read
    }

    /// The place of the instruction that writes a register.
    pub(super) fn writer(&self, register: u8) -> u32 {
        self.list[usize::from(register)].writer
    }

    /// The instruction with this number, in this place, writes `destinations`, which are there at
    /// `ready`.
    #[inline]
    pub(super) fn write(&mut self, number: u64, writer: u32, destinations: [u8; 2], ready: u64) {
        for destination in destinations {
            if destination != NONE {
                self.list[usize::from(destination)] = Register { ready, number, writer };
            }
        }
    }

    /// What the instruction in this place writes is there at `ready`. If another has written a
    /// register since, it is that one's.
    #[inline]
    pub(super) fn written(&mut self, writer: u32, destinations: [u8; 2], ready: u64) {
        for destination in destinations {
            let register = &mut self.list[usize::from(destination)];
            if register.writer == writer && register.ready == UNKNOWN {
                register.ready = ready;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses and data wait for the latest of their sources, in whatever order these stand.
    #[test]
    fn the_latest_source_counts() {
        let mut registers = Registers::new();
        for (number, register, ready) in [(1, 10, 700), (2, 11, 300), (3, 12, 500), (4, 13, 100)] {
            registers.write(number, number as u32, [register, NONE], ready);
        }
        let orders = [([10, 11, 12, 13], 0b0011), ([13, 12, 11, 10], 0b1100)];
        for (sources, data_sources) in orders {
            let read = registers.read(6, sources, data_sources);
            assert_eq!((read.addresses, read.operands, read.unknown), (500, 700, 0), "{sources:?}");
        }
        assert_eq!(registers.read(6, [10, 11, NONE, 13], 0).producers, [5, 4, 0, 2]);
        registers.write(5, 5, [12, NONE], UNKNOWN);
        let read = registers.read(6, [10, 11, 12, 13], 0b0011);
        assert_eq!((read.addresses, read.operands, read.unknown), (100, 700, 0b0100));
    }
}
