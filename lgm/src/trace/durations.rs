//! The durations of ops, by device, in whole nanoseconds.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use vtensor::limits;

use super::model::{DEVICES_MAX, Tables};
use super::object::Name;

/// The durations of one op. The first op says which devices there are, all others must agree.
pub(super) struct Durations<'a>(pub(super) &'a mut Tables, pub(super) usize);

impl<'de> DeserializeSeed<'de> for Durations<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Durations<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a duration in microseconds for each device")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        const MISSING: u64 = u64::MAX;
        let Self(tables, op) = self;
        let first = tables.durations_ns.len();
        assert_eq!(
            first,
            op * tables.devices.len(),
            "one row for each op before"
        );
        tables
            .durations_ns
            .resize(first + tables.devices.len(), MISSING);
        let mut next = 0;
        while let Some(device) = map.next_key_seed(Name)? {
            let named = |name: &String| *name == device;
            let row = match tables.devices.get(next) {
                Some(name) if named(name) => next,
                _ => match tables.devices.iter().position(named) {
                    Some(row) => row,
                    None if op == 0 && next < DEVICES_MAX => {
                        tables.devices.push(device.clone());
                        tables.durations_ns.push(MISSING);
                        next
                    }
                    None => {
                        return Err(A::Error::custom(format!(
                            "device \"{device}\" is one too many: the first op has {}",
                            tables.devices.join(", ")
                        )));
                    }
                },
            };
            let us: f64 = map.next_value()?;
            let slot = &mut tables.durations_ns[first + row];
            if *slot != MISSING {
                return Err(A::Error::custom(format!(
                    "device \"{device}\" is there twice"
                )));
            }
            *slot = quantise(us).map_err(A::Error::custom)?;
            next += 1;
        }
        let mut row = tables.durations_ns[first..].iter();
        match row.position(|&ns| ns == MISSING) {
            None => Ok(()),
            Some(device) => Err(A::Error::custom(format!(
                "the duration for device \"{}\" is missing, which the first op has",
                tables.devices[device]
            ))),
        }
    }
}

/// Microseconds to whole nanoseconds.
fn quantise(us: f64) -> Result<u64, String> {
    let ns = (us * 1e3).round();
    if !(0.0..=limits::OP_NS_MAX as f64).contains(&ns) {
        return Err(format!(
            "a duration of {us} µs is not between 0 and {} s",
            limits::OP_NS_MAX / 1_000_000_000
        ));
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Ok(ns as u64)
}
