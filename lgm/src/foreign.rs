//! What foreign bytes look like, so that an error can say what was found.

pub(crate) const PLAN_MAGIC: [u8; 8] = *b"\x89VTP\r\n\x1a\n";
/// What is left of the magic after a copy that changes line ends.
const PLAN_MAGIC_AS_TEXT: [u8; 7] = *b"\x89VTP\n\x1a\n";

/// Magic numbers of formats that people hand over by mistake.
const MAGICS: [(&[u8], &str); 12] = [
    (&[0x1f, 0x8b], "gzip'ed data (a trace?)"),
    (&PLAN_MAGIC, "a vTensor plan file"),
    (
        &PLAN_MAGIC_AS_TEXT,
        "a vTensor plan file that was copied as text",
    ),
    (b"\x7fELF", "an ELF program or library"),
    (b"PK\x03\x04", "a zip archive (a PyTorch checkpoint?)"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd data"),
    (b"\xfd7zXZ\x00", "xz data"),
    (b"BZh", "bzip2 data"),
    (b"\x89HDF", "an HDF5 file"),
    (&[0xef, 0xbb, 0xbf], "text with a UTF-8 byte order mark"),
    (&[0xff, 0xfe], "UTF-16 text"),
    (&[0xfe, 0xff], "UTF-16 text"),
];

/// How many bytes from the start [`looks_like`] wants to see.
pub(crate) const HEAD_BYTES: usize = 64;

/// Names what bytes look like from their first ones, `head`; all of them if there are fewer than
/// [`HEAD_BYTES`].
pub(crate) fn looks_like(head: &[u8]) -> &'static str {
    if head.is_empty() {
        return "nothing: the file is empty";
    }
    let magic = MAGICS.iter().find(|(magic, _)| head.starts_with(magic));
    if let Some((_, name)) = magic {
        return name;
    }
    let text = head.trim_ascii_start();
    match text.first() {
        None => "only blanks",
        Some(b'{') => "a JSON object (a trace?)",
        Some(b'[') => "text that begins with '[' (a JSON list?)",
        Some(b'"') => "a JSON string",
        Some(b'<') => "HTML or XML",
        Some(_)
            if head
                .iter()
                .any(|&byte| byte < b' ' && !byte.is_ascii_whitespace()) =>
        {
            "binary data"
        }
        // A character cut off by the end of `head` is no error of the text.
        Some(_) => match core::str::from_utf8(head) {
            Err(error) if error.error_len().is_some() => "binary data",
            _ => "plain text",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_it_sees() {
        for (head, name) in [
            (&b""[..], "empty"),
            (b"   \n", "blanks"),
            (b"\x1f\x8b\x08\x00", "gzip"),
            (b"  <!doctype html>", "HTML"),
            (b"[1, 2]", "list"),
            (b"hello", "plain text"),
            (b"gr\xc3\xbc\xc3", "plain text"),
            (b"a\xff\xffb", "binary"),
            (b"\x00\x01\x02", "binary"),
            (b"PK\x03\x04\x00", "zip"),
            (&PLAN_MAGIC, "plan file"),
        ] {
            let found = looks_like(head);
            assert!(found.contains(name), "{head:?}: {found}");
        }
    }
}
