//! Environment variables of the program that the emulator would take for its own options
//! (`QEMU_PLUGIN`, `QEMU_CPU`, …).
//!
//! The variables pass through the emulator under masked names of the same length. The plugin writes the
//! real names into the program's memory before the program runs. Shared by the recorder and the plugin.

/// Prefix of the environment variables that the emulator takes for its options.
pub const NAMES: &[u8] = b"QEMU_";
/// Prefix that replaces [`NAMES`] in masked variables; no program uses it.
pub const MASKED: &[u8] = b"\x02PFT_";

/// Masks a variable (or its name) by replacing the prefix [`NAMES`], so that the emulator ignores it.
pub fn masked(variable: &[u8]) -> Vec<u8> {
    match variable.strip_prefix(NAMES) {
        Some(rest) => [MASKED, rest].concat(),
        None => variable.to_vec(),
    }
}

/// Offsets of masked variables in memory that contains consecutive strings, such as a program's environment.
pub fn masked_places(memory: &[u8]) -> Vec<usize> {
    let is_masked =
        |at: &usize| memory[*at..].starts_with(MASKED) && (*at == 0 || memory[*at - 1] == 0);
    (0..memory.len()).filter(is_masked).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_emulator_are_masked_and_found_again() {
        assert_eq!(NAMES.len(), MASKED.len());
        assert_eq!(masked(b"QEMU_CPU=a,b"), b"\x02PFT_CPU=a,b");
        assert_eq!(masked(b"PATH=QEMU_"), b"PATH=QEMU_");
        let strings =
            [&b"x=\x02PFT_"[..], &masked(b"QEMU_CPU=1"), b"y", &masked(b"QEMU_LOG="), b""];
        assert_eq!(masked_places(&strings.join(&0)), [8, 21]);
        assert!(masked_places(b"").is_empty());
    }
}
