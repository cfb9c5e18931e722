//! The build that a library and the program that controls it must share.

/// A hash of the sources, made by the build script.
pub(crate) const STAMP: u64 = parsed(env!("CUDA_MODEL_STAMP"));

const fn parsed(text: &str) -> u64 {
    let digits = text.as_bytes();
    let (mut number, mut at) = (0_u64, 0);
    while at < digits.len() {
        number = number * 10 + (digits[at] - b'0') as u64;
        at += 1;
    }
    number
}

#[unsafe(no_mangle)]
extern "C" fn vtm_stamp() -> u64 {
    STAMP
}
