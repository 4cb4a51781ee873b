//! Tests of the kernel through its public interface: one binary, since linking takes longer than
//! the tests.

mod aged;
mod areas;
mod balloon;
mod buddy;
mod contiguity;
mod exhausted;
mod folios;
mod interactions;
mod khugepaged;
mod ksm;
mod linux;
mod machine;
mod memory_map;
mod modes;
mod overlay;
mod pairing;
mod perforated;
mod placement;
mod populating;
mod processes;
mod reclaim;
mod reservation;
mod segments;
mod shared;
mod snapshot;
mod storm;
mod superpages;
mod survey;
mod truth;
mod updates;
mod work;
