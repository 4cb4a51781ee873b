//! Numbers of a traced program, with the registers that hold them.

use std::ops::Deref;

/// A number, and the register that it was written to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value<T> {
    number: T,
    written: Written,
}

/// A register as one instruction wrote it: the low byte is its number, the rest counts how often
/// all of them were written. 0: no instruction wrote it.
pub(super) type Written = u32;

impl<T> Value<T> {
    #[inline]
    pub(super) fn new(number: T, written: Written) -> Self {
        Self { number, written }
    }

    /// A number that no instruction waits for: part of the code, or long computed.
    #[inline]
    pub(crate) fn constant(number: T) -> Self {
        Self { number, written: 0 }
    }

    /// Another number from the same register: a part of it, or what an addressing mode computes
    /// without an instruction.
    #[inline]
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Value<U> {
        Value { number: change(self.number), written: self.written }
    }
}

impl<T> Deref for Value<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.number
    }
}

/// What an instruction reads: up to two values.
pub(crate) trait Operands {
    /// The registers that hold them.
    fn written(&self) -> [Written; 2];
}

impl Operands for () {
    #[inline]
    fn written(&self) -> [Written; 2] {
        [0; 2]
    }
}

impl<T> Operands for Value<T> {
    #[inline]
    fn written(&self) -> [Written; 2] {
        [self.written, 0]
    }
}

impl<T, U> Operands for (Value<T>, Value<U>) {
    #[inline]
    fn written(&self) -> [Written; 2] {
        [self.0.written, self.1.written]
    }
}
