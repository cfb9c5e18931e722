//! Rust text without what is not code: comments, literals, items that only tests see.
//!
//! Guarantees: lines and columns stay where they are, so that problems are reported in place.

/// The text with every comment and every string or character literal as blanks.
pub(crate) fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let len = comment(&chars[at..]).or_else(|| literal(&chars, at));
        match len {
            Some(len) => {
                let end = chars.len().min(at + len);
                code.extend(
                    chars[at..end]
                        .iter()
                        .map(|&c| if c == '\n' { c } else { ' ' }),
                );
                at = end;
            }
            None => {
                code.push(chars[at]);
                at += 1;
            }
        }
    }
    code
}

/// The length of the comment that begins here.
fn comment(chars: &[char]) -> Option<usize> {
    if chars.starts_with(&['/', '/']) {
        return Some(chars.iter().position(|&c| c == '\n').unwrap_or(chars.len()));
    }
    if !chars.starts_with(&['/', '*']) {
        return None;
    }
    let (mut depth, mut at) = (0_usize, 0);
    while at < chars.len() {
        if chars[at..].starts_with(&['/', '*']) {
            depth += 1;
            at += 2;
        } else if chars[at..].starts_with(&['*', '/']) {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    Some(at)
}

/// The length of the literal that begins at `at`: a string, a raw string or a character.
fn literal(chars: &[char], at: usize) -> Option<usize> {
    let here = &chars[at..];
    match here[0] {
        '"' => Some(quoted(here, '"')),
        // A quote that is no character literal begins a lifetime.
        '\'' if here.get(1) == Some(&'\\') => Some(quoted(here, '\'')),
        '\'' if here.get(2) == Some(&'\'') => Some(3),
        'r' => {
            // `r`, `br` and `cr` begin raw strings, the last letter of a name does not.
            let prefix = matches!(at.checked_sub(1).map(|i| chars[i]), Some('b' | 'c'));
            let before = at.checked_sub(1 + usize::from(prefix)).map(|i| chars[i]);
            let hashes = here[1..].iter().take_while(|&&c| c == '#').count();
            let raw = here.get(1 + hashes) == Some(&'"') && !before.is_some_and(is_word);
            raw.then(|| raw_string(here, hashes))
        }
        _ => None,
    }
}

fn quoted(chars: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < chars.len() && chars[at] != quote {
        at += 1 + usize::from(chars[at] == '\\');
    }
    at + 1
}

fn raw_string(chars: &[char], hashes: usize) -> usize {
    let mut end = vec!['"'];
    end.resize(1 + hashes, '#');
    let body = 2 + hashes;
    let rest = &chars[body.min(chars.len())..];
    let len = rest.windows(end.len()).position(|window| window == end);
    body + len.map_or(rest.len(), |len| len + end.len())
}

/// Code without the items that are marked for tests only. In: the result of [`code_only`].
pub(crate) fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut left = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(start) = rest.find(MARK) {
        left.push_str(&rest[..start]);
        let item = &rest[start..];
        let end = item_end(item, MARK.len());
        left.extend(item[..end].chars().filter(|&c| c == '\n'));
        rest = &item[end..];
    }
    left.push_str(rest);
    left
}

/// Where the item ends that begins at `from`: at its `;`, or at the brace that closes it.
fn item_end(code: &str, from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code.char_indices().skip_while(|&(at, _)| at < from) {
        match c {
            ';' if depth == 0 => return at + 1,
            '{' => depth += 1,
            '}' if depth <= 1 => return at + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// Whether a character may be part of a name.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The lines, counted from 1, on which `word` stands as a word of its own.
pub(crate) fn lines_with_word(text: &str, word: &str) -> Vec<usize> {
    let has = |line: &str| {
        line.match_indices(word).any(|(at, _)| {
            !line[..at].ends_with(is_word) && !line[at + word.len()..].starts_with(is_word)
        })
    };
    let lines = text.lines().enumerate().filter(|(_, line)| has(line));
    lines.map(|(index, _)| index + 1).collect()
}

#[test]
fn comments_and_literals_are_no_code() {
    for text in [
        "// gone",
        "//! gone",
        "/* gone /* gone */ gone */",
        "\"gone\"",
        "\"a \\\" gone\"",
        "b\"gone\"",
        "r\"gone\"",
        "r#\"a \" gone\"#",
        "br##\"a \"# gone\"##",
        "'g'",
        "'\\''",
        "\"gone\nand gone\"",
        "/* gone",
        "\"gone",
    ] {
        let code = code_only(&format!("{text}\nkept"));
        assert!(
            !code.contains("gone") && !code.contains('g'),
            "{text}: {code}"
        );
        assert_eq!(
            code.lines().count(),
            format!("{text}\nkept").lines().count()
        );
    }
    for text in ["fn f<'a>(x: &'a u8) -> &'a u8", "for r in 0..1", "str"] {
        assert_eq!(code_only(text), text);
    }
    assert_eq!(code_only("f('\"'); g(\"x\"); h"), "f(   ); g(   ); h");
}

#[test]
fn test_items_are_cut_and_others_stay() {
    let code = "a;\n#[cfg(test)]\nmod tests {\n fn f() { g(); }\n}\nb;\n#[cfg(test)]\nuse c;\nd;";
    let left = without_tests(code);
    assert!(
        left.contains("a;") && left.contains("b;") && left.contains("d;"),
        "{left}"
    );
    assert!(
        !left.contains("tests") && !left.contains('g') && !left.contains('c'),
        "{left}"
    );
    assert_eq!(left.lines().count(), code.lines().count());
}

#[test]
fn a_word_is_not_a_part_of_one() {
    assert_eq!(lines_with_word("ab\na_b a\nba", "a"), [2]);
}
