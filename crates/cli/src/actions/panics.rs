//! Conversion of panics to failures, for callers that must not unwind.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Failure;

/// Runs `job` and converts a panic, which is always a bug, to a failure.
///
/// # Errors
/// Those of the job, or [`Failure::Internal`].
pub fn catching<T>(job: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let outcome = catch_unwind(AssertUnwindSafe(job));
    outcome.unwrap_or_else(|panic| Err(Failure::Internal(words(&*panic).to_owned())))
}

/// Returns the message of a panic's payload.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_failure_with_its_words() {
        assert_eq!(catching(|| Ok(7)).unwrap(), 7);
        let usage = || -> Result<(), Failure> { Err(Failure::Usage("wrong".into())) };
        assert_eq!(catching(usage).unwrap_err().exit_code(), 2);
        let place = std::hint::black_box(9);
        let failure = catching(|| Ok([1, 2][place])).unwrap_err();
        assert_eq!(failure.exit_code(), 1);
        let text = failure.to_string();
        assert!(text.starts_with("a mistake in perforate itself: index out of bounds"), "{text}");
    }
}
