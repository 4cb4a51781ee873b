//! Main memory: channels of banks with open rows.
//!
//! A read pays the controller, the row (nothing if open, activation if the bank is idle,
//! precharge and activation if another row is open), the column, and a burst on the channel's
//! data bus. Each bank serves reads in the order in which they come. Writes are drained in batches
//! by real controllers, which hides their row switches; here they take bus time only. Refresh is
//! left out (about 4 % of DDR4 time).

use crate::LINE_BYTES;
use crate::config::DramConfig;
use crate::interval::Resource;
use crate::pipeline::Factor;
use crate::split::Divisor;

const NO_ROW: u64 = u64::MAX;

#[derive(Clone, Debug)]
struct Bank {
    open_row: u64,
    activated: u64,
    /// Cycle from which the bank accepts the next column command.
    free: u64,
}

/// DRAM timing in cycles of the core clock, each value rounded to the nearest cycle.
#[derive(Clone, Copy, Debug)]
struct Cycles {
    to_bank: u64,
    to_core: u64,
    precharge: u64,
    activate: u64,
    column: u64,
    row_open: u64,
    burst: u64,
}

/// Counts of main memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DramStatistics {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) row_hits: u64,
    pub(crate) row_conflicts: u64,
    pub(crate) read_cycles: u64,
}

