//! What options take: each a type that is read from text once, and printed as it was meant.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use lgm::tricks::Tricks;
use vtensor::{Bytes, Kinds, PageBytes, TensorKind};

/// A budget: a share of a trace's peak, or an amount.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BudgetArg {
    /// Percent of the bytes that are live at the trace's worst op.
    Percent(f64),
    /// Bytes.
    Amount(Bytes),
}

impl BudgetArg {
    /// The budget for a trace with that peak, rounded down to whole bytes.
    #[must_use]
    pub fn resolve(self, peak: Bytes) -> Bytes {
        match self {
            Self::Amount(bytes) => bytes,
            // A conversion of this kind saturates, and the percentage is positive.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            Self::Percent(percent) => Bytes((peak.0 as f64 * (percent / 100.0)) as u64),
        }
    }
}

impl FromStr for BudgetArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const WANTED: &str = "a budget is a share of the trace's peak, as 50%, or an amount, as \
                              96MiB or 100663296";
        if let Some(number) = text.trim().strip_suffix('%') {
            return match number.trim().parse::<f64>() {
                Ok(percent) if percent > 0.0 && percent <= 1e6 => Ok(Self::Percent(percent)),
                Ok(_) => Err(format!("{WANTED}; a share is above 0%")),
                Err(_) => Err(format!("{WANTED}; \"{number}\" is no number")),
            };
        }
        match text.parse::<Bytes>() {
            Ok(Bytes(0)) => Err(format!("{WANTED}; it is above 0")),
            Ok(bytes) => Ok(Self::Amount(bytes)),
            Err(error) => Err(format!("{WANTED}; {error}")),
        }
    }
}

impl fmt::Display for BudgetArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Amount(bytes) => write!(f, "{bytes}"),
        }
    }
}

/// Reads a share: `20%`, or `0.2`.
///
/// # Errors
/// If it is none, or below 0.
pub fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.trim().strip_suffix('%') {
        Some(number) => (number, 0.01),
        None => (text, 1.0),
    };
    match number.trim().parse::<f64>() {
        Ok(share) if share >= 0.0 && share.is_finite() => Ok(share * unit),
        _ => Err(format!(
            "a share is a number from 0 on, as 20% or 0.2, not \"{text}\""
        )),
    }
}

/// Reads a page size: `65536`, `64KiB`, `2MiB`.
///
/// # Errors
/// If it is no amount, or no power of two in range.
pub fn page_bytes(text: &str) -> Result<PageBytes, String> {
    let bytes: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    PageBytes::new(bytes.0).map_err(|error| error.to_string())
}

/// Reads the name of a trick of the planner; all others are left.
///
/// # Errors
/// If it is none, the names of all.
pub fn without(name: &str) -> Result<Tricks, String> {
    let names = Tricks::NAMES.join(", ");
    Tricks::without(name).ok_or_else(|| format!("the planner's tricks are {names}"))
}

/// Where a replay puts what leaves the arena.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpillArg {
    /// Memory beside the arena.
    Ram,
    /// An unlinked file in that folder.
    File(PathBuf),
}

impl FromStr for SpillArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "ram" => Ok(Self::Ram),
            Some(("file", "")) => Err("file: needs a folder, as in file:/var/tmp".into()),
            Some(("file", folder)) => Ok(Self::File(folder.into())),
            _ => Err("a spill tier is ram, or file:FOLDER as in file:/var/tmp".into()),
        }
    }
}

impl fmt::Display for SpillArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ram => f.write_str("ram"),
            Self::File(folder) => write!(f, "file:{}", folder.display()),
        }
    }
}

/// The names of kinds that can stay in the arena.
const KEPT: [(&str, TensorKind); 4] = [
    ("params", TensorKind::Parameter),
    ("optimizer", TensorKind::Optimizer),
    ("buffers", TensorKind::Buffer),
    ("gradients", TensorKind::Gradient),
];

/// Reads which persistent tensors never leave the arena: `params,optimizer`, `none`.
///
/// # Errors
/// If a name is none of them.
pub fn keep(text: &str) -> Result<Kinds, String> {
    if text.trim() == "none" {
        return Ok(Kinds::NONE);
    }
    text.split(',').try_fold(Kinds::NONE, |kinds, name| {
        let found = KEPT.iter().find(|(known, _)| *known == name.trim());
        let names = KEPT.map(|(known, _)| known).join(", ");
        found.map_or_else(
            || {
                Err(format!(
                    "what stays is none, or some of {names} with commas between them"
                ))
            },
            |(_, kind)| Ok(kinds.with(*kind)),
        )
    })
}

