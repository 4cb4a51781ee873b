//! Decompression by content: xz, gzip, zstd, or none.

use std::io::{self, BufRead, BufReader};

/// A byte stream to read a trace from.
pub(super) type Stream = Box<dyn BufRead + Send>;

const XZ: &[u8] = b"\xfd7zXZ\0";
const GZIP: &[u8] = b"\x1f\x8b";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";

/// Compressions that drmemtrace knows and we do not, by what their streams begin with.
const UNREADABLE: [(&[u8], &str); 2] =
    [(b"\x04\x22\x4d\x18", "lz4"), (b"\xff\x06\0\0sNaPpY", "snappy")];

/// The name of a compression that cannot be undone here.
pub(super) fn unreadable(content: &[u8]) -> Option<&'static str> {
    UNREADABLE.into_iter().find(|(start, _)| content.starts_with(start)).map(|(_, name)| name)
}

/// Most memory an .xz file may ask for: eight times what `xz -9` uses.
const XZ_MEMORY_KB: u32 = 512 << 10;

const BUFFER_BYTES: usize = 1 << 16;

/// The content of `stream`, which begins with `magic`, and the name of its compression.
pub(super) fn decompress(stream: Stream, magic: &[u8]) -> io::Result<(Stream, &'static str)> {
    if magic.starts_with(XZ) {
        let content = lzma_rust2::XzReader::new_mem_limit(stream, true, XZ_MEMORY_KB);
        Ok((Box::new(BufReader::with_capacity(BUFFER_BYTES, content)), "xz"))
    } else if magic.starts_with(GZIP) {
        let content = flate2::bufread::MultiGzDecoder::new(stream);
        Ok((Box::new(BufReader::with_capacity(BUFFER_BYTES, content)), "gzip"))
    } else if magic.starts_with(ZSTD) {
        let content = zstd::stream::read::Decoder::with_buffer(stream)?;
        Ok((Box::new(BufReader::with_capacity(BUFFER_BYTES, content)), "zstd"))
    } else {
        Ok((stream, "none"))
    }
}
