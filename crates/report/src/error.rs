//! Errors of reports.

/// Reason why a report cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A figure could not be drawn as a picture.
    #[error("figure {figure} cannot be drawn: {problem}")]
    Drawing {
        /// Its anchor on the page.
        figure: String,
        /// What the library says.
        problem: String,
    },
}
