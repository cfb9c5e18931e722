//! The verifier against all timings: what it accepts never does harm, and what it refuses without
//! harm it refuses for a reason that the contract names.

mod verify_common;

use std::collections::BTreeMap;

use fastrand::Rng;
use lgm::program::Program;
use lgm::skeleton::Skeleton;
use lgm::verify::{At, Rule, verify};

use verify_common::brute::{Engines, Outcome, search};
use verify_common::mutate::mutations;
use verify_common::{examples, random};

const STATES_MAX: usize = 100_000;

/// What was seen.
#[derive(Debug, Default)]
struct Tally {
    /// Of the program that is judged, to find it again.
    seed: u64,
    programs: usize,
    mutants: usize,
    accepted: usize,
    /// Refused, by rule.
    refused: BTreeMap<Rule, usize>,
    /// Judged without the search, which was too large.
    unknown: usize,
    /// Refused, and no timing does harm.
    harmless: BTreeMap<(Rule, String), usize>,
}

/// All timings of one to `iterations` iterations, on one engine and on two.
fn timings(skeleton: &Skeleton, program: &Program, iterations: usize) -> Outcome {
    let mut unknown = false;
    let mut total = 0;
    for n in 1..=iterations {
        for engines in [Engines::Two, Engines::One] {
            match search(skeleton, program, engines, n, STATES_MAX) {
                Outcome::Safe { states } => total += states,
                Outcome::Unknown => unknown = true,
                harm @ Outcome::Harm(_) => return harm,
            }
        }
    }
    if unknown {
        Outcome::Unknown
    } else {
        Outcome::Safe { states: total }
    }
}

impl Tally {
    /// Lets the verifier and the search judge a program.
    ///
    /// # Panics
    /// If the verifier accepts what does harm, or refuses what does none for another reason than
    /// the contract's own: counts without a meaning (V1), a copy that does not carry the latest
    /// version of what it says, though nobody uses what it carries (V7), and tables that say what
    /// an executor does not look at: stated bytes, alignment, homes of dead content (V12).
    fn judge(&mut self, name: &str, skeleton: &Skeleton, program: &Program, iterations: usize) {
        let seed = self.seed;
        let verdict = verify(skeleton, program);
        let outcome = timings(skeleton, program, iterations);
        match (&verdict, &outcome) {
            (Ok(_), Outcome::Harm(harm)) => {
                panic!("seed {seed}, {name}: accepted, but {harm}\n{skeleton:#?}\n{program:#?}")
            }
            (Ok(_), _) => self.accepted += 1,
            (Err(violation), outcome) => {
                *self.refused.entry(violation.rule).or_default() += 1;
                if matches!(outcome, Outcome::Safe { .. }) {
                    let command = matches!(violation.at, At::Out(_) | At::In(_));
                    let contract = match violation.rule {
                        Rule::V1 | Rule::V12 => true,
                        Rule::V7 => command,
                        // The two ins through one slot are each called by the other's name.
                        Rule::V8 => name == "slot_reused: swap ins",
                        _ => false,
                    };
                    assert!(
                        contract,
                        "seed {seed}, {name}: {violation}\n{skeleton:#?}\n{program:#?}"
                    );
                    *self
                        .harmless
                        .entry((violation.rule, name.to_string()))
                        .or_default() += 1;
                }
            }
        }
        if outcome == Outcome::Unknown {
            self.unknown += 1;
        }
    }
}

/// The first `count` random programs from a seed on, with their seeds.
fn programs(first: u64, count: usize) -> impl Iterator<Item = (u64, Skeleton, Program)> {
    let made = (first..).filter_map(|seed| {
        let (skeleton, program) = random::program(&mut Rng::with_seed(seed))?;
        if let Err(violation) = verify(&skeleton, &program) {
            panic!("seed {seed}: {violation}\n{skeleton:#?}\n{program:#?}");
        }
        Some((seed, skeleton, program))
    });
    made.take(count)
}

#[test]
fn mutants_of_examples() {
    let mut tally = Tally::default();
    for (name, skeleton, program) in examples::all() {
        tally.programs += 1;
        for seed in 0..4 {
            for (fault, mutant) in mutations(&skeleton, &program, seed) {
                tally.mutants += 1;
                tally.judge(&format!("{name}: {fault}"), &skeleton, &mutant, 3);
            }
        }
    }
    println!("{tally:?}");
}

#[test]
fn random_programs_and_their_mutants() {
    let mut tally = Tally::default();
    for (seed, skeleton, program) in programs(0, 2000) {
        tally.programs += 1;
        tally.seed = seed;
        tally.judge("as made", &skeleton, &program, 3);
        for (fault, mutant) in mutations(&skeleton, &program, seed) {
            tally.mutants += 1;
            tally.judge(&fault, &skeleton, &mutant, 3);
        }
    }
    println!("{tally:?}");
}

/// Lowers every wait as far as the verifier lets it, so that nothing is left to spare. The rest of
/// the waits must then be needed: that is how it would show if the verifier asked for too much.
#[test]
fn programs_without_a_wait_to_spare() {
    let mut tally = Tally::default();
    for (seed, skeleton, mut program) in programs(1 << 32, 150) {
        tally.programs += 1;
        tally.seed = seed;
        relax(&skeleton, &mut program);
        tally.judge("relaxed", &skeleton, &program, 3);
        for index in 0..waits(&mut program).len() {
            let mut mutant = program.clone();
            *waits(&mut mutant)[index] -= 1;
            tally.mutants += 1;
            tally.judge("one wait less", &skeleton, &mutant, 3);
        }
    }
    println!("{tally:?}");
}

fn waits(program: &mut Program) -> Vec<&mut i64> {
    let steps = program.steps.iter_mut();
    let steps = steps.flat_map(|step| [&mut step.counts.out_needed, &mut step.counts.in_needed]);
    steps
        .chain(program.ins.iter_mut().map(|copy| &mut copy.after_out))
        .collect()
}

fn relax(skeleton: &Skeleton, program: &mut Program) {
    for index in 0..waits(program).len() {
        loop {
            *waits(program)[index] -= 1;
            if verify(skeleton, program).is_err() {
                *waits(program)[index] += 1;
                break;
            }
        }
    }
}
