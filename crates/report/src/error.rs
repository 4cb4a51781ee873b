//! Errors of writing reports.

/// Reason why a report cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A figure could not be drawn as a picture.
    #[error("figure {figure} cannot be drawn: {problem}")]
    Drawing {
        /// Anchor of the figure on the page.
        figure: String,
        /// Error message of the drawing library.
        problem: String,
    },
}
