//! Share of memory that large mappings can use if some frames are retired (G §2.3, §3.3, §5.3).
//!
//! As in G, each frame is retired independently with the same probability. Results with a
//! closed form are computed. All results are also estimated by Monte Carlo simulation, whose memory
//! use does not depend on the number of samples:
//!
//! - for contiguity, 2MB pages and perforated pages, frames are retired at random, 64 to a word;
//! - for gap-tolerant superpages, availability vectors are random, and their bits are as independent as
//!   frames are: a B-block of *n* frames is usable with probability (1 − retired)ⁿ;
//! - for paired entries, Algorithm 1 runs on chunks of such vectors. Its result has no closed form.

mod bernoulli;
mod binomial;
mod contiguity;
mod design;
mod estimate;
mod storage;
mod usable_memory;
mod validity;

pub use bernoulli::Bernoulli;
use binomial::Binomial;
pub use contiguity::Contiguity;
pub use design::Design;
use estimate::{Estimate, SAMPLES, Samples, Sampling, figures};
pub use storage::Storage;
pub use usable_memory::UsableMemory;
pub use validity::Validity;
