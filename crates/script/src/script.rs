//! Reading, compiling and calling scripts.

use std::fmt::{self, Debug};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use rhai::{
    AST, Array, CallFnOptions, Dynamic, Engine, EvalAltResult, FuncArgs, ParseErrorType, Scope,
};
use serde::{Serialize, Serializer};
use xxhash_rust::xxh3::xxh3_64;

use crate::ScriptError;
use crate::facts::{AreaFacts, BlockFacts, Purpose, RegionFacts, VictimFacts, WayFacts};
use crate::place::Place;
use crate::sandbox::{
    MOST_CALL_LEVELS, MOST_ELEMENTS, MOST_OPERATIONS, MOST_STRING_BYTES, MOST_TEXT_BYTES,
    MOST_TIME, bounded, engine,
};

/// Part of an error message that lists the variables that a function can use.
const VISIBLE_VARIABLES: &str =
    "a function, |x| … too, sees its parameters, its own variables and constants";

/// Part of an error message that lists the language features that scripts may not use.
const FORBIDDEN_FEATURES: &str = "a policy has no maps (#{…}), curry, Fn, eval, print and debug";

/// Maximum number of characters of a file name that become the script's name.
const MOST_NAME: usize = 40;

/// Question of the kernel to a script, which the script answers by a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Page sizes (buddy orders) to try for an area.
    OrderFor,
    /// Use of a partly occupied block: as a page with holes or not (see [`HoleUse`]).
    WithHoles,
    /// Way in which khugepaged turns a region of 4KB pages into a 2MB page.
    Promote,
    /// Question if khugepaged should move a hole's page back into its 2MB page.
    Patch,
    /// Question if a page with holes should be demoted to 4KB pages.
    Demote,
    /// Question if reclaim should swap a region out.
    Reclaim,
}

impl Question {
    /// All questions, in the order of their index.
    pub const ALL: [Self; 6] =
        [Self::OrderFor, Self::WithHoles, Self::Promote, Self::Patch, Self::Demote, Self::Reclaim];

    /// Name of the script function that answers the question.
    pub const fn function(self) -> &'static str {
        self.signature().0
    }

    /// Name of the script function that answers the question, and names of its parameters.
    const fn signature(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::OrderFor => ("order_for", &["area", "kind", "orders"]),
            Self::WithHoles => ("with_holes", &["block"]),
            Self::Promote => ("promote", &["region", "ways"]),
            Self::Patch => ("patch", &["frames_copied"]),
            Self::Demote => ("demote", &["block"]),
            Self::Reclaim => ("reclaim", &["victim"]),
        }
    }
}

/// Decision on a partly occupied block: no page with holes, or a page whose holes get frames with the page or
/// at their first touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoleUse {
    /// The block is not used for a page with holes.
    No,
    /// Frames for the holes are allocated at the same time as the page.
    Eager,
    /// The frame of each hole is allocated at the first touch of the hole.
    Lazy,
}

/// Answer of a script, and the number of operations that it executed for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered<T> {
    /// Answer of the script.
    pub answer: T,
    /// Number of operations that the script executed.
    pub operations: u64,
}

/// A compiled script. Clones share the compiled code.
#[derive(Clone)]
pub struct Script(Arc<Compiled>);

struct Compiled {
    name: String,
    text: String,
    engine: Engine,
    ast: AST,
    defined: [bool; Question::ALL.len()],
}

