//! Lists from plan files, with the limit of their table enforced while they are read.
//!
//! A small file can claim long lists, and each element costs more memory than bytes of the file;
//! so the limit cannot wait until the list is there.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// For `deserialize_with`: a list of at most `MAX` elements.
pub(crate) fn list<'de, D, T, const MAX: usize>(input: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    input.deserialize_seq(Bounded::<T, MAX>(PhantomData))
}

struct Bounded<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Bounded<T, MAX> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MAX} elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut input: A) -> Result<Vec<T>, A::Error> {
        // The claimed length only saves growing; what it claims is not there yet.
        let mut list = Vec::with_capacity(input.size_hint().unwrap_or(0).min(MAX).min(4096));
        while let Some(element) = input.next_element()? {
            if list.len() == MAX {
                return Err(A::Error::custom(TooLong(MAX)));
            }
            list.push(element);
        }
        Ok(list)
    }
}

struct TooLong(usize);

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a list is longer than the {} elements that are accepted",
            self.0
        )
    }
}
