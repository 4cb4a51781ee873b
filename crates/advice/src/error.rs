//! Errors of this crate.

/// Reason why there is no advice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdviceError {
    /// The pairs of predicted and measured effects cannot be read.
    #[error("experiments/measured/effects.toml: {0}")]
    Pairs(String),
}