impl Script {
    /// Reads and compiles the script in a file. The script's name is the file name.
    ///
    /// # Errors
    /// If the file cannot be read or is not text, or as [`Self::compile`].
    pub fn read(path: &Path) -> Result<Self, ScriptError> {
        let mut bytes = Vec::new();
        let read = perforate_config::open_file(path)
            .and_then(|file| file.take(MOST_TEXT_BYTES + 1).read_to_end(&mut bytes));
        read.map_err(|source| ScriptError::Io { path: path.to_owned(), source })?;
        if bytes.len() as u64 > MOST_TEXT_BYTES {
            let most_bytes = MOST_TEXT_BYTES;
            return Err(ScriptError::TooLong { path: path.to_owned(), most_bytes });
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = 1 + good.iter().filter(|&&byte| byte == b'\n').count();
            ScriptError::NoText { path: path.to_owned(), line }
        })?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let name: String = name.chars().filter(|c| !c.is_control()).take(MOST_NAME).collect();
        Self::compile(&name, &text)
    }

    /// Compiles a script. Errors refer to it by `name`.
    ///
    /// # Errors
    /// If the text is not valid, or defines no function of a [`Question`].
    pub fn compile(name: &str, text: &str) -> Result<Self, ScriptError> {
        let failed = |place: Place, problem: String| ScriptError::Compile {
            script: name.into(),
            place,
            problem,
        };
        let stopped = |error: &EvalAltResult| {
            let (place, problem) = describe_error(error);
            failed(place, problem)
        };
        let mut engine = engine();
        let (constants, _) = bounded(|| constants(&engine, text));
        let constants = constants.map_err(|error| stopped(&error))?;
        if let Some((name, ..)) = constants.iter().find(|(.., value)| !is_plain(value)) {
            let problem = format!(
                "{name} is no number, text or truth; expected such a constant, or a function"
            );
            return Err(failed(Place::default(), problem));
        }
        // Functions see constants and their own variables; any other name is an error.
        engine.set_strict_variables(true);
        let ast = engine.compile_with_scope(&constants, text);
        let ast = ast.map_err(|error| stopped(&error.into()))?;
        let defined = defined(&ast)
            .map_err(|(function, problem)| failed(Place::of_function(text, function), problem))?;
        let compiled = Compiled { name: name.into(), text: text.into(), engine, ast, defined };
        Ok(Self(Arc::new(compiled)))
    }

    /// Name of the script in errors and results.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// True if the script defines the function that answers a question.
    pub fn defines(&self, question: Question) -> bool {
        self.0.defined[question as usize]
    }

    /// Asks the script which of the `offered` page sizes (buddy orders) to use in an area; the kernel
    /// tries the largest of them first. Returns `None` if the script does not define the function,
    /// which leaves the choice to the kernel.
    ///
    /// # Errors
    /// If the script fails or returns any other value.
    pub fn order_for(
        &self,
        area: AreaFacts,
        purpose: Purpose,
        offered: &[u32],
    ) -> Result<Option<Answered<Vec<u32>>>, ScriptError> {
        let orders: Array = offered.iter().map(|&order| i64::from(order).into()).collect();
        let arguments = (area, purpose.name(), orders);
        self.ask(Question::OrderFor, arguments, |answer| {
            let wanted = match answer.as_int() {
                Ok(order) => vec![order],
                Err(_) => answer.clone().into_typed_array::<i64>().unwrap_or_default(),
            };
            let is_offered = |order: &i64| offered.iter().any(|&known| i64::from(known) == *order);
            let is_right = !wanted.is_empty() && wanted.iter().all(is_offered);
            is_right.then(|| wanted.into_iter().map(|order| order as u32).collect()).ok_or_else(
                || {
                    let names: Vec<String> = offered.iter().map(u32::to_string).collect();
                    format!("one or several of the orders offered: {}", names.join(", "))
                },
            )
        })
    }

    /// Asks the script how to use a partly occupied block. Returns `None` if the script does not
    /// define the function.
    ///
    /// # Errors
    /// See [`Self::order_for`].
    pub fn with_holes(&self, block: BlockFacts) -> Result<Option<Answered<HoleUse>>, ScriptError> {
        self.ask(Question::WithHoles, (block,), |answer| {
            let word = answer.clone().into_immutable_string().unwrap_or_default();
            match (answer.as_bool(), word.as_str()) {
                (Ok(false), _) => Ok(HoleUse::No),
                (Ok(true), _) | (_, "eager") => Ok(HoleUse::Eager),
                (_, "lazy") => Ok(HoleUse::Lazy),
                _ => Err("true, false, \"eager\" or \"lazy\"".into()),
            }
        })
    }

    /// Asks the script which of `ways` khugepaged takes to make a 2MB page of a region. The answer
    /// is an index in `ways`, or `None` to leave the region unchanged. The outer `None` means that
    /// the script does not define the function.
    ///
    /// # Errors
    /// See [`Self::order_for`].
    pub fn promote(
        &self,
        region: RegionFacts,
        ways: &[WayFacts],
    ) -> Result<Option<Answered<Option<usize>>>, ScriptError> {
        let offered: Array = ways.iter().map(|&way| Dynamic::from(way)).collect();
        self.ask(Question::Promote, (region, offered), |answer| {
            let word = match answer.clone().try_cast::<WayFacts>() {
                Some(way) => way.name.into(),
                None => answer.clone().into_immutable_string().unwrap_or_default(),
            };
            match ways.iter().position(|way| way.name == word.as_str()) {
                None if !answer.is_unit() => {
                    let names: Vec<&str> = ways.iter().map(|way| way.name).collect();
                    Err(format!("one of the ways offered ({}) or ()", names.join(", ")))
                }
                place => Ok(place),
            }
        })
    }

    /// Asks the script if khugepaged should move a hole's page back into its 2MB page, for which it
    /// has to copy `frames_copied` frames. Returns `None` if the script does not define the
    /// function.
    ///
    /// # Errors
    /// See [`Self::order_for`].
    pub fn patch(&self, frames_copied: u64) -> Result<Option<Answered<bool>>, ScriptError> {
        self.ask(Question::Patch, (frames_copied as i64,), read_bool)
    }

    /// Asks the script if a page with these holes should be demoted to 4KB pages. Returns `None` if
    /// the script does not define the function.
    ///
    /// # Errors
    /// See [`Self::order_for`].
    pub fn demote(&self, block: BlockFacts) -> Result<Option<Answered<bool>>, ScriptError> {
        self.ask(Question::Demote, (block,), read_bool)
    }

    /// Asks the script if reclaim should swap a region out. Returns `None` if the script does not
    /// define the function.
    ///
    /// # Errors
    /// See [`Self::order_for`].
    pub fn reclaim(&self, victim: VictimFacts) -> Result<Option<Answered<bool>>, ScriptError> {
        self.ask(Question::Reclaim, (victim,), read_bool)
    }

    /// Calls the script function that answers `question`; returns `None` if the script does not
    /// define it. `read` converts the returned value, or returns a description of the permitted
    /// answers.
    fn ask<T>(
        &self,
        question: Question,
        arguments: impl FuncArgs,
        read: impl FnOnce(&Dynamic) -> Result<T, String>,
    ) -> Result<Option<Answered<T>>, ScriptError> {
        if !self.defines(question) {
            return Ok(None);
        }
        let function = question.function();
        let (result, operations) = bounded(|| {
            let options = CallFnOptions::new().eval_ast(false);
            let Compiled { engine, ast, .. } = &*self.0;
            engine.call_fn_with_options::<Dynamic>(
                options,
                &mut Scope::new(),
                ast,
                function,
                arguments,
            )
        });
        let script = || self.0.name.clone();
        let answer = result.map_err(|error| {
            let (place, problem) = describe_error(&error);
            // Rhai reports no position for an empty loop.
            let place = place.or_else(|| Place::of_function(&self.0.text, function));
            ScriptError::Stopped { script: script(), place, function, problem }
        })?;
        match read(&answer) {
            Ok(answer) => Ok(Some(Answered { answer, operations })),
            Err(expected) => {
                let (place, found) = (Place::of_function(&self.0.text, function), shorten(&answer));
                Err(ScriptError::Answer { script: script(), place, function, found, expected })
            }
        }
    }
}

