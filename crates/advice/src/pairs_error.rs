//! Error of the file of predicted and measured effects.

/// Reason why the pairs of predicted and measured effects cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("experiments/measured/effects.toml: {0}")]
pub struct PairsError(pub String);
