//! Programs in plain Rust whose instructions become a trace.
//!
//! A program is an `async fn run` over traced [`Array`]s. It holds real contents and computes with
//! them; each load, store, operation and branch goes through a [`Tracer`], which notes the
//! instruction. Three things follow from how the program is written:
//!
//! - *Addresses of code*: each call of a [`Tracer`] or an [`Array`] in the source is an instruction
//!   of its own, or a few. Addresses are given in the order in which these lines first run, so that
//!   they do not depend on line numbers, and code that runs together lies together. A function that
//!   is called from several lines is inlined in each ([`Tracer::inlined`]), or is one piece of code.
//! - *Dependences*: what an instruction computes is a [`Value`], a number with the register that
//!   holds it; each line writes a register of its own. Whatever uses the value reads the register.
//! - *Branches*: [`Tracer::branch`] passes on what it is told, so that it stands where an `if` or
//!   `while` asks.
//!
//! Programs are asynchronous so that the reader of the trace can stop them, and only for that:
//! [`Tracer::pause`] hands a full chunk over and waits until the next one is asked for. Nothing runs
//! in parallel, and memory stays bounded as long as a program pauses in its outer loops.

mod array;
mod code;
mod source;
mod tracer;
mod value;

pub(crate) use array::{Array, Constants, Place, Space};
#[cfg(test)]
pub(crate) use source::complete;
pub(crate) use source::{Program, Running};
pub(crate) use tracer::Tracer;
pub(crate) use value::Value;
