//! The version as a number, `0x00MMmmpp`: comparable as it is, readable in hexadecimal.
//!
//! Its one home is the workspace's manifest; the header's copy is compared with it by a test.

use crate::guard::guard;

/// The major version.
pub const VT_VERSION_MAJOR: u32 = number(env!("CARGO_PKG_VERSION_MAJOR"));
/// The minor version.
pub const VT_VERSION_MINOR: u32 = number(env!("CARGO_PKG_VERSION_MINOR"));
/// The patch version.
pub const VT_VERSION_PATCH: u32 = number(env!("CARGO_PKG_VERSION_PATCH"));
/// The three as one number.
pub const VT_VERSION: u32 = (VT_VERSION_MAJOR << 16) | (VT_VERSION_MINOR << 8) | VT_VERSION_PATCH;

/// Reads a part of a version; a part above 255 does not fit the number and fails the build.
const fn number(text: &str) -> u32 {
    let digits = text.as_bytes();
    let mut value = 0;
    let mut next = 0;
    while next < digits.len() {
        assert!(
            digits[next].is_ascii_digit(),
            "a part of a version is a number"
        );
        value = value * 10 + (digits[next] - b'0') as u32;
        assert!(value <= 255, "a part of a version fits into 8 bits");
        next += 1;
    }
    value
}

/// The version of the library that runs, to be compared with the header's `VT_VERSION`.
#[unsafe(no_mangle)]
pub extern "C" fn vt_version() -> u32 {
    guard(0, || VT_VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_reads_back_as_the_version() {
        let [_, major, minor, patch] = vt_version().to_be_bytes();
        let text = format!("{major}.{minor}.{patch}");
        assert_eq!(
            Some(text.as_str()),
            env!("CARGO_PKG_VERSION").split('-').next()
        );
    }
}
