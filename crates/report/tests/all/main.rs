//! Pages and tables, as markup, as text, and in a browser.

mod advice;
mod answer;
mod answer_thresholds;
mod browser;
mod curves;
mod disturbed;
mod document;
mod experiments;
mod kept;
mod memory;
mod page;
mod pairs;
mod random_answers;
mod real;
mod records;
#[cfg(feature = "figures")]
mod saved;
mod snapshot;
mod terminal;
mod threads;
mod vocabulary;
mod why;
