//! Advice on page sizes for one program.
//!
//! ```text
//! trace ─▶ areas ─▶ pieces ─▶ use and misses of each piece ─▶ gain curve ─▶ plan ─▶ verdict
//! ```
//!
//! An [`Area`] is memory that the program mapped together: the heap, a mapping, a stack. Large areas are cut
//! into [`Piece`]s, the smallest parts that advice distinguishes. One pass over the trace counts how densely
//! each piece is touched, and simulates the machine's TLBs once for every choice of one piece and one page
//! size, and for the areas with most misses as a whole. The [`GainCurve`] puts choices in order of misses
//! saved for each megabyte of additional memory, and simulates the first one, two, three … of them together.
//! The time that a plan saves is never computed from misses: it is the difference between two timed
//! simulations.
//!
//! Without a trace, samples of the processor or accessed bits can rank memory (`evidence`).

mod analysis;
mod area;
mod area_map;
mod candidates;
mod collect;
mod evidence;
mod filter;
mod gain;
mod latest_stack;
mod lru_stack;
mod marginal;
mod miss_ratio;
mod model_error;
mod page_id;
mod page_order;
mod pieces;
pub mod remedy;
mod tlbs;
mod touched;
mod verdict;

pub use analysis::{AdviceError, Analysis, AreaGain, AreaUse, Progress, analyse};
pub use area::{Area, AreaKind};
pub use evidence::{
    AccessedPlace, Place, RankedAccesses, RankedSamples, SampleError, SampledPlace, Samples,
    rank_accessed, rank_samples,
};
pub use gain::{Choice, ENOUGH, GainCurve, GainPoint};
pub use marginal::ChoiceGain;
pub use miss_ratio::{
    COUNTED_ENTRIES, MissRatioCurve, MissRatioCurves, Sampling, miss_ratio_curves,
};
pub use model_error::{EffectPair, EffectSource, ModelError, PairsError, effect_sources};
pub use page_order::PageOrder;
pub use pieces::{Piece, PieceUse};
pub use tlbs::{WalkCounts, orders_with_entries, tlb_entries};
pub use touched::TouchedRegions;
pub use verdict::{Outcome, speed_of};
