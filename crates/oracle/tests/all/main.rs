//! Tests of the oracle through its public interface.

mod oracle;
