//! Replacement for the JavaScript engine in builds without the feature `figures`; it cannot be started.

use std::convert::Infallible;

/// A JavaScript engine that no build without the feature `figures` can create.
pub(super) struct Engine(Infallible);

impl Engine {
    /// Returns an error with advice on how to build with the feature `figures`.
    pub(super) fn start() -> Result<Self, String> {
        Err(super::HOW_TO_GET_FIGURES.into())
    }

    /// Draws nothing; it is never called, because there is no engine.
    pub(super) fn draw(&self, _: &str, _: u32, _: &str) -> Result<String, String> {
        match self.0 {}
    }
}
