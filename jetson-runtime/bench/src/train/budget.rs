//! Which budget a policy gets.
//!
//! In: what was asked for, and the iterations that the reference without a limit recorded. Out:
//! bytes. The smallest budget is found by asking the planner, down to a page of the system.

use std::fmt;
use std::str::FromStr;

use jetson_runtime::{Config, predict};
use lgm::policy::Policy;
use lgm::trace::Trace;
use vtensor::Bytes;

use crate::value::BudgetArg;

/// The resolution of the smallest budget.
const STEP: u64 = 4096;

/// A budget of a training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TrainBudget {
    /// A share of the peak, or an amount.
    Given(BudgetArg),
    /// The smallest one for which the policy has a plan.
    Min,
}

impl FromStr for TrainBudget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim() == "min" {
            return Ok(Self::Min);
        }
        let given = text.parse().map(Self::Given);
        given.map_err(|error: String| format!("{error}; or min, the smallest that has a plan"))
    }
}

impl fmt::Display for TrainBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(budget) => budget.fmt(f),
            Self::Min => f.write_str("min"),
        }
    }
}

impl TrainBudget {
    /// The budget of a policy. `config` is how the policy will run.
    #[must_use]
    pub fn resolve(self, traces: &[Trace], config: &Config) -> Bytes {
        let peak = traces.iter().map(Trace::peak_bytes).max();
        let peak = peak.unwrap_or_default();
        match self {
            Self::Given(budget) => budget.resolve(peak),
            Self::Min => smallest(traces, config, peak),
        }
    }
}

/// The smallest budget for which every iteration has a plan, or the first that is found above the
/// peak.
fn smallest(traces: &[Trace], config: &Config, peak: Bytes) -> Bytes {
    let fits = |steps: u64| {
        let config = Config {
            budget: Some(Bytes(steps * STEP)),
            ..config.clone()
        };
        traces.iter().all(|trace| predict(trace, &config).is_ok())
    };
    let mut above = (peak.0 / STEP).max(1);
    while !fits(above) && above < peak.0 {
        above += above.div_ceil(4);
    }
    let mut below = 0;
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if fits(middle) {
            above = middle;
        } else {
            below = middle;
        }
    }
    Bytes(above * STEP)
}

/// Policies of a training, in the order in which they are compared.
pub const POLICIES: [Policy; 4] = [Policy::None, Policy::Lru, Policy::Whole, Policy::Vtensor];

/// Which policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoliciesArg(pub Vec<Policy>);

impl FromStr for PoliciesArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self(POLICIES.to_vec()));
        }
        let find = |name: &str| {
            let found = POLICIES.into_iter().find(|policy| policy.name() == name);
            found.ok_or_else(|| {
                let names = POLICIES.map(Policy::name).join(", ");
                format!("policies are all, or some of {names} with commas between them")
            })
        };
        let mut chosen = Vec::new();
        for name in text.split(',') {
            let policy = find(name.trim())?;
            if !chosen.contains(&policy) {
                chosen.push(policy);
            }
        }
        Ok(Self(chosen))
    }
}

impl fmt::Display for PoliciesArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|policy| policy.name()).collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use lgm::trace::{Builder, OpSpec, Phase, Tensor};
    use vtensor::TensorKind;

    use super::*;

    #[test]
    fn budgets_and_policies_are_read() {
        assert_eq!("min".parse(), Ok(TrainBudget::Min));
        let half = TrainBudget::Given(BudgetArg::Percent(50.0));
        assert_eq!("50%".parse(), Ok(half));
        assert_eq!(
            (half.to_string(), TrainBudget::Min.to_string()),
            ("50%".into(), "min".into())
        );
        let error = "tiny".parse::<TrainBudget>().expect_err("no budget");
        assert!(
            error.contains("as 50%") && error.contains("or min"),
            "{error}"
        );
        assert_eq!("all".parse(), Ok(PoliciesArg(POLICIES.to_vec())));
        let two = PoliciesArg(vec![Policy::Vtensor, Policy::Lru]);
        assert_eq!("vtensor,lru,vtensor".parse(), Ok(two.clone()));
        assert_eq!(two.to_string(), "vtensor,lru");
        for text in ["", "best", "lru,,none", "g10-paged"] {
            let error = text.parse::<PoliciesArg>().expect_err(text);
            assert!(error.contains("none, lru, whole, vtensor"), "{error}");
        }
    }

    /// A value idles while another one is made and used.
    fn trace() -> Trace {
        let mut builder = Builder::new("idle", 1, "none", &["host"]);
        for name in ["a", "b", "c"] {
            builder.tensor(Tensor {
                name: name.into(),
                bytes: Bytes(SIZE),
                kind: TensorKind::Activation,
                persistent: false,
                fixed: false,
            });
        }
        for (reads, writes, allocs, frees) in [
            (&[][..], 0, &[0][..], &[][..]),
            (&[], 1, &[1], &[]),
            (&[1], 2, &[2], &[1]),
            (&[0, 2], 0, &[], &[0, 2]),
        ] {
            builder.op(&OpSpec {
                reads,
                writes: &[writes],
                allocs,
                frees,
                durations_ns: &[10_000],
                ..OpSpec::new("op", Phase::Forward)
            });
        }
        builder.finish().expect("a trace")
    }

    const SIZE: u64 = 64 << 10;

    #[test]
    fn the_smallest_budget_has_a_plan_and_less_has_none() {
        let config = Config::default();
        let traces = [trace()];
        let Bytes(bytes) = TrainBudget::Min.resolve(&traces, &config);
        let plans = |bytes| {
            let budget = Some(Bytes(bytes));
            predict(
                &traces[0],
                &Config {
                    budget,
                    ..config.clone()
                },
            )
            .is_ok()
        };
        assert!(plans(bytes) && !plans(bytes - STEP), "{bytes}");
        // The largest op has two of the three.
        assert_eq!(bytes, 2 * SIZE);
    }
}
