//! Identification of files that Linux on x86-64 can execute, from their first bytes. Shared by the
//! recorder and the plugin.

/// Number of bytes at the start of a file that determine its kind, as in Linux (BINPRM_BUF_SIZE).
pub const START_BYTES: u64 = 256;
/// Longest chain of scripts whose interpreters are scripts, as in Linux.
pub const MAX_INTERPRETERS: usize = 4;

const HEADER_BYTES: usize = 64;
const CLASS_64: u8 = 2;
const LITTLE_ENDIAN: u8 = 1;
const MACHINE_X86_64: u16 = 62;
const TYPE_EXECUTABLE: u16 = 2;
const TYPE_SHARED: u16 = 3;

/// A file that can be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind<'a> {
    /// An ELF program for x86-64, position-independent or not.
    Program,
    /// A script that begins with `#!`.
    Script {
        /// Path of the interpreter that the script's first line names.
        interpreter: &'a [u8],
        /// Rest of the script's first line after the interpreter, which is a single argument.
        argument: Option<&'a [u8]>,
    },
}

/// Determines the kind of a file by its first [`START_BYTES`].
///
/// # Errors
/// If the file cannot be executed: the reason, and what was expected.
pub fn identify(start: &[u8]) -> Result<FileKind<'_>, String> {
    if let Some(rest) = start.strip_prefix(b"#!") {
        let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
        let end = line.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(line.len());
        let (interpreter, argument) = (&line[..end], line[end..].trim_ascii());
        let argument = Some(argument).filter(|argument| !argument.is_empty());
        return Ok(FileKind::Script { interpreter, argument });
    }
    if !start.starts_with(b"\x7fELF") || start.len() < HEADER_BYTES {
        return Err("not a program; expected an ELF file for x86-64".into());
    }
    let number = |at: usize| u16::from_le_bytes([start[at], start[at + 1]]);
    let (kind, machine) = (number(16), number(18));
    let problem = match (start[4], start[5]) {
        (CLASS_64, LITTLE_ENDIAN) if machine != MACHINE_X86_64 => {
            &format!("a program for another machine (ELF machine {machine})")
        }
        (CLASS_64, LITTLE_ENDIAN) if matches!(kind, TYPE_EXECUTABLE | TYPE_SHARED) => {
            return Ok(FileKind::Program);
        }
        (CLASS_64, LITTLE_ENDIAN) => "an ELF file, but not a program (an object file?)",
        _ => "a program for another machine (not 64-bit little-endian)",
    };
    Err(format!("{problem}; expected one for Linux on x86-64"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(class: u8, machine: u16, kind: u16) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[..4].copy_from_slice(b"\x7fELF");
        (bytes[4], bytes[5]) = (class, LITTLE_ENDIAN);
        bytes[16..18].copy_from_slice(&kind.to_le_bytes());
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes
    }

    #[test]
    fn programs_and_other_files() {
        assert_eq!(identify(&header(2, 62, 3)), Ok(FileKind::Program));
        assert_eq!(identify(&header(2, 62, 2)), Ok(FileKind::Program));
        for (wrong, words) in [
            (header(1, 3, 2), "not 64-bit"),
            (header(2, 183, 3), "ELF machine 183"),
            (header(2, 62, 1), "object file"),
            (header(2, 62, 3)[..20].to_vec(), "not a program"),
            (b"hello".to_vec(), "not a program"),
            (Vec::new(), "not a program"),
        ] {
            let problem = identify(&wrong).unwrap_err();
            assert!(problem.contains(words), "{problem}");
        }
    }

    #[test]
    fn scripts() {
        let script = |interpreter: &'static [u8], argument: Option<&'static [u8]>| {
            Ok(FileKind::Script { interpreter, argument })
        };
        assert_eq!(identify(b"#! /bin/sh -e -u \necho"), script(b"/bin/sh", Some(b"-e -u")));
        assert_eq!(identify(b"#!/bin/sh"), script(b"/bin/sh", None));
        assert_eq!(identify(b"#!"), script(b"", None));
    }
}
