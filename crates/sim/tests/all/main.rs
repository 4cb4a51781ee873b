//! Tests of whole systems: storms of events, closed forms, recorded traces.

mod advised;
mod bundled_traces;
mod clock_thread;
mod closed_forms;
mod context_switches;
mod energy;
mod explained;
mod layouts;
mod memory_history;
mod nested_walks;
mod notes;
mod operating_system;
mod peaks;
mod population;
mod registry;
mod runs;
mod sampled_coverage;
mod sampled_timing;
mod scripted;
mod sequences;
mod shadow_paging;
mod shadowed_mechanisms;
mod storm;
mod storms;
mod sums;
mod virtual_storm;
