//! Whether packing activations, as a bit for each number and those that are not zero, would be
//! worth it beside swapping them as they are and making them again.
//!
//! `cargo bench -p vtensor-bench --bench compress`. Times are of the thread, medians of interleaved
//! runs, so that other work on the machine counts little; compare only within a run.
//!
//! 1. What waits for the backward pass in the digits net and in ResNet-20 that have learnt for a
//!    while, and how much of it is zero.
//! 2. What packing and unpacking its rectified part takes, and what making it again takes.
//! 3. What each way takes on some links: whether packing saves more of the link for its compute.
//! 4. What plans would gain if packing were there.
//!
//! The answer, and what follows from it, is in `ARCHITECTURE.md`.

mod activations;
mod costs;
mod links;
mod packed;
mod plans;

use vtensor_bench::train::course::Course;
use vtensor_bench::train::data::{Dataset, digits, generated};
use vtensor_bench::train::model::{Network, zoo};

use activations::Activations;
use costs::{Costs, RUNS};
use packed::Packed;

const MIB: f64 = (1 << 20) as f64;

fn main() {
    let data = digits::digits();
    let mut digits = learnt(zoo::digits(data.shape, data.classes), &data, 128, 120);
    let data = generated::generated();
    let mut resnet20 = learnt(zoo::resnet20(data.shape, data.classes), &data, 64, 32);
    println!("\nns for each byte of rectified activations, medians of {RUNS} runs on one core");
    println!(
        "{:<12}{:>8}{:>8}{:>8}{:>8}{:>22}",
        "", "copy", "pack", "unpack", "again", "again, convolutions"
    );
    Costs::measured(&mut digits).print("digits");
    let host = Costs::measured(&mut resnet20);
    host.print("resnet20");
    links::print(host);
    plans::print(host.left);
}

/// Trains, and prints what waits for the backward pass then.
fn learnt(network: Network, data: &Dataset, batch: usize, steps: usize) -> Activations {
    let course = Course {
        images: data.train.len(),
        batch,
        steps,
        learning_rate: 0.05,
        seed: 1,
    };
    println!(
        "\n{}, {} images a step, after {steps} steps: what waits",
        network.name, batch
    );
    println!(
        "{:<24}{:>8}{:>8}{:>8}{:>8}",
        "", "MiB", "share", "zeros", "packed"
    );
    let activations = Activations::after(network, data, &course).expect("memory is not limited");
    let [all, zeros, packed] = waiting(&activations, |_| true);
    let row = |name: &str, [bytes, zeros, packed]: [f64; 3]| {
        println!(
            "{name:<24}{:>8.2}{:>8.3}{:>8.3}{:>8.3}",
            bytes / MIB,
            bytes / all,
            zeros / bytes,
            packed / bytes
        );
    };
    let mut kinds: Vec<_> = activations
        .waiting()
        .map(|value| activations.makers(value))
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        row(kind, waiting(&activations, |makers| makers == kind));
    }
    row("all", [all, zeros, packed]);
    activations
}

/// Bytes of values, of zeros in them, and of them packed, by what makes them.
fn waiting(activations: &Activations, wanted: impl Fn(&str) -> bool) -> [f64; 3] {
    let mut sum = [0.0; 3];
    for value in activations.waiting() {
        if !wanted(activations.makers(value)) {
            continue;
        }
        let numbers = activations.value(value);
        let zeros = numbers.iter().filter(|x| x.to_bits() == 0).count();
        let mut packed = Packed::new(numbers.len());
        packed.pack(numbers);
        sum[0] += size_of_val(numbers) as f64;
        sum[1] += (zeros * size_of::<f32>()) as f64;
        sum[2] += packed.bytes() as f64;
    }
    sum
}
