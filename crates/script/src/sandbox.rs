//! The script engine and its limits.

use std::cell::Cell;
use std::time::{Duration, Instant};

use rhai::packages::{
    ArithmeticPackage, BasicArrayPackage, BasicFnPackage, BasicIteratorPackage, BasicMathPackage,
    BasicStringPackage, BitFieldPackage, LogicPackage, Package,
};
use rhai::{Dynamic, Engine, OptimizationLevel};

use crate::{facts, sort};

/// Maximum size of a script, in bytes.
pub const MOST_TEXT_BYTES: u64 = 64 << 10;
/// Maximum number of operations in answering one question, as Rhai counts them: about one for each
/// value, operator and call.
pub const MOST_OPERATIONS: u64 = 20_000;
/// Maximum time for answering one question. With the size limits, a script reaches the operation
/// limit long before. The time limit only stops, with an error, a script that evades the other
/// limits. It never changes an answer.
pub(crate) const MOST_TIME: Duration = Duration::from_secs(10);
/// Number of script operations between two checks of the clock.
const CLOCK_OPERATIONS: u64 = 64;
/// Maximum depth of nested calls in a script.
pub(crate) const MOST_CALL_LEVELS: usize = 16;
/// Maximum number of variables that exist at one time in a script.
const MOST_VARIABLES: usize = 64;
/// Maximum number of functions in a script.
const MOST_FUNCTIONS: usize = 64;
/// Maximum number of bytes of a string. One operation may copy, compare, sort or print the whole string, so
/// this limit bounds the time of an operation.
pub(crate) const MOST_STRING_BYTES: usize = 512;
/// Maximum number of elements of an array, including nested arrays. It bounds the time of an operation, too.
pub(crate) const MOST_ELEMENTS: usize = 64;
/// Maximum nesting of expressions in a script, outside and inside functions.
const MOST_DEPTH: usize = 32;

/// Features of the language that scripts may not use:
/// - conversion of text to code or to a function name;
/// - curried arguments: a function has no size limit, so these would grow without bound;
/// - maps, which exceed their limit when a key is first assigned (Rhai 1.27);
/// - output, which would appear in the middle of a simulation.
const FORBIDDEN: [&str; 6] = ["eval", "Fn", "curry", "#{", "print", "debug"];

/// Count of operations and deadline of the script that answers a question on this thread.
#[derive(Clone, Copy)]
struct Work {
    operations: u64,
    /// Time at which the script is stopped; `None` if no script runs.
    deadline: Option<Instant>,
}

thread_local! {
    static WORK: Cell<Work> = const { Cell::new(Work { operations: 0, deadline: None }) };
}

/// Runs `act`, which calls scripts on this thread, with the default time limit. Returns its result
/// and the number of script operations.
pub(crate) fn bounded<T>(act: impl FnOnce() -> T) -> (T, u64) {
    bounded_by(MOST_TIME, act)
}

/// Like [`bounded`], with the time limit `most_time`.
pub(crate) fn bounded_by<T>(most_time: Duration, act: impl FnOnce() -> T) -> (T, u64) {
    WORK.set(Work { operations: 0, deadline: Some(Instant::now() + most_time) });
    let outcome = act();
    (outcome, WORK.replace(Work { operations: 0, deadline: None }).operations)
}

/// Callback of the script engine: records the number of operations that the script has executed.
/// Returns a value, which makes the engine stop the script, if its time is up.
fn on_operation(operations: u64) -> Option<Dynamic> {
    let work = Work { operations, ..WORK.get() };
    WORK.set(work);
    let looks = operations.is_multiple_of(CLOCK_OPERATIONS);
    let is_over = looks && work.deadline.is_some_and(|deadline| Instant::now() > deadline);
    is_over.then_some(Dynamic::UNIT)
}

/// Creates a script engine that can only compute. It lacks Rhai's functions for sleeping, files,
/// time and other scripts.
pub(crate) fn engine() -> Engine {
    let mut engine = Engine::new_raw();
    ArithmeticPackage::new().register_into_engine(&mut engine);
    LogicPackage::new().register_into_engine(&mut engine);
    BasicMathPackage::new().register_into_engine(&mut engine);
    BitFieldPackage::new().register_into_engine(&mut engine);
    BasicStringPackage::new().register_into_engine(&mut engine);
    BasicIteratorPackage::new().register_into_engine(&mut engine);
    BasicArrayPackage::new().register_into_engine(&mut engine);
    BasicFnPackage::new().register_into_engine(&mut engine);
    facts::register_all(&mut engine);
    sort::register(&mut engine);
    for word in FORBIDDEN {
        engine.disable_symbol(word);
    }
    engine
        .set_max_operations(MOST_OPERATIONS)
        .set_max_call_levels(MOST_CALL_LEVELS)
        .set_max_variables(MOST_VARIABLES)
        .set_max_functions(MOST_FUNCTIONS)
        .set_max_string_size(MOST_STRING_BYTES)
        .set_max_array_size(MOST_ELEMENTS)
        .set_max_expr_depths(MOST_DEPTH, MOST_DEPTH)
        .set_optimization_level(OptimizationLevel::Simple)
        .set_fail_on_invalid_map_property(true)
        .on_progress(on_operation);
    engine
}
