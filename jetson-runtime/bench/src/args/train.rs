//! Arguments of `train`.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lgm::planner::Methods;
use vtensor::{Bytes, Kinds};

use super::spill::SpillArgs;
use crate::train::budget::{PoliciesArg, TrainBudget};
use crate::value;

pub(super) const EXAMPLES: &str = "\
Examples:
  vtensor-bench train
      A small network learns handwritten digits: without a limit, then in half of the memory.
  vtensor-bench train --budget min --spill file:/var/tmp
      In the smallest budget that each policy has a plan for, spilling to a file.
  vtensor-bench train --link-gbps 0.25 --repeat 5
      Over a link that is slow beside this training: which policy waits least? Medians of five
      interleaved runs; rates within 3 % are called a tie.
  vtensor-bench train --model resnet20 --data cifar-10-batches-bin --epochs 2 --save r20.safetensors

A spill file on flash wears it out: written is what a frozen step writes, and what that is in a day
of steps. A disk that fails can cost an iteration; what is kept it cannot cost.

What is counted: images/s and step are the median over steps with a full batch that a frozen
program ran after another such step; predicted is the cost model's time for it. Stall, moved and
total are of the whole training, with recording, planning and evaluation. Held is memory of the
arena; JSON also has the process's PSS, less what it held before, less a spill tier in memory.

Exit status 1 also if the results of a run are not, to the bit, those without a limit, or if more
memory was held than the budget allows.";

/// The networks that can be trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModelArg {
    /// Three convolutions and a linear layer, on real handwritten digits
    Digits,
    /// ResNet-20 on images of 32 x 32 pixels
    Resnet20,
}

/// Arguments of `train`.
#[derive(Clone, Debug, Args)]
pub struct TrainArgs {
    /// What to train
    #[arg(long, value_name = "NAME", value_enum, default_value_t = ModelArg::Digits)]
    pub model: ModelArg,
    /// A folder with CIFAR-10 in its binary version, for resnet20 [default: generated images]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Memory that training may use: a share of what it has at its peak without a limit, as 50%, an
    /// amount, as 6MiB, or min, the smallest that the policy has a plan for
    #[arg(long, value_name = "AMOUNT", default_value = "50%")]
    pub budget: TrainBudget,
    /// What decides which tensors leave and when: none, lru, whole, vtensor, several with commas
    /// between them, or all. Without a limit is always run first, to compare with
    #[arg(long, value_name = "POLICY", default_value = "all")]
    pub policy: PoliciesArg,
    /// How room is made: swap (tensors move), recompute (forward ops run again, nothing moves), or
    /// both, each where it is faster. Only the policy vtensor runs ops again
    #[arg(long, value_name = "METHODS", default_value_t)]
    pub methods: Methods,
    /// While iterations are recorded, run each op that may run again once more, beside the original
    /// and on copies, and compare every bit; one that differs is named, and does not run again
    #[arg(long)]
    pub check_replays: bool,
    /// Where pieces go.
    #[command(flatten)]
    pub spill: SpillArgs,
    /// What never leaves memory: none, or some of params, optimizer, buffers, gradients with commas
    /// between them [default: beside a spill file params,optimizer,buffers, so that a fault of the
    /// disk cannot cost the model; none beside memory]
    #[arg(long, value_name = "KINDS", value_parser = value::keep)]
    pub keep: Option<Kinds>,
    /// Refuse to train if a spill file would be written more than this in a day, in 10^9 bytes
    #[arg(long, value_name = "GB", value_parser = value::gigabytes)]
    pub max_write_gb_per_day: Option<Bytes>,
    /// How many training steps, in as many epochs as that takes [default: of resnet20, 32]
    #[arg(long, value_name = "N", conflicts_with = "epochs")]
    pub steps: Option<NonZeroU32>,
    /// How often to see every image [default: of digits, 10]
    #[arg(long, value_name = "N")]
    pub epochs: Option<NonZeroU32>,
    /// Images of a step [default: of digits, 128; of resnet20, 64]
    #[arg(long, value_name = "N")]
    pub batch: Option<NonZeroU32>,
    /// Draws the first parameters and the order of images
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The speed of the link to the spill tier in both directions, in 10^9 bytes per second
    /// [default: as fast as this machine copies]
    #[arg(long, value_name = "GBPS", value_parser = value::link_gbps)]
    pub link_gbps: Option<f64>,
    /// How often to run each policy; then times are medians
    #[arg(long, value_name = "N", default_value = "1")]
    pub repeat: NonZeroUsize,
    /// Write the trained parameters to this file, as safetensors
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Begin with the parameters of this file, as --save writes it
    #[arg(long, value_name = "FILE")]
    pub load: Option<PathBuf>,
}