impl DramStatistics {
    pub(crate) fn scale(&mut self, factor: &Factor) {
        let Self { reads, writes, row_hits, row_conflicts, read_cycles } = self;
        factor.scale([reads, writes, row_hits, row_conflicts, read_cycles]);
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Dram {
    banks: Vec<Bank>,
    buses: Vec<Resource>,
    channels: Divisor,
    lines_per_row: Divisor,
    banks_per_channel: Divisor,
    cycles: Cycles,
    pub(crate) statistics: DramStatistics,
}

struct Place {
    channel: usize,
    bank: usize,
    row: u64,
}

impl Dram {
    pub(crate) fn new(config: &DramConfig, frequency_ghz: f64) -> Self {
        let cycles = |ns: f64| (ns * frequency_ghz).round() as u64;
        let controller = cycles(config.controller_ns);
        let banks = config.ranks_per_channel * config.banks_per_rank;
        let burst = cycles(config.burst_ns).max(1);
        let bank = Bank { open_row: NO_ROW, activated: 0, free: 0 };
        Self {
            banks: vec![bank; (config.channels * banks) as usize],
            buses: vec![Resource::new(burst); config.channels as usize],
            channels: Divisor::new(config.channels.into()),
            lines_per_row: Divisor::new(u64::from(config.row_bytes) / LINE_BYTES),
            banks_per_channel: Divisor::new(banks.into()),
            cycles: Cycles {
                to_bank: controller / 2,
                to_core: controller - controller / 2,
                precharge: cycles(config.precharge_ns),
                activate: cycles(config.activate_ns),
                column: cycles(config.column_ns),
                row_open: cycles(config.row_open_ns),
                burst,
            },
            statistics: DramStatistics::default(),
        }
    }

    /// Cycles for which the data buses were occupied by reads and writes, summed over channels.
    pub(crate) fn bus_cycles(&self) -> u64 {
        (self.statistics.reads + self.statistics.writes) * self.cycles.burst
    }

    /// Number of memory channels.
    pub(crate) fn channels(&self) -> u64 {
        self.buses.len() as u64
    }

    /// Channel, bank and row of a line number, mapped as [`DramConfig`] says.
    fn place(&self, line: u64) -> Place {
        let (rest, channel) = self.channels.split(line);
        let (rest, _column) = self.lines_per_row.split(rest);
        let (row, bank) = self.banks_per_channel.split(rest);
        let (_, bank) = self.banks_per_channel.split(bank + row);
        let bank = self.banks_per_channel.join(channel, bank) as usize;
        Place { channel: channel as usize, bank, row }
    }

    /// Reads a line requested at cycle `now`; returns the cycle at which the data are back. Calls must come
    /// with non-decreasing `now`.
    pub(crate) fn read(&mut self, line: u64, now: u64) -> u64 {
        let place = self.place(line);
        let column = self.reach_row(&place, now + self.cycles.to_bank);
        let burst = self.cycles.burst;
        let bus = &mut self.buses[place.channel];
        let data = bus.take(column + self.cycles.column, burst, now);
        let done = data + burst + self.cycles.to_core;
        self.statistics.reads += 1;
        self.statistics.read_cycles += done - now;
        done
    }

    /// Opens the row of a line if it is not open; returns the cycle of the column command. The bank is
    /// occupied until the next column command may follow, one burst later.
    fn reach_row(&mut self, place: &Place, arrival: u64) -> u64 {
        let Cycles { precharge, activate, row_open, burst, .. } = self.cycles;
        let bank = &mut self.banks[place.bank];
        let mut start = arrival.max(bank.free);
        if bank.open_row == place.row {
            self.statistics.row_hits += 1;
        } else {
            if bank.open_row != NO_ROW {
                self.statistics.row_conflicts += 1;
                start = start.max(bank.activated + row_open) + precharge;
            }
            bank.open_row = place.row;
            bank.activated = start;
            start += activate;
        }
        bank.free = start + burst;
        start
    }

    /// Writes a line back at cycle `time`, now or later: occupies the data bus, and nothing waits for it.
    pub(crate) fn write(&mut self, line: u64, time: u64, now: u64) {
        let channel = self.channels.split(line).1 as usize;
        let burst = self.cycles.burst;
        self.buses[channel].take(time + self.cycles.to_bank, burst, now);
        self.statistics.writes += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two channels of two banks with rows of two lines; 1 cycle = 1 ns; controller 20,
    /// precharge 15, activation 14, column 13, row open 32, burst 4.
    fn dram() -> Dram {
        let config = DramConfig {
            channels: 2,
            ranks_per_channel: 1,
            banks_per_rank: 2,
            row_bytes: 128,
            controller_ns: 20.0,
            precharge_ns: 15.0,
            activate_ns: 14.0,
            column_ns: 13.0,
            row_open_ns: 32.0,
            burst_ns: 4.0,
        };
        Dram::new(&config, 1.0)
    }

    #[test]
    fn an_idle_bank_an_open_row_and_a_conflict() {
        let mut dram = dram();
        // Line = channel (2) × column (2) × bank (2) × row. Line 0: channel 0, bank 0, row 0.
        assert_eq!(dram.read(0, 0), 20 + 14 + 13 + 4);
        // Line 2: the row's other column.
        assert_eq!(dram.read(2, 1000), 1000 + 20 + 13 + 4);
        // Line 12: bank 1 + row 1 → bank 0, row 1.
        assert_eq!(dram.read(12, 2000), 2000 + 20 + 15 + 14 + 13 + 4);
        assert_eq!((dram.statistics.row_hits, dram.statistics.row_conflicts), (1, 1));
    }

    #[test]
    fn a_row_stays_open_for_its_shortest_time() {
        let mut dram = dram();
        dram.read(0, 0); // activated at 10
        // Arrives at the bank at 15; precharge only at 10 + 32 = 42.
        assert_eq!(dram.read(12, 5), 42 + 15 + 14 + 13 + 4 + 10);
    }

    #[test]
    fn banks_overlap_but_share_the_bus_and_channels_share_nothing() {
        let mut dram = dram();
        let alone = 20 + 14 + 13 + 4;
        assert_eq!(dram.read(0, 0), alone);
        assert_eq!(dram.read(4, 0), alone + 4, "bank 1 of the same channel");
        assert_eq!(dram.read(1, 0), alone, "the other channel");
    }

    #[test]
    fn a_write_to_come_delays_no_read_before_it() {
        let mut dram = dram();
        dram.write(0, 10_000, 0);
        assert_eq!(dram.read(2, 0), 20 + 14 + 13 + 4);
        // The burst of a write from 110 on; data would be there from 107 to 111.
        dram.write(0, 100, 0);
        assert_eq!(dram.read(2, 84), 114 + 4 + 10);
    }

    /// From the low end: channel, column, bank, row; the row turns the banks. Ranks are banks.
    #[test]
    fn a_line_number_holds_channel_column_bank_and_row() {
        let config = DramConfig {
            channels: 3,
            ranks_per_channel: 2,
            banks_per_rank: 3,
            row_bytes: 256,
            controller_ns: 42.0,
            precharge_ns: 30.0,
            activate_ns: 28.0,
            column_ns: 25.0,
            row_open_ns: 64.0,
            burst_ns: 0.4,
        };
        let mut dram = Dram::new(&config, 0.5);
        for (line, expected) in [(0, (0, 0, 0)), (2, (2, 12, 0)), (11, (2, 12, 0)), (12, (0, 1, 0))]
        {
            let Place { channel, bank, row } = dram.place(line);
            assert_eq!((channel, bank, row), expected, "{line}");
        }
        let (channel, bank, row) = (1, 4, 7);
        let place = dram.place(((row * 6 + bank) * 4 + 3) * 3 + channel);
        assert_eq!((place.channel, place.bank, place.row), (1, 6 + (4 + 7) % 6, 7));
        // Half a cycle a nanosecond, rounded: 12.5 cycles are 13; a burst takes one cycle at least.
        assert_eq!(dram.read(0, 0), 21 + 14 + 13 + 1);
        // Activated at 10, open until 42.
        assert_eq!(dram.read(6 * 6 * 4 * 3, 1), 42 + 15 + 14 + 13 + 1 + 11);
        assert_eq!(dram.channels(), 3);
        dram.write(1, 5, 5);
        let DramStatistics { reads, writes, row_hits, row_conflicts, read_cycles } =
            dram.statistics;
        assert_eq!((reads, writes, row_hits, row_conflicts, read_cycles), (2, 1, 0, 1, 49 + 95));
        assert_eq!(dram.bus_cycles(), 3);
    }
}