/// Reads an amount in 10^9 bytes.
///
/// # Errors
/// If it is no such number.
pub fn gigabytes(text: &str) -> Result<Bytes, String> {
    match text.parse::<f64>() {
        // Below 2^64.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Ok(number) if number > 0.0 && number <= 1e9 => Ok(Bytes((number * 1e9) as u64)),
        _ => Err("an amount is a number of 10^9 bytes above 0 and at most 10^9".into()),
    }
}

/// Reads how much smaller than planned a replay executes: `0.25` or `1/4`, above 0 and at most 1.
///
/// # Errors
/// If it is no such number.
pub fn scale(text: &str) -> Result<f64, String> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let scale = match text.split_once('/') {
        None => number(text),
        Some((over, under)) => number(over)
            .zip(number(under))
            .map(|(over, under)| over / under),
    };
    match scale {
        Some(scale) if scale > 0.0 && scale <= 1.0 => Ok(scale),
        _ => Err("a scale is above 0 and at most 1, as 0.25 or 1/64".into()),
    }
}

/// Reads the speed of a link in GB/s: from a megabyte to a petabyte per second.
///
/// # Errors
/// If it is no such number.
pub fn link_gbps(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(gbps) if (1e-3..=1e6).contains(&gbps) => Ok(gbps),
        _ => Err("a link speed is a number of 10^9 bytes per second from 0.001 to 10^6".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_is_a_list_of_kinds() {
        assert_eq!(keep("none"), Ok(Kinds::NONE));
        assert_eq!(keep("params, optimizer,buffers"), Ok(Kinds::MODEL));
        assert_eq!(
            keep("gradients"),
            Ok(Kinds::NONE.with(TensorKind::Gradient))
        );
        for text in ["", "all", "params,", "none,params"] {
            let error = keep(text).expect_err(text);
            assert!(error.contains("params, optimizer"), "{error}");
        }
    }

    #[test]
    fn amounts_are_in_gigabytes() {
        assert_eq!(gigabytes("0.5"), Ok(Bytes(500_000_000)));
        for text in ["0", "-1", "1GB", "nan", "1e10"] {
            assert!(gigabytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn budgets_are_shares_or_amounts() {
        for (text, budget, resolved) in [
            ("50%", BudgetArg::Percent(50.0), 500),
            ("12.5 %", BudgetArg::Percent(12.5), 125),
            ("100%", BudgetArg::Percent(100.0), 1000),
            ("250%", BudgetArg::Percent(250.0), 2500),
            ("96MiB", BudgetArg::Amount(Bytes(96 << 20)), 96 << 20),
            ("4096", BudgetArg::Amount(Bytes(4096)), 4096),
        ] {
            let read: BudgetArg = text.parse().expect(text);
            assert_eq!(read, budget);
            assert_eq!(read.resolve(Bytes(1000)), Bytes(resolved), "{text}");
        }
        let peak = Bytes((1 << 52) + 1);
        assert_eq!(
            BudgetArg::Percent(100.0).resolve(peak),
            peak,
            "all of it, to the byte"
        );
    }

    #[test]
    fn budgets_that_make_no_sense_say_what_would() {
        for (text, wanted) in [
            ("0%", "above 0%"),
            ("-3%", "above 0%"),
            ("inf%", "above 0%"),
            ("NaN%", "above 0%"),
            ("half%", "\"half\" is no number"),
            ("%", "is no number"),
            ("0", "it is above 0"),
            ("lots", "begins with a number"),
            ("5 parsecs", "units are B"),
        ] {
            let error = text.parse::<BudgetArg>().expect_err(text);
            assert!(
                error.contains(wanted) && error.contains("as 50%"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn other_values_are_checked_too() {
        assert_eq!(page_bytes("64KiB").map(PageBytes::get), Ok(65_536));
        assert!(
            page_bytes("5000")
                .expect_err("odd")
                .contains("power of two")
        );
        assert_eq!("ram".parse(), Ok(SpillArg::Ram));
        assert_eq!("file:/a:b".parse(), Ok(SpillArg::File("/a:b".into())));
        for text in ["file:", "file", "disk", "ram:", ""] {
            assert!(text.parse::<SpillArg>().is_err(), "{text}");
        }
        assert_eq!(scale("1/64"), Ok(1.0 / 64.0));
        assert_eq!(scale("0.5"), Ok(0.5));
        for text in ["0", "-1", "2", "1/0", "0/0", "x", "1/2/3", "NaN"] {
            assert!(scale(text).is_err(), "{text}");
        }
        assert_eq!(link_gbps("2.5"), Ok(2.5));
        for text in ["0", "-1", "inf", "NaN", "fast"] {
            assert!(link_gbps(text).is_err(), "{text}");
        }
    }
}
