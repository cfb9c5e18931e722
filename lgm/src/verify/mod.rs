//! The verifier: proves that a program does what its skeleton asks, in every timing.
//!
//! In: a skeleton and a program from anywhere, a hostile file included. Out: [`Facts`], or the
//! first [`Violation`] with the rule, the place and what was found. It shares no code with the
//! planner; nothing runs unverified ([`VerifiedPlan`]).
//!
//! | module | noun |
//! |---|---|
//! | `violation` | rules, places in a program, verdicts |
//! | `bounds` | tables refer to what is there (V12, V10) |
//! | `order` | counts leave no deadlock (V1–V4) |
//! | `atlas` | from places to bytes of the arena |
//! | `memory` | what each byte holds, and who still uses it |
//! | `machine`, `copy` | a program on symbolic memory (V5–V10) |
//! | `blame` | which rule a missing content breaks |
//! | `boundary` | iterations begin and end at HOME (V11) |
//! | `replays` | steps are the application's ops, and what runs again gives what it gave (V13) |
//! | `verified` | plans that hold |
//!
//! Guarantees: it never panics and takes bounded time and memory, whatever comes in. A program
//! that it accepts runs without deadlock and without a wrong byte under the rules of execution
//! E1–E6, on one copy engine or two. It asks for nothing that those rules do not need, except
//! where V1–V13 do so themselves.
//!
//! *Not here*: whether a program is fast.

mod atlas;
mod blame;
mod boundary;
mod bounds;
mod copy;
mod facts;
mod machine;
mod memory;
mod order;
mod replays;
mod verified;
mod violation;

pub use facts::Facts;
pub use verified::VerifiedPlan;
pub use violation::{At, Rule, Violation};

use crate::plan::Plan;
use crate::program::Program;
use crate::skeleton::Skeleton;

use atlas::Atlas;
use machine::Machine;

/// Proves a program whose steps are the ops of an iteration.
///
/// # Errors
/// The first rule that does not hold.
pub fn verify(skeleton: &Skeleton, program: &Program) -> Result<Facts, Violation> {
    let facts = memory(skeleton, program)?;
    replays::none(program)?;
    Ok(facts)
}

/// Proves the program of a plan, which may run ops again.
///
/// # Errors
/// The first rule that does not hold.
pub fn verify_plan(plan: &Plan) -> Result<Facts, Violation> {
    let facts = memory(&plan.skeleton, &plan.program)?;
    match &plan.replays {
        Some(replays) => replays::check(replays, &plan.skeleton, &plan.program)?,
        None => replays::none(&plan.program)?,
    }
    Ok(facts)
}

/// V1 to V12: the steps find and leave what the skeleton of the steps says.
fn memory(skeleton: &Skeleton, program: &Program) -> Result<Facts, Violation> {
    let atlas = Atlas::new(program);
    bounds::check(skeleton, program, &atlas)?;
    order::check(program)?;
    let mut machine = Machine::new(skeleton, program, &atlas);
    machine.load_homes()?;
    let first = machine.iteration()?;
    machine.compare_homes()?;
    let repeated = |violation: Violation| Violation {
        message: format!("{} (once iterations follow each other)", violation.message),
        ..violation
    };
    let second = machine.iteration().map_err(repeated)?;
    machine.compare_homes().map_err(repeated)?;
    boundary::same_knowledge(first, second)?;
    Ok(machine.facts())
}
