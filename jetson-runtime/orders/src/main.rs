//! Runs how application and engines speak (`jetson-runtime/src/{counters,waiting}.rs`), how threads
//! share what is to be sealed (`jetson-runtime/src/shares.rs`), and how they share the handle of a
//! runtime (`ffi-c-api/src/slot.rs`), the very files, in every order that the C11 memory model
//! allows, as far as loom explores it.
//!
//!     cargo run --manifest-path jetson-runtime/orders/Cargo.toml
//!
//! In: nothing. Out: one line for each model, with how many orders were tried; fails at the first
//! that loses a wake-up, sees bytes that are not there yet, or has two callers.
//!
//! Guarantees: the same models, run on the same files without the fence, and without release
//! ordering, must fail. Where they do not, the check has found out nothing, and fails.
//!
//! Limits: those of loom (loads are not delayed beyond later stores). Threads are preempted a
//! bounded number of times in each run, as the table of the models says. What sleeps in the kernel
//! is a stand-in. *Not here*: the rings, which are rtrb's, and everything that runs on a whole
//! runtime; `.ci/races` runs those under ThreadSanitizer.

#![allow(
    clippy::duplicate_mod,
    reason = "each variant compiles the same files with a `sync` of its own"
)]

mod relaxed;
mod sound;
mod stand_in;
mod unfenced;

use std::env;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};

/// A model: what it shows, what it runs, and how often its threads are preempted at most.
type Model = (&'static str, fn(), usize);

/// What is planted: the name of the variant, one of its models, and what loom says of it.
const PLANTED: [(&str, &str, &str); 6] = [
    ("unfenced", "a waiter is woken", "deadlock"),
    ("relaxed", "bytes go out and come in", "Causality violation"),
    ("relaxed", "a failure is reported", "Causality violation"),
    ("relaxed", "a value is dropped once", "Causality violation"),
    ("unfenced", "a mate is waited for", "deadlock"),
    ("relaxed", "each share is made once", "Causality violation"),
];

/// The models, with the files as a variant has them.
fn models(variant: &str) -> Vec<Model> {
    match variant {
        "unfenced" => [&unfenced::models::ALL[..], &unfenced::shares_model::ALL].concat(),
        "relaxed" => [
            &relaxed::models::ALL[..],
            &relaxed::slots::ALL,
            &relaxed::shares_model::ALL,
        ]
        .concat(),
        _ => [
            &sound::models::ALL[..],
            &sound::slots::ALL,
            &sound::shares_model::ALL,
        ]
        .concat(),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [variant, name] = arguments.as_slice() {
        let models = models(variant);
        let model = models.iter().find(|model| model.0 == name);
        explore(model.expect("the model is one of those of the table"));
        return ExitCode::SUCCESS;
    }
    for model in &models("sound") {
        println!("ok      {}: {} orders", model.0, explore(model));
    }
    for planted in &PLANTED {
        if let Err(why) = fails(planted) {
            println!("FAILED  {why}");
            return ExitCode::FAILURE;
        }
        println!("ok      {}: {} fails", planted.0, planted.1);
    }
    ExitCode::SUCCESS
}

/// Runs a model in every order; tells how many there were.
fn explore(&(_, body, preemptions): &Model) -> u64 {
    static ORDERS: AtomicU64 = AtomicU64::new(0);
    ORDERS.store(0, Ordering::Relaxed);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        ORDERS.fetch_add(1, Ordering::Relaxed);
        body();
    });
    ORDERS.load(Ordering::Relaxed)
}

/// Whether a planted fault is found. In a process of its own, for loom ends in the middle of it.
fn fails(&(variant, name, said): &(&str, &str, &str)) -> Result<(), String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    let output = command.args([variant, name]).output();
    let output = output.map_err(|error| error.to_string())?;
    let told = String::from_utf8_lossy(&output.stderr);
    if output.status.success() || !told.contains(said) {
        return Err(format!(
            "{variant}: '{name}' wants '{said}', and said: {told}"
        ));
    }
    Ok(())
}
