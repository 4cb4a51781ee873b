//! Share of memory that large mappings can use if some frames are retired (G §2.3, §3.3, §5.3).
//!
//! The model is G's: each frame is retired independently with the same probability. Results with a
//! closed form are computed. All results are also estimated by Monte Carlo simulation, whose memory
//! use does not depend on the number of samples:
//!
//! - contiguity, 2MB pages and perforated pages draw frames, 64 to a word;
//! - gap-tolerant superpages draw availability vectors, whose bits are as independent as frames
//!   are: a B-block of *n* frames is usable with probability (1 − retired)ⁿ;
//! - paired entries run Algorithm 1 on chunks of such vectors. It has no closed form.

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