/// Compares scripts by name and text.
impl PartialEq for Script {
    fn eq(&self, other: &Self) -> bool {
        (&self.0.name, &self.0.text) == (&other.0.name, &other.0.text)
    }
}

impl Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("name", &self.0.name).field("text", &self.0.text).finish()
    }
}

/// Serializes a script as its name, the hash of its text, and the text.
impl Serialize for Script {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Stored<'a> {
            name: &'a str,
            xxh3: String,
            text: Vec<&'a str>,
        }
        let xxh3 = format!("{:016x}", xxh3_64(self.0.text.as_bytes()));
        Stored { name: &self.0.name, xxh3, text: self.0.text.lines().collect() }
            .serialize(serializer)
    }
}

/// Evaluates the constants that a script's `text` defines outside functions.
fn constants(engine: &Engine, text: &str) -> Result<Scope<'static>, Box<EvalAltResult>> {
    let ast = engine.compile(text)?;
    let mut all = Scope::new();
    let _: Dynamic = engine.eval_ast_with_scope(&mut all, &ast)?;
    let mut constants = Scope::new();
    for (name, is_constant, value) in all.iter() {
        if is_constant {
            constants.push_constant_dynamic(name, value);
        }
    }
    Ok(constants)
}

/// True if the value of a script's constant can be inlined into functions.
fn is_plain(value: &Dynamic) -> bool {
    value.is_int() || value.is_float() || value.is_bool() || value.is_string() || value.is_char()
}

