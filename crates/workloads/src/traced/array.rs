//! Arrays of traced programs.
//!
//! A [`Place`] knows the addresses of elements and not their values; it is for values that can be
//! computed at every read. An [`Array`] keeps its values in host memory, in any type. The `Place`
//! determines the size of an element in the traced program.

use std::ops::Range;
use std::sync::Arc;

use perforate_types::ProgramEvent;

use super::tracer::Tracer;
use super::value::Value;
use crate::source::{PAGE_BYTES, grow_heap, map_data};

/// Bytes that a store writes in the loop that fills an array: an SSE register.
const VECTOR_BYTES: u64 = 16;

/// Memory of the traced program, allocated array by array. Each array starts on a separate page.
pub(crate) struct Space {
    start: u64,
    end: u64,
    /// Addresses of the heap that grows in small steps, if there is one; all other memory is mapped at once.
    heap: Option<Range<u64>>,
}

impl Space {
    pub(crate) fn new(start: u64) -> Self {
        Self { start, end: start, heap: None }
    }

    /// Allocates blocks of the heap, which grows in small steps if `grows` is true. Its blocks are allocated one
    /// array after the other.
    pub(crate) fn heap(&mut self, count: u64, block_bytes: u64, grows: bool) -> Place {
        let place = self.place(count, block_bytes);
        if grows {
            let heap = self.heap.get_or_insert(place.start..place.start);
            assert_eq!(heap.end, place.start, "there is one heap");
            heap.end = self.end;
        }
        place
    }

    /// Makes the events that map and populate the memory: all but the heap at once, and then the heap.
    pub(crate) fn maps(&self) -> Vec<ProgramEvent> {
        let heap = self.heap.clone().unwrap_or(self.end..self.end);
        let whole = [self.start..heap.start, heap.end..self.end];
        let whole = whole.into_iter().filter(|range| !range.is_empty());
        whole.map(map_data).chain(grow_heap(heap)).collect()
    }

    pub(crate) fn place(&mut self, count: u64, element_bytes: u64) -> Place {
        let start = self.end;
        self.end += (count * element_bytes).next_multiple_of(PAGE_BYTES);
        Place { start, element_bytes, count }
    }

    pub(crate) fn array<T>(&mut self, values: Vec<T>, element_bytes: u64) -> Array<T> {
        Array { place: self.place(values.len() as u64, element_bytes), values }
    }

    pub(crate) fn constants<T>(&mut self, values: Arc<Vec<T>>, element_bytes: u64) -> Constants<T> {
        self.place(values.len() as u64, element_bytes).holding(values)
    }

    /// Number of bytes of the traced program's memory that are allocated so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.end - self.start
    }
}

/// Addresses of an array's elements in the traced program, without their values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    start: u64,
    element_bytes: u64,
    count: u64,
}

impl Place {
    /// Makes the array constant, with these values.
    pub(crate) fn holding<T>(self, values: Arc<Vec<T>>) -> Constants<T> {
        Constants { place: self, values }
    }

    /// Address of the element at `index`.
    pub(crate) fn address(&self, index: u64) -> u64 {
        debug_assert!(index < self.count);
        self.start + index * self.element_bytes
    }

    /// Records the load of the array's element at `index`. The caller has computed its contents.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn load<T>(
        &self,
        t: &mut Tracer,
        index: Value<impl Into<u64> + Copy>,
        contents: T,
    ) -> Value<T> {
        let address = self.address((*index).into());
        t.load(address, self.element_bytes, index, contents)
    }

    /// Records the store of `value` to the array's element at `index`.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn store<T>(
        &self,
        t: &mut Tracer,
        index: Value<impl Into<u64> + Copy>,
        value: Value<T>,
    ) {
        let address = self.address((*index).into());
        t.store(address, self.element_bytes, index, value);
    }

    /// Records the load of a field of the array's element at `index`: `bytes` bytes at `offset`.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn load_field<T>(
        &self,
        t: &mut Tracer,
        index: Value<impl Into<u64> + Copy>,
        (offset, bytes): (u64, u64),
        contents: T,
    ) -> Value<T> {
        debug_assert!(offset + bytes <= self.element_bytes);
        t.load(self.address((*index).into()) + offset, bytes, index, contents)
    }

    /// Records the store of a field of the array's element at `index`: `bytes` bytes at `offset`.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn store_field<T>(
        &self,
        t: &mut Tracer,
        index: Value<impl Into<u64> + Copy>,
        (offset, bytes): (u64, u64),
        value: Value<T>,
    ) {
        debug_assert!(offset + bytes <= self.element_bytes);
        t.store(self.address((*index).into()) + offset, bytes, index, value);
    }
}

/// Array that the program only reads; several runs may share its contents.
pub(crate) struct Constants<T> {
    place: Place,
    values: Arc<Vec<T>>,
}

impl<T: Copy> Constants<T> {
    /// Records the load of the array's element at `index`, and returns its value.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn load(&self, t: &mut Tracer, index: Value<impl Into<u64> + Copy>) -> Value<T> {
        self.place.load(t, index, self.values[(*index).into() as usize])
    }

    /// All values of the array, read without an access by the traced program.
    pub(crate) fn values(&self) -> &[T] {
        &self.values
    }
}

/// Array whose contents the program can change.
pub(crate) struct Array<T> {
    place: Place,
    values: Vec<T>,
}

impl<T: Copy> Array<T> {
    /// Records the load of the array's element at `index`, and returns its value.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn load(&self, t: &mut Tracer, index: Value<impl Into<u64> + Copy>) -> Value<T> {
        self.place.load(t, index, self.values[(*index).into() as usize])
    }

    /// Records the store of `value` to the array's element at `index`, and changes the element.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn store(
        &mut self,
        t: &mut Tracer,
        index: Value<impl Into<u64> + Copy>,
        value: Value<T>,
    ) {
        self.place.store(t, index, value);
        self.values[(*index).into() as usize] = *value;
    }

    /// Fills the array, in a traced loop that stores a vector of [`VECTOR_BYTES`] at a time.
    pub(crate) async fn fill(&mut self, t: &mut Tracer, value: impl Fn(usize) -> T) {
        let bytes = self.place.count * self.place.element_bytes;
        let mut offset = Value::constant(0);
        loop {
            let vector = VECTOR_BYTES.min(bytes - *offset);
            t.store(self.place.start + *offset, vector, offset, ());
            offset = t.integer(offset, *offset + vector);
            if !t.branch(*offset < bytes, offset) {
                break;
            }
            t.pause().await;
        }
        for (index, element) in self.values.iter_mut().enumerate() {
            *element = value(index);
        }
    }

    /// All values of the array, read without an access by the traced program.
    pub(crate) fn values(&self) -> &[T] {
        &self.values
    }

    /// Values of the array, for changes that are not recorded as accesses of the traced program.
    pub(crate) fn values_mut(&mut self) -> &mut [T] {
        &mut self.values
    }
}
