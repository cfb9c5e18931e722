//! JSON objects and lists, read key by key and element by element into tables.
//!
//! Deriving would read each list into a vector of its own, and would lose where a fault is. Here a
//! reader of an object says which keys it wants and takes each value as it comes; unknown keys
//! are skipped, missing and repeated ones are named.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor,
};
use vtensor::limits;

/// A reader of a JSON object.
pub(super) trait Object<'de> {
    /// What the object is, with its article.
    const WHAT: &'static str;
    /// Keys that must be there.
    const REQUIRED: &'static [&'static str];
    /// Keys that may be there.
    const OPTIONAL: &'static [&'static str] = &[];

    /// Takes the value of one of the keys above; each comes at most once.
    fn value<A: MapAccess<'de>>(&mut self, key: &'static str, map: &mut A) -> Result<(), A::Error>;

    /// Is told before a value is read, and after the last one with `None`.
    fn at(&mut self, key: Option<&'static str>);
}

/// Reads an object with its [`Object`].
pub(super) struct ObjectSeed<T>(pub(super) T);

impl<'de, T: Object<'de>> DeserializeSeed<'de> for ObjectSeed<T> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de, T: Object<'de>> Visitor<'de> for ObjectSeed<T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, a JSON object", T::WHAT)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        assert!(
            T::REQUIRED.len() + T::OPTIONAL.len() <= 32,
            "the mask holds every key"
        );
        let mut seen = 0_u32;
        while let Some(known) = map.next_key_seed(KeySeed(T::REQUIRED, T::OPTIONAL))? {
            let Some((bit, key)) = known else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if seen >> bit & 1 == 1 {
                return Err(A::Error::custom(format!(
                    "the key \"{key}\" is there twice"
                )));
            }
            seen |= 1 << bit;
            self.0.at(Some(key));
            self.0.value(key, &mut map)?;
            self.0.at(None);
        }
        let mut required = T::REQUIRED.iter().enumerate();
        match required.find(|(bit, _)| seen >> bit & 1 == 0) {
            None => Ok(()),
            Some((_, key)) => Err(A::Error::custom(format!(
                "the key \"{key}\" is missing: {} has {}",
                T::WHAT,
                T::REQUIRED.join(", ")
            ))),
        }
    }
}

/// Finds a key among known ones, without a copy of it.
struct KeySeed(&'static [&'static str], &'static [&'static str]);

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Option<(usize, &'static str)>;
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed {
    type Value = Option<(usize, &'static str)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        let mut known = self.0.iter().chain(self.1).enumerate();
        Ok(known.find_map(|(bit, &name)| (name == key).then_some((bit, name))))
    }
}

/// A reader of a JSON list.
pub(super) trait List<'de> {
    /// What the list is.
    const WHAT: &'static str;

    /// Takes the element `index`, if there is one; otherwise says `false`.
    fn element<A: SeqAccess<'de>>(&mut self, index: usize, list: &mut A) -> Result<bool, A::Error>;
}

/// Reads a list with its [`List`].
pub(super) struct ListSeed<T>(pub(super) T);

impl<'de, T: List<'de>> DeserializeSeed<'de> for ListSeed<T> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de, T: List<'de>> Visitor<'de> for ListSeed<T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", T::WHAT)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        let mut index = 0;
        while self.0.element(index, &mut list)? {
            index += 1;
        }
        Ok(())
    }
}

/// Reads a text of at most [`limits::NAME_BYTES_MAX`] bytes.
pub(super) struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = String;
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<String, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<String, E> {
        check_name(name).map_err(E::custom)?;
        Ok(name.into())
    }
}

/// Refuses names beyond the limit.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    if name.len() <= limits::NAME_BYTES_MAX {
        return Ok(());
    }
    Err(format!(
        "a name of {} bytes is longer than the {} that are accepted",
        name.len(),
        limits::NAME_BYTES_MAX
    ))
}

/// Reads one of a few words.
pub(super) struct Word<T: 'static>(pub(super) &'static [(T, &'static str)]);

impl<'de, T: Copy> DeserializeSeed<'de> for Word<T> {
    type Value = T;
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<T, D::Error> {
        json.deserialize_str(self)
    }
}

impl<T: Copy> Visitor<'_> for Word<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.0.iter().map(|(_, word)| *word).collect();
        write!(f, "one of {}", words.join(", "))
    }

    fn visit_str<E: Error>(self, found: &str) -> Result<T, E> {
        let mut words = self.0.iter();
        let known = words.find_map(|&(value, word)| (word == found).then_some(value));
        known.ok_or_else(|| E::invalid_value(Unexpected::Str(beginning(found)), &self))
    }
}

/// The beginning of a text: a long one would drown a message.
fn beginning(text: &str) -> &str {
    text.char_indices()
        .nth(40)
        .map_or(text, |(end, _)| &text[..end])
}
