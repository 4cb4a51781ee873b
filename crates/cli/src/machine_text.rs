//! Text that `calibrate` and `validate` share.

use perforate_host::machine::Processor;
use perforate_host::validate::Outcome;
use perforate_report::text::wrapped;

use crate::output::text_columns;

/// Widths in characters of a table's columns: a name, a measured value and further values in each line.
pub struct TableLayout {
    /// Width of the column with names, in characters.
    pub name: usize,
    /// Width of the column with measured values, in characters.
    pub measured: usize,
    /// Width of each column with further values, in characters.
    pub value: usize,
}

impl TableLayout {
    /// Formats a line of the table. A name that is too long for its column is on a line of its own.
    pub fn line<S: AsRef<str>>(
        &self,
        name: &str,
        measured: &str,
        values: impl IntoIterator<Item = S>,
    ) -> String {
        let Self { name: width, measured: measured_width, value: value_width } = *self;
        let is_short = name.chars().count() < width;
        let (above, name) =
            if is_short { (String::new(), name) } else { (format!("{name}\n"), "") };
        let mut text = format!("{above}{name:<width$}{measured:>measured_width$}");
        for value in values {
            text += &format!("{:>value_width$}", value.as_ref());
        }
        text + "\n"
    }

    /// Formats the headings of the columns of a validation.
    pub fn heading<R>(&self, outcome: &Outcome<R>, measured: &str) -> String {
        self.line("", measured, outcome.assumptions.iter().map(|assumption| assumption.name))
    }
}

/// Begins the text of a validation with the names of processor and machine, and the answer.
pub fn title<R>(outcome: &Outcome<R>, summary: &str) -> String {
    let (processor, machine) = (processor_name(&outcome.processor), &outcome.machine.name);
    let summary = wrapped("", summary, text_columns());
    format!("{processor}, predicted with {machine}\n\n{summary}")
}

/// Name of the processor; in a virtual machine, with the hypervisor.
pub fn processor_name(processor: &Processor) -> String {
    let name = if processor.name.is_empty() { "unknown processor" } else { &processor.name };
    match processor.is_virtual() {
        true => format!("{name} ({})", processor.hypervisor),
        false => name.to_owned(),
    }
}
