//! Sorting with a script's comparison function, which may be inconsistent.
//!
//! Rhai's functions of these names pass the comparison to the standard library, which panics if the
//! comparison is inconsistent. They also treat an error in the comparison as an answer.

use std::cmp::Ordering;

use rhai::{Array, Dynamic, Engine, EvalAltResult, FnPtr, NativeCallContext};

/// Replaces Rhai's sort functions in a script engine by functions that accept an inconsistent comparison.
pub(crate) fn register(engine: &mut Engine) {
    for name in ["sort", "sort_by"] {
        engine.register_fn(name, |context: NativeCallContext, array: &mut Array, by: FnPtr| {
            *array = sorted(&context, array, &by)?;
            Ok::<(), Box<EvalAltResult>>(())
        });
    }
    for name in ["order", "order_by"] {
        engine.register_fn(name, |context: NativeCallContext, array: &mut Array, by: FnPtr| {
            sorted(&context, array, &by)
        });
    }
}

/// Sorts an array stably by binary insertion. If the comparison `by` is consistent, the result is
/// sorted, otherwise it is some permutation of the array.
fn sorted(
    context: &NativeCallContext<'_>,
    array: &[Dynamic],
    by: &FnPtr,
) -> Result<Array, Box<EvalAltResult>> {
    let mut sorted = Array::with_capacity(array.len());
    for item in array {
        let (mut low, mut high) = (0, sorted.len());
        while low < high {
            let middle = low.midpoint(high);
            match compared(context, by, &sorted[middle], item)? {
                Ordering::Greater => high = middle,
                Ordering::Less | Ordering::Equal => low = middle + 1,
            }
        }
        sorted.insert(low, item.clone());
    }
    Ok(sorted)
}

/// Calls the script's comparison function `by`, which must return a number less than, equal to or
/// greater than 0, or true for less.
fn compared(
    context: &NativeCallContext<'_>,
    by: &FnPtr,
    one: &Dynamic,
    other: &Dynamic,
) -> Result<Ordering, Box<EvalAltResult>> {
    let answer = by.call_raw(context, None, [one.clone(), other.clone()])?;
    match (answer.as_int(), answer.as_bool()) {
        (Ok(number), _) => Ok(number.cmp(&0)),
        (_, Ok(true)) => Ok(Ordering::Less),
        (_, Ok(false)) => Ok(Ordering::Greater),
        _ => {
            let (expected, found) = ("a number or a truth of a comparison", answer.type_name());
            let position = context.call_position();
            Err(EvalAltResult::ErrorMismatchDataType(expected.into(), found.into(), position)
                .into())
        }
    }
}
