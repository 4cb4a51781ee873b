//! Replacement for the JavaScript engine if the feature `figures` is off. It cannot be started.

use std::convert::Infallible;

/// An engine that cannot exist.
pub(super) struct Engine(Infallible);

impl Engine {
    /// Fails with advice on how to get an engine.
    pub(super) fn start() -> Result<Self, String> {
        Err(super::HOW_TO_GET_FIGURES.into())
    }

    /// Never called, as there is no engine.
    pub(super) fn draw(&self, _: &str, _: u32, _: &str) -> Result<String, String> {
        match self.0 {}
    }
}
