//! Amounts of memory. All arithmetic on sizes that come from outside is checked.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// An amount of memory, or an offset, in bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// The sum, or `None` on overflow.
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// `count` times this amount, or `None` on overflow.
    #[must_use]
    pub const fn checked_mul(self, count: u64) -> Option<Self> {
        match self.0.checked_mul(count) {
            Some(product) => Some(Self(product)),
            None => None,
        }
    }
}

impl fmt::Display for Bytes {
    /// `1536` → `1.5 KiB`, with at most two decimals; below 1 KiB, `512 B`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let power = (63 - self.0.leading_zeros()) / 10;
        let unit = UNITS[power as usize - 1];
        let hundredths = (u128::from(self.0) * 100) >> (10 * power);
        let (whole, rest) = (hundredths / 100, hundredths % 100);
        match rest {
            0 => write!(f, "{whole} {unit}"),
            r if r % 10 == 0 => write!(f, "{whole}.{} {unit}", r / 10),
            r => write!(f, "{whole}.{r:02} {unit}"),
        }
    }
}

/// Why a text is not an amount of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseBytesError {
    /// The text does not begin with a number.
    NoNumber,
    /// The unit is none of B, KiB, MiB, GiB, TiB, kB, KB, MB, GB, TB.
    UnknownUnit,
    /// The amount is negative, not finite, or above 2^63 bytes.
    OutOfRange,
}

impl fmt::Display for ParseBytesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoNumber => "an amount of memory begins with a number, as in 96MiB",
            Self::UnknownUnit => "units are B, KiB, MiB, GiB, TiB (1024) and kB, MB, GB, TB (1000)",
            Self::OutOfRange => "an amount of memory is at least 0 and below 2^63 bytes",
        })
    }
}

impl core::error::Error for ParseBytesError {}

impl FromStr for Bytes {
    type Err = ParseBytesError;

    /// Reads `4096`, `96MiB`, `1.5 GiB`, `2GB`. Fractions are rounded down to whole bytes.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let end = text
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let scale: u64 = match unit.trim() {
            "" | "B" => 1,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            "TiB" => 1 << 40,
            "kB" | "KB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "TB" => 1_000_000_000_000,
            _ if number.is_empty() => return Err(ParseBytesError::NoNumber),
            _ => return Err(ParseBytesError::UnknownUnit),
        };
        if let Ok(whole) = number.parse::<u64>() {
            let bytes = whole
                .checked_mul(scale)
                .ok_or(ParseBytesError::OutOfRange)?;
            return if bytes < 1 << 63 {
                Ok(Self(bytes))
            } else {
                Err(ParseBytesError::OutOfRange)
            };
        }
        if !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit()) {
            return Err(ParseBytesError::OutOfRange);
        }
        let amount = number
            .parse::<f64>()
            .map_err(|_| ParseBytesError::NoNumber)?
            * scale as f64;
        if !(0.0..9.2e18).contains(&amount) {
            return Err(ParseBytesError::OutOfRange);
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Ok(Self(amount as u64))
    }
}

/// The size of every page of an arena: a power of two between 4 KiB and 1 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct PageBytes(u64);

/// A page size that is not a power of two between 4 KiB and 1 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageBytesError(pub u64);

impl fmt::Display for PageBytesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a page is a power of two of bytes from 4096 to 2^30, not {}",
            self.0
        )
    }
}

impl core::error::Error for PageBytesError {}

impl PageBytes {
    /// The smallest page: the smallest system page of the supported machines.
    pub const MIN: Self = Self(4096);
    /// The largest page.
    pub const MAX: Self = Self(1 << 30);

    /// A page size, checked.
    ///
    /// # Errors
    /// If `bytes` is not a power of two between [`Self::MIN`] and [`Self::MAX`].
    pub const fn new(bytes: u64) -> Result<Self, PageBytesError> {
        if bytes.is_power_of_two() && bytes >= Self::MIN.0 && bytes <= Self::MAX.0 {
            Ok(Self(bytes))
        } else {
            Err(PageBytesError(bytes))
        }
    }

    /// The size in bytes.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// How many pages hold `bytes`.
    #[must_use]
    pub const fn pages_for(self, bytes: Bytes) -> u64 {
        bytes.0.div_ceil(self.0)
    }
}

impl TryFrom<u64> for PageBytes {
    type Error = PageBytesError;
    fn try_from(bytes: u64) -> Result<Self, Self::Error> {
        Self::new(bytes)
    }
}

impl From<PageBytes> for u64 {
    fn from(page: PageBytes) -> Self {
        page.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn reads_what_people_write() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("512 B", 512),
            ("96MiB", 96 << 20),
            ("1.5 GiB", 3 << 29),
            ("2GB", 2_000_000_000),
            ("9223372036854775807", i64::MAX as u64),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_amount() {
        for (text, error) in [
            ("", ParseBytesError::NoNumber),
            ("MiB", ParseBytesError::NoNumber),
            ("-5", ParseBytesError::NoNumber),
            ("1.2.3", ParseBytesError::NoNumber),
            ("5 parsecs", ParseBytesError::UnknownUnit),
            ("9223372036854775808", ParseBytesError::OutOfRange),
            ("99999999999999999999999", ParseBytesError::OutOfRange),
            ("9999999999 TiB", ParseBytesError::OutOfRange),
        ] {
            assert_eq!(text.parse::<Bytes>(), Err(error), "{text}");
        }
    }

    #[test]
    fn prints_units() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (1 << 20, "1 MiB"),
            (1_063_246_000, "1013.99 MiB"),
            (u64::MAX, "15.99 EiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }

    #[test]
    fn pages_are_powers_of_two() {
        assert_eq!(PageBytes::new(2 << 20).map(PageBytes::get), Ok(2 << 20));
        for bytes in [0, 1, 2048, 5000, 3 << 20, 1 << 31, u64::MAX] {
            assert_eq!(PageBytes::new(bytes), Err(PageBytesError(bytes)));
        }
    }
}
