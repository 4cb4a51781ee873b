//! Escaping of texts that contain file names or other foreign input, for terminals and shells.

use std::borrow::Cow;
use std::ffi::OsStr;

/// Escapes the characters with which a text could control a terminal: control characters except line feeds
/// and tabs, and characters that reorder text. They are written as in JSON (`\u001b`), so that JSON keeps its
/// meaning.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_harmful = |c: char| is_steering(c) && !matches!(c, '\n' | '\t');
    if !text.contains(is_harmful) {
        return text.into();
    }
    let mut harmless = String::new();
    for c in text.chars() {
        match is_harmful(c) {
            true => harmless += &format!("\\u{:04x}", c as u32),
            false => harmless.push(c),
        }
    }
    harmless.into()
}

/// True for characters that change how a terminal displays other characters.
fn is_steering(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Quotes a word for a shell, on one line. Only words with control characters or invalid UTF-8 need
/// a shell that supports `$'…'`, such as bash or zsh.
pub fn quoted(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:%+@".contains(c);
    match word.to_str() {
        Some(text) if !text.is_empty() && text.chars().all(plain) => text.to_owned(),
        Some(text) if !text.contains(is_steering) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => format!("$'{}'", escaped(word)),
    }
}

/// Escapes the special bytes of a word for use in `$'…'`.
fn escaped(word: &OsStr) -> String {
    let octal = |bytes: &[u8]| bytes.iter().map(|byte| format!("\\{byte:03o}")).collect::<String>();
    let mut text = String::new();
    for chunk in word.as_encoded_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' | '\'' => text.extend(['\\', c]),
                _ if is_steering(c) => text += &octal(c.encode_utf8(&mut [0; 4]).as_bytes()),
                _ => text.push(c),
            }
        }
        text += &octal(chunk.invalid());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_written_in_letters() {
        let odd = "\u{1b}[2Jred\r\u{8}\u{9b}31m\u{7f}\u{202e}gnp\u{2066}\n\tend";
        let told = r"\u001b[2Jred\u000d\u0008\u009b31m\u007f\u202egnp\u2066";
        assert_eq!(printable(odd), format!("{told}\n\tend"));
        let json = serde_json::to_string(odd).unwrap();
        assert_eq!(serde_json::from_str::<String>(&printable(&json)).unwrap(), odd);
        let text = "Größe 64 KB → „été“ שלום 日本語 👩‍🔬 \u{200f}\n";
        assert!(matches!(printable(text), Cow::Borrowed(same) if same == text));
    }

    /// Bash passes each quoted word to a program unchanged.
    #[test]
    fn words_reach_a_program_as_they_are() {
        use std::os::unix::ffi::OsStrExt;
        let words: [&[u8]; 7] = [
            b"plain-word_1.0",
            b"",
            b"two words",
            b"it's \"$(touch pwned)\" `x` \\ $HOME ~ * \xc3\xa9",
            b"x\ntouch pwned\n#",
            b"\x1b[31m'\\\t\r\xe2\x80\xae7",
            b"\xff\xfe\n12",
        ];
        for word in words {
            let text = quoted(OsStr::from_bytes(word));
            assert!(!text.contains(is_steering), "{text:?}");
            let mut bash = std::process::Command::new("bash");
            let told = bash.args(["-c", &format!("printf '<%s>' {text} end")]).output().unwrap();
            assert_eq!(told.stdout, [&b"<"[..], word, b"><end>"].concat(), "{text}");
        }
    }
}
