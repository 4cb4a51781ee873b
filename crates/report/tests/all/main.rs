//! Pages and tables, as markup, as text, and in a browser.

mod answer;
mod answer_thresholds;
mod browser;
mod document;
mod experiments;
mod memory;
mod page;
mod pairs;
mod records;
mod saved;
mod snapshot;
mod terminal;
mod vocabulary;
mod why;
