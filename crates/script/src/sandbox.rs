//! What a script may do, and how much of it.

use std::cell::Cell;
use std::time::{Duration, Instant};

use rhai::packages::{
    ArithmeticPackage, BasicArrayPackage, BasicFnPackage, BasicIteratorPackage, BasicMathPackage,
    BasicStringPackage, BitFieldPackage, LogicPackage, Package,
};
use rhai::{Dynamic, Engine, OptimizationLevel};

use crate::{facts, sort};

/// Longest script, in bytes.
pub const MOST_TEXT_BYTES: u64 = 64 << 10;
/// Operations of one question, as Rhai counts them: about one for each value, operator and call.
pub const MOST_OPERATIONS: u64 = 20_000;
/// Longest time of one question. Sizes are bounded so that the operations end long before: the time only
/// ends a script that found another way, with an error, and never changes an answer.
pub(crate) const MOST_TIME: Duration = Duration::from_secs(10);
/// Operations between two looks at the clock.
const CLOCK_OPERATIONS: u64 = 64;
/// Calls within calls.
pub(crate) const MOST_CALL_LEVELS: usize = 16;
/// Variables at once, and functions of a script.
const MOST_VARIABLES: usize = 64;
const MOST_FUNCTIONS: usize = 64;
/// Bytes of a string, elements of an array, those of what is within it included. One operation may copy,
/// compare, sort or print all of it, so that these bound the time of an operation.
pub(crate) const MOST_STRING_BYTES: usize = 512;
pub(crate) const MOST_ELEMENTS: usize = 64;
/// Nesting of expressions, outside and inside of functions.
const MOST_DEPTH: usize = 32;

/// Parts of the language that no policy has:
/// - text that becomes code or the name of a function;
/// - arguments that a function carries with it: functions have no size, so that these grow without bound;
/// - maps, which grow past their bound where a key is assigned for the first time (Rhai 1.27);
/// - output, which would come out of the middle of a simulation.
const FORBIDDEN: [&str; 6] = ["eval", "Fn", "curry", "#{", "print", "debug"];

/// The work on the question that is being answered on this thread.
#[derive(Clone, Copy)]
struct Work {
    operations: u64,
    /// Time at which the work is stopped.
    deadline: Option<Instant>,
}

thread_local! {
    static WORK: Cell<Work> = const { Cell::new(Work { operations: 0, deadline: None }) };
}

/// Bounds the time of `act`, which runs scripts on this thread, and counts their operations.
pub(crate) fn bounded<T>(act: impl FnOnce() -> T) -> (T, u64) {
    bounded_by(MOST_TIME, act)
}

/// As [`bounded`], with a time of the caller's.
pub(crate) fn bounded_by<T>(most_time: Duration, act: impl FnOnce() -> T) -> (T, u64) {
    WORK.set(Work { operations: 0, deadline: Some(Instant::now() + most_time) });
    let outcome = act();
    (outcome, WORK.replace(Work { operations: 0, deadline: None }).operations)
}

/// Takes note of an operation; stops the script if its time is over.
fn on_operation(operations: u64) -> Option<Dynamic> {
    let work = Work { operations, ..WORK.get() };
    WORK.set(work);
    let looks = operations.is_multiple_of(CLOCK_OPERATIONS);
    let is_over = looks && work.deadline.is_some_and(|deadline| Instant::now() > deadline);
    is_over.then_some(Dynamic::UNIT)
}

/// An engine that computes and does nothing else: what Rhai's libraries have besides (sleeping, files,
/// times, other scripts) is not in it.
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
