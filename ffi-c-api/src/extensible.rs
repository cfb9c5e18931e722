//! Structs that can grow: the first member is the size that the caller compiled with.
//!
//! In: a pointer to a struct of the caller's size. Out: one of ours, members that the caller does
//! not know as zero, which is every member's default; and the way back for structs that are
//! answered. Guarantees: members that this version does not know are refused unless they are zero,
//! so that a request is never half understood; nothing past the caller's size is read or written.

use core::mem::{MaybeUninit, size_of};
use core::ptr;

use crate::guard::failure;
use crate::status::{Status, VT_ERROR_INVALID_ARGUMENT};

/// No version will have a larger struct: a size above it is a member that was never set.
const SIZE_MAX: usize = 4096;

/// A struct of the header.
///
/// # Safety
/// `#[repr(C)]`; the first member is a `usize`, the size; every pattern of bits that C can write is
/// a value, all zeroes among them.
pub(crate) unsafe trait Extensible: Copy {
    /// Its name in the header.
    const NAME: &'static str;
    /// Its size in the first version that had it. No caller has a smaller one.
    const FIRST_SIZE: usize;
}

/// Reads a struct of the caller's. `call` names the function and its parameter, for messages.
///
/// # Safety
/// `from` is NULL or points to as many readable bytes as its first member says.
pub(crate) unsafe fn read<T: Extensible>(from: *const T, call: &str) -> Result<T, Status> {
    // SAFETY: handed on from this function's caller.
    let size = unsafe { size(from, call) }?;
    if size > size_of::<T>() {
        let rest = size - size_of::<T>();
        let end = from.wrapping_add(1).cast::<u8>();
        // SAFETY: the caller's struct has `size` bytes, of which these are the end.
        let tail = unsafe { core::slice::from_raw_parts(end, rest) };
        if let Some(at) = tail.iter().position(|&byte| byte != 0) {
            return Err(failure(
                VT_ERROR_INVALID_ARGUMENT,
                format_args!(
                    "{call}: byte {} of {} is set, this version knows {}: the application was \
                     built for a newer vTensor; take that, or leave the new members zero",
                    size_of::<T>() + at,
                    T::NAME,
                    size_of::<T>()
                ),
            ));
        }
    }
    let mut value = MaybeUninit::<T>::zeroed();
    let known = size.min(size_of::<T>());
    // SAFETY: both hold `known` bytes, and a fresh local does not overlap with the caller's.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), value.as_mut_ptr().cast(), known) };
    // SAFETY: zeroes and what C wrote are values, by the trait's contract.
    Ok(unsafe { value.assume_init() })
}

/// Writes an answer into a struct of the caller's: as much as it has room for, zeroes where it has
/// more than this version knows. Its size stays the caller's.
///
/// # Safety
/// `to` is NULL or points to as many writable bytes as its first member says.
pub(crate) unsafe fn write<T: Extensible>(to: *mut T, value: &T, call: &str) -> Result<(), Status> {
    // SAFETY: handed on from this function's caller.
    let size = unsafe { size(to, call) }?;
    let known = size.min(size_of::<T>());
    let head = size_of::<usize>();
    let from = ptr::from_ref(value).cast::<u8>().wrapping_add(head);
    let into = to.cast::<u8>().wrapping_add(head);
    // SAFETY: both structs have `known` bytes, of which the first member stays; ours is not the
    // caller's.
    unsafe { ptr::copy_nonoverlapping(from, into, known - head) };
    let rest = to.cast::<u8>().wrapping_add(known);
    // SAFETY: the caller's struct has `size` bytes.
    unsafe { rest.write_bytes(0, size - known) };
    Ok(())
}

/// The size that the caller's struct says it has.
///
/// # Safety
/// `from` is NULL or points to a readable `size_t`.
pub(crate) unsafe fn size<T: Extensible>(from: *const T, call: &str) -> Result<usize, Status> {
    if from.is_null() {
        return Err(failure(
            VT_ERROR_INVALID_ARGUMENT,
            format_args!("{call} is NULL, a {} is wanted", T::NAME),
        ));
    }
    if !from.is_aligned() {
        return Err(failure(
            VT_ERROR_INVALID_ARGUMENT,
            format_args!("{call} is not aligned as a {} is", T::NAME),
        ));
    }
    // SAFETY: not NULL and aligned; the caller promises the first member.
    let size = unsafe { from.cast::<usize>().read() };
    if size < T::FIRST_SIZE || size > SIZE_MAX {
        return Err(failure(
            VT_ERROR_INVALID_ARGUMENT,
            format_args!(
                "{call}: its size is {size}, at least {} is wanted; set it with sizeof({})",
                T::FIRST_SIZE,
                T::NAME
            ),
        ));
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A struct as of today, with one member more than at first.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Today {
        size: usize,
        first: u64,
        second: u64,
    }

    /// The same struct in a version to come.
    #[repr(C)]
    struct Tomorrow {
        today: Today,
        third: u64,
    }

    // SAFETY: plain numbers, the size first.
    unsafe impl Extensible for Today {
        const NAME: &'static str = "vt_today";
        const FIRST_SIZE: usize = 16;
    }

    fn read_today(from: *const Today) -> Result<Today, Status> {
        // SAFETY: the tests hand structs that are as large as they say.
        unsafe { read(from, "test") }
    }

    fn today(size: usize) -> Today {
        let (first, second) = (1, 2);
        Today {
            size,
            first,
            second,
        }
    }

    #[test]
    fn an_older_caller_has_defaults_and_a_newer_one_is_understood_or_refused() {
        assert_eq!(read_today(&today(16)).unwrap().second, 0);
        assert_eq!(read_today(&today(24)).unwrap(), today(24));
        let mut newer = Tomorrow {
            today: today(32),
            third: 0,
        };
        let from = ptr::from_ref(&newer).cast();
        assert_eq!(read_today(from).unwrap().second, 2);
        newer.third = 1 << 40;
        assert_eq!(
            read_today(ptr::from_ref(&newer).cast()),
            Err(VT_ERROR_INVALID_ARGUMENT)
        );
    }

    #[test]
    fn a_size_that_is_none_is_refused() {
        for size in [0, 8, 15, SIZE_MAX + 1, usize::MAX] {
            assert_eq!(
                read_today(&today(size)),
                Err(VT_ERROR_INVALID_ARGUMENT),
                "{size}"
            );
        }
        assert_eq!(read_today(ptr::null()), Err(VT_ERROR_INVALID_ARGUMENT));
        assert_eq!(
            read_today(ptr::without_provenance(4)),
            Err(VT_ERROR_INVALID_ARGUMENT)
        );
    }

    #[test]
    fn an_answer_fills_what_the_caller_has() {
        let mut wide = Tomorrow {
            today: today(32),
            third: 7,
        };
        let answer = Today {
            size: 24,
            first: 10,
            second: 20,
        };
        // SAFETY: the struct has the 32 bytes that it says.
        unsafe { write(ptr::from_mut(&mut wide).cast(), &answer, "test") }.unwrap();
        assert_eq!(
            (wide.today.size, wide.today.second, wide.third),
            (32, 20, 0)
        );
        let mut narrow = today(16);
        // SAFETY: it has more than the 16 bytes that it says.
        unsafe { write(&mut narrow, &answer, "test") }.unwrap();
        assert_eq!((narrow.size, narrow.first, narrow.second), (16, 10, 2));
    }
}
