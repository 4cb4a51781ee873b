//! Decompression by content: xz, gzip, zstd, lz4 (frames) and snappy (frames), or no compression.

use std::io::{self, BufRead, BufReader, Read};

/// Uncompressed byte stream of a trace.
pub(super) type Stream = Box<dyn BufRead + Send>;

const XZ: &[u8] = b"\xfd7zXZ\0";
const GZIP: &[u8] = b"\x1f\x8b";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";

const LZ4: &[u8] = b"\x04\x22\x4d\x18";
const SNAPPY: &[u8] = b"\xff\x06\0\0sNaP";

/// Maximum memory of the decompressors of all files of a trace together, in bytes.
const MOST_BYTES: u64 = 2 << 30;
/// Maximum memory of one file's decompressor, in bytes: eight times what `xz -9` uses.
const MOST_BYTES_OF_FILE: u64 = 512 << 20;
/// Base-2 logarithm of the largest accepted window of zstd (2²⁷ bytes), the default limit of the zstd tool.
const MOST_WINDOW_LOG: u32 = 27;

/// Decompression memory in bytes for each of `files` files, which may all be open at once.
pub(super) fn share_of_memory(files: usize) -> u64 {
    (MOST_BYTES / files.max(1) as u64).min(MOST_BYTES_OF_FILE)
}

const BUFFER_BYTES: usize = 1 << 16;

/// Decompresses `stream`, which begins with `magic`. Also returns the name of the compression. The
/// decompressor uses at most `memory_bytes`.
pub(super) fn decompress(
    stream: Stream,
    magic: &[u8],
    memory_bytes: u64,
) -> io::Result<(Stream, &'static str)> {
    let (content, name): (Box<dyn Read + Send>, _) = if magic.starts_with(XZ) {
        let flags = liblzma::stream::CONCATENATED;
        let decoder = liblzma::stream::Stream::new_stream_decoder(memory_bytes, flags)?;
        (Box::new(liblzma::bufread::XzDecoder::new_stream(stream, decoder)), "xz")
    } else if magic.starts_with(GZIP) {
        (Box::new(flate2::bufread::MultiGzDecoder::new(stream)), "gzip")
    } else if magic.starts_with(ZSTD) {
        let mut content = zstd::stream::read::Decoder::with_buffer(stream)?;
        content.window_log_max(memory_bytes.ilog2().clamp(10, MOST_WINDOW_LOG))?;
        (Box::new(content), "zstd")
    } else if magic.starts_with(LZ4) {
        (Box::new(lz4_flex::frame::FrameDecoder::new(stream)), "lz4")
    } else if magic.starts_with(SNAPPY) {
        (Box::new(snap::read::FrameDecoder::new(stream)), "snappy")
    } else {
        return Ok((stream, "none"));
    };
    Ok((Box::new(BufReader::with_capacity(BUFFER_BYTES, content)), name))
}
