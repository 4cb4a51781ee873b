//! Source that runs a traced program.

use std::pin::Pin;
use std::sync::PoisonError;
use std::task::{Context, Waker};

use perforate_trace::{Source, SourceMetadata, TraceError};
use perforate_types::Chunk;

use super::tracer::{Outbox, Tracer, split};
use crate::registry::{Registered, Sourced, text_of};
use crate::source::metadata;

/// A program whose instructions can become a trace.
pub(crate) trait Program: Registered + Send {
    /// Phase that ends the program's set-up, if the program reports one.
    const SETUP_UNTIL: Option<&'static str> = None;

    /// Makes the program with its data, before its first recorded instruction.
    fn start(options: &Self::Options, seed: u64, t: &mut Tracer) -> Self;

    /// Runs the program to its end, if it has one. It must pause at least every few thousand instructions.
    fn run(&mut self, t: &mut Tracer) -> impl Future<Output = ()> + Send;
}

/// Source that runs a program as its instructions are requested. The data are created at the first request.
pub(crate) struct ProgramSource {
    metadata: SourceMetadata,
    program: Pin<Box<dyn Future<Output = ()> + Send>>,
    is_over: bool,
    outbox: Outbox,
    /// Instructions that the program recorded beyond those that were requested.
    ahead: Chunk,
}

impl<P: Program> Sourced for P {
    fn source(options: &P::Options, seed: u64) -> Box<dyn Source> {
        let outbox = Outbox::default();
        let mut tracer = Tracer::new(outbox.clone());
        let owned = options.clone();
        let program = Box::pin(async move {
            let mut program = P::start(&owned, seed, &mut tracer);
            program.run(&mut tracer).await;
            tracer.finish().await;
        });
        let metadata =
            SourceMetadata { setup_until: P::SETUP_UNTIL, ..metadata(text_of::<P>(options)) };
        let ahead = Chunk::default();
        Box::new(ProgramSource { metadata, program, is_over: false, outbox, ahead })
    }
}

impl ProgramSource {
    /// Runs the program until it fills `chunk`. Returns false if the program has ended.
    fn advance(&mut self, chunk: &mut Chunk) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        while !self.is_over {
            self.is_over = self.program.as_mut().poll(&mut context).is_ready();
            let mut outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(chunk, &mut *outbox);
            if !chunk.is_empty() {
                return true;
            }
        }
        false
    }
}

impl Source for ProgramSource {
    fn metadata(&self) -> &SourceMetadata {
        &self.metadata
    }

    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        chunk.clear();
        if self.ahead.is_empty() {
            return Ok(self.advance(chunk));
        }
        std::mem::swap(chunk, &mut self.ahead);
        Ok(true)
    }

    fn skip(&mut self, instructions: u64) -> Result<u64, TraceError> {
        let (mut chunk, mut events, mut skipped) = (Chunk::default(), Vec::new(), 0);
        while skipped < instructions && self.next_chunk(&mut chunk)? {
            let left = usize::try_from(instructions - skipped).unwrap_or(usize::MAX);
            split(&mut chunk, left, &mut self.ahead);
            skipped += chunk.instructions.len() as u64;
            events.extend(chunk.events.drain(..).map(|(_, event)| (0, event)));
        }
        events.append(&mut self.ahead.events);
        self.ahead.events = events;
        Ok(skipped)
    }
}

/// Runs a part of a program to its end, for tests of its data. Returns all its instructions.
#[cfg(test)]
pub(crate) fn complete(part: impl AsyncFnOnce(&mut Tracer)) -> Chunk {
    let outbox = Outbox::default();
    let mut tracer = Tracer::new(outbox.clone());
    let mut future = std::pin::pin!(async {
        part(&mut tracer).await;
        tracer.finish().await;
    });
    let mut all = Chunk::default();
    loop {
        let is_over = future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        let chunk = std::mem::take(&mut *outbox.lock().unwrap());
        all.append(&chunk);
        if is_over {
            return all;
        }
    }
}
