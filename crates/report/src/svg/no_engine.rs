//! Stands for the JavaScript engine where the feature `figures` is off: none can be started.

use std::convert::Infallible;

/// An engine that does not exist.
pub(super) struct Engine(Infallible);

impl Engine {
    /// Says how to get an engine.
    pub(super) fn start() -> Result<Self, String> {
        Err(super::HOW_TO_GET_FIGURES.into())
    }

    /// Draws nothing, as there is no engine.
    pub(super) fn draw(&self, _: &str, _: u32, _: &str) -> Result<String, String> {
        match self.0 {}
    }
}
