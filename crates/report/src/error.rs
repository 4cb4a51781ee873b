//! Error of writing a report.

/// Reason why a report cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The drawing library could not draw a figure.
    #[error("figure {figure} cannot be drawn: {problem}")]
    Drawing {
        /// Anchor of the figure on the page.
        figure: String,
        /// Error message of the drawing library.
        problem: String,
    },
}
