//! Reading, compiling and asking a script.

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

/// The variables that a function can use.
const SEEN: &str = "a function, |x| … too, sees its parameters, its own variables and constants";

/// Parts of the language that are no part of policies.
const NOT_THERE: &str = "a policy has no maps (#{…}), curry, Fn, eval, print and debug";

/// Most characters of a file's name that name its script.
const MOST_NAME: usize = 40;

/// A question of the kernel: a function that a script may define.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Which page sizes an area gets.
    OrderFor,
    /// Whether a block of which others have a part becomes a page with holes.
    WithHoles,
    /// How khugepaged makes a region of 4KB pages a 2MB page.
    Promote,
    /// Whether khugepaged brings a hole back into its 2MB page.
    Patch,
    /// Whether a page with holes becomes 4KB pages.
    Demote,
    /// Whether reclaim swaps a region out.
    Reclaim,
}

impl Question {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::OrderFor, Self::WithHoles, Self::Promote, Self::Patch, Self::Demote, Self::Reclaim];

    /// The function.
    pub const fn function(self) -> &'static str {
        self.signature().0
    }

    /// The function and the names of its parameters.
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

/// When the holes of a page with holes get their frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoleUse {
    /// There is to be no such page.
    No,
    /// With the page.
    Eager,
    /// On the first touch of each.
    Lazy,
}

/// An answer, and what it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered<T> {
    /// The answer.
    pub answer: T,
    /// Operations of the script.
    pub operations: u64,
}

/// A script that was compiled; a copy is the same one.
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
    /// The script in a file, named after it.
    ///
    /// # Errors
    /// A file that cannot be read or is no text; and as [`Self::compile`].
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

    /// The script with this text, which errors call by this name.
    ///
    /// # Errors
    /// A text that is not of the language, or that defines no function of a [`Question`].
    pub fn compile(name: &str, text: &str) -> Result<Self, ScriptError> {
        let failed = |place: Place, problem: String| ScriptError::Compile {
            script: name.into(),
            place,
            problem,
        };
        let stopped = |error: &EvalAltResult| {
            let (place, problem) = explained(error);
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
        // Functions see constants and their own variables; other names are mistakes.
        engine.set_strict_variables(true);
        let ast = engine.compile_with_scope(&constants, text);
        let ast = ast.map_err(|error| stopped(&error.into()))?;
        let defined = defined(&ast)
            .map_err(|(function, problem)| failed(Place::of_function(text, function), problem))?;
        let compiled = Compiled { name: name.into(), text: text.into(), engine, ast, defined };
        Ok(Self(Arc::new(compiled)))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Whether it answers a question.
    pub fn defines(&self, question: Question) -> bool {
        self.0.defined[question as usize]
    }

    /// The orders to be tried in an area, the largest first, out of those `offered`; `None` where the
    /// script leaves that to the kernel.
    ///
    /// # Errors
    /// If the script stops, or answers anything else.
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

    /// Whether a block becomes a page with holes; `None` as above.
    ///
    /// # Errors
    /// As [`Self::order_for`].
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

    /// The place in `ways` of the one that khugepaged takes, if it takes any; `None` as above.
    ///
    /// # Errors
    /// As [`Self::order_for`].
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

    /// Whether khugepaged patches a hole at the price of so many copies; `None` as above.
    ///
    /// # Errors
    /// As [`Self::order_for`].
    pub fn patch(&self, frames_copied: u64) -> Result<Option<Answered<bool>>, ScriptError> {
        self.ask(Question::Patch, (frames_copied as i64,), truth)
    }

    /// Whether a page with these holes becomes 4KB pages; `None` as above.
    ///
    /// # Errors
    /// As [`Self::order_for`].
    pub fn demote(&self, block: BlockFacts) -> Result<Option<Answered<bool>>, ScriptError> {
        self.ask(Question::Demote, (block,), truth)
    }

    /// Whether reclaim swaps a region out; `None` as above.
    ///
    /// # Errors
    /// As [`Self::order_for`].
    pub fn reclaim(&self, victim: VictimFacts) -> Result<Option<Answered<bool>>, ScriptError> {
        self.ask(Question::Reclaim, (victim,), truth)
    }

    /// Calls the function of a question, if the script has it. `read` takes the answer, or says what
    /// would be right.
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
            let (place, problem) = explained(&error);
            // An empty loop has no place.
            let place = place.or_else(|| Place::of_function(&self.0.text, function));
            ScriptError::Stopped { script: script(), place, function, problem }
        })?;
        match read(&answer) {
            Ok(answer) => Ok(Some(Answered { answer, operations })),
            Err(expected) => {
                let (place, found) = (Place::of_function(&self.0.text, function), written(&answer));
                Err(ScriptError::Answer { script: script(), place, function, found, expected })
            }
        }
    }
}

/// Two scripts are the same if they have the same name and text.
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

/// As results keep it: its name, what tells one text from another, and the text.
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

/// The constants that the text defines outside of functions.
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

/// Whether a constant stands in functions for its value.
fn is_plain(value: &Dynamic) -> bool {
    value.is_int() || value.is_float() || value.is_bool() || value.is_string() || value.is_char()
}

/// Which questions the script answers; or the function that is wrong, and why.
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

/// A yes or a no.
fn truth(answer: &Dynamic) -> Result<bool, String> {
    answer.as_bool().map_err(|_| "true or false".into())
}

/// An answer in few words.
fn written(answer: &Dynamic) -> String {
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

/// Where a script stopped, and why: the innermost place that is known.
fn explained(error: &EvalAltResult) -> (Place, String) {
    if let EvalAltResult::ErrorInFunctionCall(_, _, inner, position) = error {
        let (place, problem) = explained(inner);
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
        ) => format!("{}; {NOT_THERE}", bare(error)),
        EvalAltResult::ErrorTerminated(..) => {
            format!("more than {} s; expected an answer by then", MOST_TIME.as_secs())
        }
        EvalAltResult::ErrorRuntime(value, _) => format!("it threw {}", written(value)),
        EvalAltResult::ErrorVariableNotFound(..)
        | EvalAltResult::ErrorParsing(ParseErrorType::VariableUndefined(_), _) => {
            format!("{}; {SEEN}", bare(error))
        }
        _ => bare(error),
    };
    (error.position().into(), problem)
}

/// Rhai's words, on one line and without the place.
fn bare(error: &EvalAltResult) -> String {
    let text = error.to_string();
    let place = error.position();
    let text = match place.is_none() {
        true => text,
        false => text.replace(&format!(" ({place})"), ""),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
