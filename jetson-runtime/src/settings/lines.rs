//! `option = value`, line by line: the part of TOML that settings need.
//!
//! In: a text. Out: keys and values as text, with their lines, or the first line that is wrong.
//! Guarantees: what is accepted is TOML, and TOML gives it the same meaning. Limits: bare keys once
//! each; values are whole numbers, `true`, `false`, and texts in one line, without escapes other
//! than `\"` and `\\`. A crate for all of TOML would take a tenth of the C library.
//!
//! Source: the specification of TOML 1.0.

/// Digits of a number that fits into the 64 bits of TOML's.
const DIGITS_MAX: usize = 18;

/// A line that sets an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Counted from 1.
    pub(super) number: usize,
    pub(super) key: String,
    pub(super) value: String,
}

/// Reads a text; an error is the number of the line, and what is wrong.
pub(super) fn read(text: &str) -> Result<Vec<Line>, (usize, String)> {
    let mut lines: Vec<Line> = Vec::new();
    for (index, text) in text.lines().enumerate() {
        let number = index + 1;
        let wrong = |what: String| (number, what);
        let text = text.trim_matches([' ', '\t']);
        if text.is_empty() || text.starts_with('#') {
            comment(text).map_err(wrong)?;
            continue;
        }
        let Some((key, rest)) = text.split_once('=') else {
            return Err(wrong(format!("`{text}` is no `option = value`")));
        };
        let key = key.trim_end_matches([' ', '\t']);
        let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if key.is_empty() || !key.chars().all(bare) {
            return Err(wrong(format!("`{key}` is no name of an option")));
        }
        if let Some(first) = lines.iter().find(|line| line.key == key) {
            let what = format!("`{key}` is set a second time, after line {}", first.number);
            return Err(wrong(what));
        }
        let (value, rest) = value(rest.trim_start_matches([' ', '\t']))
            .map_err(|what| wrong(format!("`{key}` {what}")))?;
        comment(rest.trim_start_matches([' ', '\t'])).map_err(wrong)?;
        let key = key.to_owned();
        lines.push(Line { number, key, value });
    }
    Ok(lines)
}

/// The value that a text begins with, and what follows it.
fn value(text: &str) -> Result<(String, &str), String> {
    let mut chars = text.chars();
    match chars.next() {
        Some('"') => quoted(chars.as_str()),
        Some('\'') => {
            let (value, rest) = chars
                .as_str()
                .split_once('\'')
                .ok_or("has no end: add a '")?;
            plain(value)?;
            Ok((value.to_owned(), rest))
        }
        _ => {
            let end = text.find([' ', '\t', '#']).unwrap_or(text.len());
            let (word, rest) = text.split_at(end);
            let digits = word.strip_prefix(['+', '-']).unwrap_or(word);
            let number = (1..=DIGITS_MAX).contains(&digits.len())
                && digits.bytes().all(|c| c.is_ascii_digit())
                && (digits == "0" || !digits.starts_with('0'));
            if matches!(word, "true" | "false") || number {
                Ok((word.to_owned(), rest))
            } else {
                Err(format!(
                    "is `{word}`: take a text in quotes, a whole number, or true or false"
                ))
            }
        }
    }
}

/// A text after its first quote.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let mut value = String::new();
    let mut chars = text.chars();
    loop {
        match chars.next() {
            None => return Err("has no end: add a \"".into()),
            Some('"') => break,
            Some('\\') => match chars.next() {
                Some(c @ ('"' | '\\')) => value.push(c),
                _ => return Err("has a \\ that is not before \" or \\: take '...' for it".into()),
            },
            Some(c) => value.push(c),
        }
    }
    plain(&value)?;
    Ok((value, chars.as_str()))
}

/// What may follow a value, or stand alone.
fn comment(text: &str) -> Result<(), String> {
    if !text.is_empty() && !text.starts_with('#') {
        return Err(format!(
            "`{text}` follows the value: begin a comment with #"
        ));
    }
    plain(text)
}

/// Control characters other than a tab are not TOML.
fn plain(text: &str) -> Result<(), String> {
    match text.chars().find(|&c| c.is_ascii_control() && c != '\t') {
        Some(c) => Err(format!("has the control character {c:?}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces of lines, of which some are TOML and some are not.
    const PIECES: [&str; 32] = [
        "a", "b", "c-d", "e_f", "1", "=", "=", " = ", "\t", " ", "\n", "\n", "\r\n", "\"", "\"",
        "'", "\\", "\\\"", "\\\\", "#", "# x", "0", "7", "-12", "+3", "007", "true", "false",
        "1_0", "0.5", "[a]", "\u{1}",
    ];

    #[test]
    fn what_is_accepted_is_toml_with_the_same_meaning() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let (mut accepted, mut set) = (0, 0);
        for _ in 0..200_000 {
            let mut text = String::new();
            for _ in 0..3 + state % 9 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                text.push_str(PIECES[(state >> 33) as usize % PIECES.len()]);
            }
            let Ok(lines) = read(&text) else {
                continue;
            };
            let table: toml::Table = text.parse().unwrap_or_else(|e| panic!("{text:?}: {e}"));
            assert_eq!(table.len(), lines.len(), "{text:?}");
            for line in &lines {
                let same = match &table[&line.key] {
                    toml::Value::String(text) => *text == line.value,
                    toml::Value::Integer(n) => Ok(*n) == line.value.parse(),
                    toml::Value::Boolean(yes) => yes.to_string() == line.value,
                    _ => false,
                };
                assert!(same, "{text:?}: {line:?}");
            }
            accepted += 1;
            set += lines.len();
        }
        assert!(accepted > 1000 && set > 500, "{accepted}, {set}");
    }

    #[test]
    fn lines_are_read_with_their_numbers() {
        let text = "# settings\n\na = \"x # \\\"y\\\"\"# z\r\n\tb='c:\\d'\nc = -4 # four\n d=true";
        let lines = read(text).unwrap();
        let read: Vec<_> = lines
            .iter()
            .map(|line| (line.number, line.key.as_str(), line.value.as_str()))
            .collect();
        let wanted = [
            (3, "a", "x # \"y\""),
            (4, "b", "c:\\d"),
            (5, "c", "-4"),
            (6, "d", "true"),
        ];
        assert_eq!(read, wanted);
    }
}
