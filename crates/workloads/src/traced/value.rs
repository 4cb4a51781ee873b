//! Values of a traced program: numbers, with the registers that hold them.

use std::ops::Deref;

use perforate_types::Register;

/// A number of a traced program, and the register that holds it (0 for a constant).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value<T> {
    number: T,
    register: Register,
}

impl<T> Value<T> {
    #[inline]
    pub(super) fn new(number: T, register: Register) -> Self {
        Self { number, register }
    }

    /// Makes a number that no instruction waits for: an immediate, or a value computed long ago.
    #[inline]
    pub(crate) fn constant(number: T) -> Self {
        Self { number, register: 0 }
    }

    /// Derives a number from the same register without an instruction: a part of the number, or the result of
    /// an addressing mode.
    #[inline]
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Value<U> {
        Value { number: change(self.number), register: self.register }
    }
}

impl<T> Deref for Value<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.number
    }
}

/// Operands of an instruction: up to two values.
pub(crate) trait Operands {
    /// Registers of the operands; 0 for unused places.
    fn registers(&self) -> [Register; 4];
}

impl Operands for () {
    #[inline]
    fn registers(&self) -> [Register; 4] {
        [0; 4]
    }
}

impl<T> Operands for Value<T> {
    #[inline]
    fn registers(&self) -> [Register; 4] {
        [self.register, 0, 0, 0]
    }
}

impl<T, U> Operands for (Value<T>, Value<U>) {
    #[inline]
    fn registers(&self) -> [Register; 4] {
        [self.0.register, self.1.register, 0, 0]
    }
}
