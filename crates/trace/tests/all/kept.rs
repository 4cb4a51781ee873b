//! Contents that readers find in sample traces, cut and changed ones among them, and bytes that writers make,
//! compared with `tests/kept.txt`. Round trips do not notice a change that reader and writer share.

use std::fmt::Write;

use perforate_kept::{self as kept, TextHash};
use perforate_trace::{
    Compression, ConcurrentPrograms, ForeignWriter, InterleavedThreads, SharedOut, Source,
    TraceFormat, open_bytes,
};
use perforate_types::Chunk;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use crate::common::{any_chunk, read_all, samples, write_all};
use crate::threads::{given, runs};

/// Number of chunks, and of groups of threads, that are drawn.
const DRAWN: u8 = 12;

/// The value that a strategy draws with this seed.
fn drawn<S: Strategy>(strategy: S, seed: u8) -> S::Value {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), rng);
    strategy.new_tree(&mut runner).expect("nothing is rejected").current()
}

/// All that a reader says of a trace: what it knows at the beginning, the contents, and the error. The first
/// `skipped` instructions are skipped.
fn reading(name: &str, bytes: Vec<u8>, skipped: u64) -> String {
    let mut source = match open_bytes(name, bytes) {
        Ok(source) => source,
        Err(error) => return error.to_string(),
    };
    let skipped = source.skip(skipped).map_err(|error| error.to_string());
    let metadata = format!("{:?} {skipped:?}", source.metadata());
    let (chunk, error) = read_all(&mut *source);
    let (accesses, instructions) = (chunk.accesses.len(), chunk.instructions.len());
    let error = error.map(|error| error.to_string());
    format!("{instructions} {accesses} {error:?} {metadata} {chunk:?}")
}

/// Cut and changed copies of a trace, with the place of the change.
fn damaged(bytes: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let cut = (0..16).map(|part| ("cut", bytes[..bytes.len() * part / 16].to_vec()));
    let changed = (0..64).map(|number: usize| {
        let mut changed = bytes.to_vec();
        let place = number * 7919 % bytes.len();
        changed[place] =
            [changed[place].wrapping_add(1), changed[place] ^ 0x10, 0, 0xff][number % 4];
        ("changed", changed)
    });
    cut.chain(changed).collect()
}

fn whole(source: &mut dyn Source) -> Chunk {
    let (chunk, error) = read_all(source);
    assert!(error.is_none(), "{error:?}");
    chunk
}

/// Bytes, summary and losses of a chunk in a foreign format; the error if the format has no writer.
fn written(chunk: &Chunk, format: TraceFormat) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let file = std::fs::File::create(&path).unwrap();
    let writer = ForeignWriter::on(file, &path, format, Compression::None, 3);
    let result = writer.and_then(|mut writer| {
        writer.write_chunk(chunk)?;
        writer.finish()
    });
    let result = result.map_err(|error| error.to_string().replace(path.to_str().unwrap(), "out"));
    format!("{result:?} {:?}", std::fs::read(path))
}

#[test]
fn readers_and_writers_are_as_they_were() {
    let mut kept = String::new();
    let mut add = |name: &str, text: &str| {
        writeln!(kept, "{name} {}", TextHash::of(text)).unwrap();
    };
    for (name, bytes) in samples::all() {
        let format = if name == "list.csv" { "csv" } else { name.split('.').next().unwrap() };
        let name = format!("{format}:{name}");
        for skipped in [0, 1, 5, 1000] {
            add(&format!("{name} skip {skipped}"), &reading(&name, bytes.clone(), skipped));
        }
        let mut readings = [("cut", String::new()), ("changed", String::new())];
        for (number, (how, damaged)) in damaged(&bytes).into_iter().enumerate() {
            readings[usize::from(how == "changed")].1 +=
                &reading(&name, damaged, number as u64 % 3);
        }
        for (how, text) in readings {
            add(&format!("{name} {how}"), &text);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..DRAWN {
        let chunk = drawn(any_chunk(), seed);
        for chunk_instructions in [3, 50, 1000] {
            let path = folder.path().join("a.trace");
            write_all(&path, &chunk, chunk_instructions);
            let bytes = std::fs::read(&path).unwrap();
            add(&format!("perforate {seed} of {chunk_instructions}"), &format!("{bytes:?}"));
        }
        for format in TraceFormat::ALL {
            add(&format!("{} {seed}", format.name()), &written(&chunk, format));
        }
        let (one, other) = (drawn(runs(), seed), drawn(runs(), 100 + seed));
        for window in [1, 700, u64::MAX] {
            let together = whole(&mut InterleavedThreads::new(given(&one), window));
            add(&format!("threads {seed} in {window}"), &format!("{together:?}"));
        }
        let both: Vec<Box<dyn Source>> = vec![Box::new(given(&one)), Box::new(given(&other))];
        add(
            &format!("programs {seed}"),
            &format!("{:?}", whole(&mut ConcurrentPrograms::new(both))),
        );
        let shared = whole(&mut SharedOut::new(given(&one), 1 + u16::from(seed) % 4));
        add(&format!("shared {seed}"), &format!("{shared:?}"));
    }
    kept::compare(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kept.txt"), &kept);
}