/// Returns a flag for each question: true if the script defines the function that answers it. The
/// error has the name of a function with wrong parameters, or no name, and the message.
fn defined(ast: &AST) -> Result<[bool; Question::ALL.len()], (&'static str, String)> {
    let mut defined = [false; Question::ALL.len()];
    for question in Question::ALL {
        let (name, parameters) = question.signature();
        let found = || ast.iter_functions().filter(|function| function.name == name);
        defined[question as usize] =
            found().any(|function| function.params.len() == parameters.len());
        if found().any(|function| function.params.len() != parameters.len()) {
            let parameters = parameters.join(", ");
            return Err((name, format!("expected the function {name}({parameters})")));
        }
    }
    if defined == [false; Question::ALL.len()] {
        let names = Question::ALL.map(Question::function).join(", ");
        return Err(("", format!("it defines no function that is asked; expected one of {names}")));
    }
    Ok(defined)
}

/// Converts a script's answer of true or false; the error describes the permitted answers.
fn read_bool(answer: &Dynamic) -> Result<bool, String> {
    answer.as_bool().map_err(|_| "true or false".into())
}

/// Converts a script's answer to a text of at most 60 characters, for error messages.
fn shorten(answer: &Dynamic) -> String {
    const MOST: usize = 60;
    let text = match answer {
        answer if answer.is_unit() => "nothing".into(),
        answer if answer.is_string() => format!("{:?}", answer.to_string()),
        answer => answer.to_string(),
    };
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Position of an error, the innermost that is known, and description of the error.
fn describe_error(error: &EvalAltResult) -> (Place, String) {
    if let EvalAltResult::ErrorInFunctionCall(_, _, inner, position) = error {
        let (place, problem) = describe_error(inner);
        return (place.or_else(|| (*position).into()), problem);
    }
    let problem = match error {
        EvalAltResult::ErrorTooManyOperations(_) => {
            format!("more than {MOST_OPERATIONS} operations; expected an answer by then")
        }
        EvalAltResult::ErrorStackOverflow(_) => {
            format!("more than {MOST_CALL_LEVELS} calls within calls")
        }
        EvalAltResult::ErrorDataTooLarge(what, _) if what.contains("string") => {
            format!("a text of more than {MOST_STRING_BYTES} bytes")
        }
        EvalAltResult::ErrorDataTooLarge(..) => {
            format!("a list of more than {MOST_ELEMENTS} elements, lists within it included")
        }
        EvalAltResult::ErrorParsing(
            ParseErrorType::PropertyExpected
            | ParseErrorType::BadInput(_)
            | ParseErrorType::Reserved(_),
            _,
        ) => format!("{}; {FORBIDDEN_FEATURES}", error_text(error)),
        EvalAltResult::ErrorTerminated(..) => {
            format!("more than {} s; expected an answer by then", MOST_TIME.as_secs())
        }
        EvalAltResult::ErrorRuntime(value, _) => format!("it threw {}", shorten(value)),
        EvalAltResult::ErrorVariableNotFound(..)
        | EvalAltResult::ErrorParsing(ParseErrorType::VariableUndefined(_), _) => {
            format!("{}; {VISIBLE_VARIABLES}", error_text(error))
        }
        _ => error_text(error),
    };
    (error.position().into(), problem)
}

/// Error message of Rhai on one line, without the position.
fn error_text(error: &EvalAltResult) -> String {
    let text = error.to_string();
    let place = error.position();
    let text = match place.is_none() {
        true => text,
        false => text.replace(&format!(" ({place})"), ""),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
