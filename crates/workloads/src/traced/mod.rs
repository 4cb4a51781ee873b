//! Programs in Rust whose instructions become a trace.
//!
//! A program is an `async fn run` over traced [`Array`]s. It computes with real contents. Each load,
//! store, operation and branch goes through a [`Tracer`], which records the instruction. Three
//! properties follow from the form of the program:
//!
//! - *Code addresses*: each call of a [`Tracer`] or an [`Array`] in the source is one instruction or a
//!   few. Addresses are assigned in the order in which these lines first run. So they do not depend on
//!   line numbers, and code that runs together has neighbouring addresses. A function that is called
//!   from several lines is either inlined at each ([`Tracer::inlined`]) or has one piece of code.
//! - *Dependences*: the result of an instruction is a [`Value`], a number with the register that holds
//!   it. Each line writes its own register. An instruction that uses the value reads the register.
//! - *Branches*: [`Tracer::branch`] returns its condition, so it can be the condition of an `if` or
//!   `while`.
//!
//! Programs are asynchronous only so that the reader of the trace can suspend them: [`Tracer::pause`]
//! hands over a full chunk and waits until the next one is requested. Nothing runs in parallel. Memory
//! stays bounded if a program pauses in its outer loops.

mod array;
mod code;
mod source;
mod tracer;
mod value;

pub(crate) use array::{Array, Constants, Place, Space};
pub(crate) use source::Program;
#[cfg(test)]
pub(crate) use source::complete;
pub(crate) use tracer::Tracer;
pub(crate) use value::Value;
