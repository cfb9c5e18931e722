//! The detail of the last failure on this thread.
//!
//! In: a sentence, written by a call that fails. Out: the same sentence as a C string. A call that
//! succeeds leaves it alone, as with `errno`: the status says whether there is anything to read.
//!
//! Guarantees: no allocation and no destructor (a fixed buffer per thread), so failing costs
//! nothing when memory is short and works while a thread ends.
//!
//! Limits: a sentence longer than [`DETAIL_BYTES_MAX`] is cut, between characters. A NUL inside it
//! is shown as `?`.

use core::cell::RefCell;
use core::ffi::c_char;
use core::fmt::{self, Write};

/// The most bytes of a detail, without the final NUL.
pub const DETAIL_BYTES_MAX: usize = 511;

struct Detail {
    text: [u8; DETAIL_BYTES_MAX + 1],
    len: usize,
}

thread_local! {
    static DETAIL: RefCell<Detail> =
        const { RefCell::new(Detail { text: [0; DETAIL_BYTES_MAX + 1], len: 0 }) };
}

impl Write for Detail {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars().map(|c| if c == '\0' { '?' } else { c }) {
            let end = self.len + c.len_utf8();
            if end > DETAIL_BYTES_MAX {
                return Err(fmt::Error);
            }
            c.encode_utf8(&mut self.text[self.len..end]);
            self.len = end;
        }
        Ok(())
    }
}

/// Replaces this thread's detail.
pub(crate) fn set(detail: fmt::Arguments<'_>) {
    DETAIL.with(|cell| {
        // Formatting `detail` may run foreign code that fails in turn and comes here again: the
        // inner detail is then dropped, the outer one is whole.
        let Ok(mut to) = cell.try_borrow_mut() else {
            return;
        };
        to.len = 0;
        // An error means that the text was cut, which is what the limit promises.
        let _ = to.write_fmt(detail);
        let len = to.len;
        to.text[len] = 0;
    });
}

/// This thread's detail, as a C string: empty if no call has failed. Valid until the next call on
/// this thread.
pub(crate) fn get() -> *const c_char {
    // `Detail` does not move for the life of its thread, and only this thread writes it.
    DETAIL.with(|cell| cell.borrow().text.as_ptr().cast::<c_char>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detail() -> String {
        DETAIL.with(|cell| {
            let detail = cell.borrow();
            assert_eq!(detail.text[detail.len], 0, "a C string ends");
            String::from_utf8(detail.text[..detail.len].to_vec()).unwrap()
        })
    }

    #[test]
    fn a_long_detail_is_cut_between_characters() {
        let long = "é".repeat(DETAIL_BYTES_MAX);
        set(format_args!("{long}"));
        assert_eq!(detail(), "é".repeat(DETAIL_BYTES_MAX / 2));
        set(format_args!("short"));
        assert_eq!(detail(), "short");
    }

    #[test]
    fn a_nul_does_not_end_the_detail() {
        set(format_args!("a{}b", '\0'));
        assert_eq!(detail(), "a?b");
    }

    #[test]
    fn each_thread_has_its_own() {
        set(format_args!("here"));
        let there = std::thread::spawn(|| {
            let before = detail();
            set(format_args!("there"));
            (before, detail())
        });
        assert_eq!(there.join().unwrap(), (String::new(), "there".to_owned()));
        assert_eq!(detail(), "here");
    }

    #[test]
    fn a_failure_while_formatting_loses_only_itself() {
        struct Nested;
        impl fmt::Display for Nested {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                set(format_args!("inner"));
                f.write_str("outer")
            }
        }
        set(format_args!("{Nested}"));
        assert_eq!(detail(), "outer");
    }
}
