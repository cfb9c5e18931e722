//! All runs of a comparison.
//!
//! In: a task, policies, a budget. Out: a report for each. The run without a limit comes first: its
//! recording says what the budget is a share of, and its results are what the others' must be.
//! Repeats are interleaved, policy by policy, so that a machine that changes its pace meanwhile
//! does so for all of them.

use std::path::Path;

use lgm::policy::Policy;
use vtensor::Bytes;

use super::budget::TrainBudget;
use super::report::{RunReport, TrainReport};
use super::run::{Outcome, Task};
use super::weights;
use crate::error::BenchError;

/// What to compare.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// Policies beside the reference.
    pub policies: Vec<Policy>,
    /// Their budget.
    pub budget: TrainBudget,
    /// How often each is run, at least once.
    pub repeats: usize,
    /// Where the last run's model goes.
    pub save: Option<&'a Path>,
}

impl Plan<'_> {
    /// Runs in all.
    #[must_use]
    pub fn runs(&self) -> usize {
        (self.policies.len() + 1) * self.repeats
    }

    /// Runs everything. `advance` is called after each step.
    ///
    /// # Errors
    /// The first run that fails.
    pub fn run(&self, task: &Task, advance: &dyn Fn()) -> Result<TrainReport, BenchError> {
        let (trainer, reference) = task.run(Policy::None, None, advance)?;
        let traces = Task::traces(&trainer)?;
        let mut last = trainer;
        let budgets: Vec<(Policy, Bytes)> = self
            .policies
            .iter()
            .map(|&policy| {
                (
                    policy,
                    self.budget.resolve(&traces, &task.config(policy, None)),
                )
            })
            .collect();
        let mut outcomes = vec![vec![reference]];
        outcomes.resize(self.policies.len() + 1, Vec::new());
        for round in 0..self.repeats {
            if round > 0 {
                outcomes[0].push(task.run(Policy::None, None, advance)?.1);
            }
            for (row, &(policy, budget)) in budgets.iter().enumerate() {
                // What the run before held goes back first.
                drop(last);
                let (trainer, outcome) = task.run(policy, Some(budget), advance)?;
                last = trainer;
                outcomes[row + 1].push(outcome);
            }
        }
        if let Some(path) = self.save {
            let (model, runtime) = last.parts();
            weights::save(path, model, runtime)?;
        }
        Ok(report(task, &outcomes))
    }
}

fn report(task: &Task, outcomes: &[Vec<Outcome>]) -> TrainReport {
    let reference = &outcomes[0][0].results;
    let runs = outcomes.iter().map(|repeats| {
        let identical = repeats.iter().all(|repeat| repeat.results == *reference);
        RunReport::new(task, repeats, identical)
    });
    TrainReport {
        runs: runs.collect(),
    }
}
