//! What a script may do, and how much of it.

use std::cell::Cell;

use rhai::packages::{
    ArithmeticPackage, BasicArrayPackage, BasicFnPackage, BasicIteratorPackage, BasicMapPackage,
    BasicMathPackage, BasicStringPackage, BitFieldPackage, LogicPackage, Package,
};
use rhai::{Engine, OptimizationLevel};

use crate::facts;

/// Longest script, in bytes.
pub const MOST_TEXT_BYTES: u64 = 64 << 10;
/// Operations of one question, as Rhai counts them: about one for each value, operator and call.
pub const MOST_OPERATIONS: u64 = 20_000;
/// Calls within calls.
const MOST_CALL_LEVELS: usize = 16;
/// Variables at once, and functions of a script.
const MOST_VARIABLES: usize = 64;
const MOST_FUNCTIONS: usize = 64;
/// Bytes of a string, elements of an array or a map, those of what is within it included.
const MOST_STRING_BYTES: usize = 4096;
const MOST_ELEMENTS: usize = 1024;
/// Nesting of expressions, outside and inside of functions.
const MOST_DEPTH: usize = 32;

/// Words of the language that no policy has: text that becomes code, and output, which would come out
/// of the middle of a simulation.
const FORBIDDEN: [&str; 3] = ["eval", "print", "debug"];

thread_local! {
    /// Operations of the question that is being answered on this thread.
    static OPERATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Operations of what `act` asks on this thread.
pub(crate) fn count_operations<T>(act: impl FnOnce() -> T) -> (T, u64) {
    OPERATIONS.set(0);
    (act(), OPERATIONS.get())
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
    BasicMapPackage::new().register_into_engine(&mut engine);
    BasicFnPackage::new().register_into_engine(&mut engine);
    facts::register_all(&mut engine);
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
        .set_max_map_size(MOST_ELEMENTS)
        .set_max_expr_depths(MOST_DEPTH, MOST_DEPTH)
        .set_optimization_level(OptimizationLevel::Simple)
        .set_fail_on_invalid_map_property(true)
        .on_progress(|operations| {
            OPERATIONS.set(operations);
            None
        });
    engine
}
