//! Checks of a configuration.

use std::fmt::Display;
use std::ops::RangeInclusive;

use crate::config::{
    BranchPredictorConfig, CacheConfig, CoreConfig, DramConfig, TimingConfig, WalkerAttachment,
    WalkerConfig,
};
use crate::error::TimingError;

impl TimingConfig {
    /// Checks that each number of the configuration is possible in a machine.
    ///
    /// # Errors
    /// [`TimingError`] with the key and the valid values.
    pub fn validate(&self) -> Result<(), TimingError> {
        core(&self.core)?;
        branch_predictor(&self.branch_predictor)?;
        cache("cache.l1i", &self.cache.l1i)?;
        cache("cache.l1d", &self.cache.l1d)?;
        cache("cache.l2", &self.cache.l2)?;
        if let Some(llc) = &self.cache.llc {
            cache("cache.llc", llc)?;
        }
        if let Some(walker) = &self.cache.walker {
            cache("cache.walker", walker)?;
        }
        dram(&self.dram)?;
        walker(&self.walker)?;
        if self.walker.attach == WalkerAttachment::Llc && self.cache.llc.is_none() {
            return Err(TimingError::NoLastLevelCache);
        }
        Ok(())
    }
}

fn out_of_range(key: &str, value: impl Display, expected: impl Display) -> TimingError {
    TimingError::OutOfRange {
        key: key.to_owned(),
        value: value.to_string(),
        expected: expected.to_string(),
    }
}

fn within(key: &str, value: u32, range: RangeInclusive<u32>) -> Result<(), TimingError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(out_of_range(key, value, format_args!("{} to {}", range.start(), range.end())))
}

fn power_of_two(key: &str, value: u32) -> Result<(), TimingError> {
    within(key, value, 1..=1 << 24)?;
    if value.is_power_of_two() {
        return Ok(());
    }
    Err(out_of_range(
        key,
        value,
        format_args!("a power of two, such as {}", value.next_power_of_two()),
    ))
}

fn real(key: &str, value: f64, low: f64, high: f64) -> Result<(), TimingError> {
    if value >= low && value <= high {
        return Ok(());
    }
    Err(out_of_range(key, value, format_args!("{low} to {high}")))
}

fn core(core: &CoreConfig) -> Result<(), TimingError> {
    real("core.frequency_ghz", core.frequency_ghz, 0.1, 20.0)?;
    within("core.width", core.width, 1..=64)?;
    within("core.retire_width", core.retire_width, 1..=64)?;
    within("core.reorder_buffer_entries", core.reorder_buffer_entries, 1..=65_536)?;
    within("core.load_queue_entries", core.load_queue_entries, 1..=65_536)?;
    if let Some(entries) = core.scheduler_entries {
        within("core.scheduler_entries", entries, 1..=65_536)?;
    }
    within("core.store_queue_entries", core.store_queue_entries, 1..=65_536)?;
    within("core.fetch_queue_entries", core.fetch_queue_entries, 1..=65_536)?;
    within("core.integer_cycles", core.integer_cycles, 1..=1_000)?;
    within("core.multiply_cycles", core.multiply_cycles, 1..=1_000)?;
    within("core.divide_cycles", core.divide_cycles, 1..=1_000)?;
    within("core.float_cycles", core.float_cycles, 1..=1_000)
}

fn branch_predictor(predictor: &BranchPredictorConfig) -> Result<(), TimingError> {
    power_of_two("branch_predictor.table_entries", predictor.table_entries)?;
    within("branch_predictor.history_bits", predictor.history_bits, 0..=32)?;
    power_of_two("branch_predictor.indirect_entries", predictor.indirect_entries)?;
    within("branch_predictor.return_stack_entries", predictor.return_stack_entries, 1..=4_096)?;
    let penalty = predictor.mispredict_penalty_cycles;
    within("branch_predictor.mispredict_penalty_cycles", penalty, 0..=1_000)
}

fn cache(key: &str, cache: &CacheConfig) -> Result<(), TimingError> {
    within(&format!("{key}.ways"), cache.ways, 1..=256)?;
    within(&format!("{key}.latency_cycles"), cache.latency_cycles, 0..=10_000)?;
    within(&format!("{key}.response_cycles"), cache.response_cycles, 0..=10_000)?;
    within(&format!("{key}.mshrs"), cache.mshrs, 1..=1_024)?;
    let step_bytes = u64::from(cache.ways) * crate::LINE_BYTES;
    if cache.size_bytes == 0 || cache.size_bytes > 1 << 34 {
        let key = format!("{key}.size_bytes");
        return Err(out_of_range(
            &key,
            cache.size_bytes,
            format_args!("{step_bytes} to {}", 1u64 << 34),
        ));
    }
    if !cache.size_bytes.is_multiple_of(step_bytes) {
        return Err(TimingError::CacheSize {
            key: key.to_owned(),
            size_bytes: cache.size_bytes,
            ways: cache.ways,
            step_bytes,
        });
    }
    Ok(())
}

fn dram(dram: &DramConfig) -> Result<(), TimingError> {
    within("dram.channels", dram.channels, 1..=256)?;
    within("dram.ranks_per_channel", dram.ranks_per_channel, 1..=64)?;
    within("dram.banks_per_rank", dram.banks_per_rank, 1..=256)?;
    within("dram.row_bytes", dram.row_bytes, 64..=1 << 20)?;
    if !u64::from(dram.row_bytes).is_multiple_of(crate::LINE_BYTES) {
        return Err(out_of_range("dram.row_bytes", dram.row_bytes, "a multiple of 64"));
    }
    real("dram.controller_ns", dram.controller_ns, 0.0, 10_000.0)?;
    real("dram.precharge_ns", dram.precharge_ns, 0.0, 1_000.0)?;
    real("dram.activate_ns", dram.activate_ns, 0.0, 1_000.0)?;
    real("dram.column_ns", dram.column_ns, 0.0, 1_000.0)?;
    real("dram.row_open_ns", dram.row_open_ns, 0.0, 1_000.0)?;
    real("dram.burst_ns", dram.burst_ns, 0.01, 1_000.0)
}

fn walker(walker: &WalkerConfig) -> Result<(), TimingError> {
    within("walker.walkers", walker.walkers, 1..=256)?;
    within("walker.l2_tlb_cycles", walker.l2_tlb_cycles, 0..=1_000)?;
    within("walker.walk_cache_cycles", walker.walk_cache_cycles, 0..=1_000)?;
    if let Some(cycles) = walker.walk_cache_miss_cycles {
        within("walker.walk_cache_miss_cycles", cycles, 0..=1_000)?;
    }
    within("walker.read_overhead_cycles", walker.read_overhead_cycles, 0..=1_000)?;
    within("walker.nested_tlb_cycles", walker.nested_tlb_cycles, 0..=1_000)?;
    within("walker.segment_check_cycles", walker.segment_check_cycles, 0..=1_000)?;
    within("walker.selection_cycles", walker.selection_cycles, 0..=1_000)
}
