//! The command line.

mod fixed;
mod gpu;
mod plan;
mod spill;
mod task;
mod train;

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use lgm::planner::Methods;
use lgm::policy::Policy;
use lgm::tricks::Tricks;
use vtensor::PageBytes;

use crate::value::{self, BudgetArg};
pub use fixed::FixedArg;
pub use gpu::{BackendArg, GpuArgs, GpuProbeArgs, SpillPlaceArg};
pub use plan::PlanArgs;
pub use spill::{IoArg, SpillArgs};
pub use task::{TaskArgs, methods};
pub use train::{ModelArg, TrainArgs};

const LONG_ABOUT: &str = "\
Trains inside too little memory, on paper and for real: takes a recorded training step of a model, \
plans what leaves memory and when it returns so that a budget holds, proves the plan, and executes \
it with every byte checked.

Without a command it plans and replays the built-in trace at half of its memory.";

const EXAMPLES: &str = "\
Examples:
  vtensor-bench
      The built-in trace at half of its memory: plan, proof, replay, and a short table.
  vtensor-bench train
      Real training, without a limit and in half of its memory: is it the same, and how fast?
  vtensor-bench plan traces/vgg16_b32_sgdm.json.gz --device agx_orin --budget 50%
      What would it cost to train VGG-16 in half of its memory on that device?
  vtensor-bench plan my_step.json --device rtx3060 --budget 6GiB -o my.plan
      The same for a recording of your own, kept as a plan file.
  vtensor-bench verify my.plan
      Is the plan right? Answered from the file alone.
  vtensor-bench compare traces/*.json.gz
      How far is the planner ahead of other policies?
  vtensor-bench replay traces/resnet18_b32_sgdm.json.gz --device agx_orin --budget 35% \\
      --scale 1/64 --spill file:/var/tmp
      Executes it here, at a 64th of its size, and checks every byte.

Units: 1 KiB = 1024 bytes, 1 kB = 1000 bytes; link speeds in 10^9 bytes per second.
Exit status: 0; 1 after an error, which --json puts on standard output; 2 for a wrong command
line.";

const PLAN_EXAMPLES: &str = "\
Examples:
  vtensor-bench plan traces/bert_base_s128_b16_adamw.json.gz --device agx_orin --budget 70%
  vtensor-bench plan resnet50_b32_sgdm --device rtx3060 --budget 1.5GiB --page-bytes 1MiB -o p
  vtensor-bench plan resnet50_b32_sgdm --device agx_orin --budget 50% --policy lru --json

Units: 1 KiB = 1024 bytes, 1 kB = 1000 bytes. JSON has seconds, bytes, and ratios over the time of
the step without a limit.";

const REPLAY_EXAMPLES: &str = "\
Examples:
  vtensor-bench replay resnet50_b32_sgdm --device agx_orin --budget 50%
  vtensor-bench replay resnet50_b32_sgdm --device agx_orin --budget 50% --scale 1/64 \\
      --spill file:/var/tmp --steps 10
  vtensor-bench replay resnet50_b32_sgdm --device agx_orin --budget 50% --scale 1/512 \\
      --paced --time-scale 1/4
  vtensor-bench replay resnet50_b32_sgdm --device rtx3060 --budget 50% --scale 1 --backend cuda

At --scale 1 the whole budget is taken from this machine's memory, and the spill tier beside it.
The times that are measured are those of the executed size. Exit status 1 also if a byte was wrong,
if two training steps did not do the same, or if more memory was held than the budget allows.";

const COMPARE_EXAMPLES: &str = "\
Examples:
  vtensor-bench compare traces/*.json.gz
  vtensor-bench compare resnet50_b32_sgdm --device agx_orin --budget 70%,50% --plot compare.svg
  vtensor-bench compare traces/*.json.gz --policy lru,capuchin-paged,vtensor --csv compare.csv
  vtensor-bench compare traces/*.json.gz --policy checkpoint,vtensor

A name ending in -paged is the policy on pages, with the planner's own prefetcher; without that
ending, tensors lie in one contiguous arena and copies in follow the policy's own rule, as
published. Times are predicted, each over the time of the step without a limit; every plan is
proven. Exit
status 1 if vtensor finds no plan somewhere, or if a plan of any policy breaks a rule; that another
policy finds none is part of the result. Budgets below 1.25 times the largest op are left out.";

const SMALLEST_EXAMPLES: &str = "\
Examples:
  vtensor-bench smallest traces/*.json.gz
  vtensor-bench smallest resnet50_b32_sgdm --device agx_orin --slowdown 5% --methods swap,both

Budgets are tried in whole hundredths of a trace's peak; each takes a plan, which is proven. Times
are predicted.";

const PROBE_EXAMPLES: &str = "\
Examples:
  vtensor-bench probe
      The GPU: what it is, what works on it, how fast its link is, and what is chosen for it.
  vtensor-bench probe /var/tmp
      How fast is spilling to that disk?
  vtensor-bench probe --profile /run/vtensor/profile.json
      What a service does at boot: keep the answers for the spill folder of /etc/vtensor.toml and
      for every GPU.
  vtensor-bench probe --check
      Do programs here use what the service has kept?

A folder is measured with 64 MiB of space, or less on a small disk, in about five seconds: a
second for each way to reach it.";

/// The command line.
#[derive(Clone, Debug, Parser)]
#[command(name = "vtensor-bench", version, long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
#[command(about = "Plans, proves and replays training steps inside a memory budget")]
pub struct Cli {
    /// Print one JSON object on standard output instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do; without one, the built-in trace is planned and replayed.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Plan a training step for a budget, and say what it costs
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(PlanArgs),
    /// Prove a plan file, alone from the file
    #[command(after_help = "Example:\n  vtensor-bench verify my.plan --json")]
    Verify(VerifyArgs),
    /// Plan, prove and execute a training step, checking every byte
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(ReplayArgs),
    /// Find the smallest budget with which a step is not much slower
    #[command(after_help = SMALLEST_EXAMPLES)]
    Smallest(SmallestArgs),
    /// Plan with every policy, and show them side by side
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(CompareArgs),
    /// Train for real inside a budget, and compare with training without a limit
    #[command(after_help = train::EXAMPLES)]
    Train(TrainArgs),
    /// Find out what this machine can do: its GPU, or a folder to spill to
    #[command(after_help = PROBE_EXAMPLES)]
    Probe(ProbeArgs),
}

/// Arguments of `probe`.
#[derive(Clone, Debug, Args)]
pub struct ProbeArgs {
    /// A folder on the disk in question; with --profile, the spill folder of the settings if none
    /// is named. Without either, the GPU is probed, and what is chosen for it is said
    #[arg(value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
    /// Write what was found, with what the machine is, to this file, where the library looks for it
    /// in every program until the machine is started again: /run/vtensor/profile.json, or what the
    /// settings say
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Accept a folder whose files are in memory
    #[arg(long)]
    pub memory_backed: bool,
    /// With --profile, do not look for a GPU
    #[arg(long, requires = "profile")]
    pub no_gpu: bool,
    /// Measure nothing: say what the settings and the profile tell every program of this user, and
    /// what is wrong with them, with exit status 1
    #[arg(long, conflicts_with_all = ["folder", "profile", "memory_backed", "GpuProbeArgs"])]
    pub check: bool,
    /// About the GPU.
    #[command(flatten)]
    pub gpu: GpuProbeArgs,
}

/// Arguments of `verify`.
#[derive(Clone, Debug, Args)]
pub struct VerifyArgs {
    /// A plan file, as `plan -o FILE` writes it
    #[arg(value_name = "FILE")]
    pub plan: PathBuf,
}

/// Arguments of `replay`.
#[derive(Clone, Debug, Args)]
pub struct ReplayArgs {
    /// What to plan.
    #[command(flatten)]
    pub task: TaskArgs,
    /// Where pieces go.
    #[command(flatten)]
    pub spill: SpillArgs,
    /// What executes.
    #[command(flatten)]
    pub gpu: GpuArgs,
    /// How many training steps to execute
    #[arg(long, value_name = "N", default_value = "3")]
    pub steps: NonZeroU32,
    /// Execute with tensors and pages this much smaller than planned, as 1/64 or 0.25; the plan,
    /// its copies and its order stay the same. An executed page is page x SCALE, rounded down to a
    /// power of two, and at least the system's page
    #[arg(long, value_name = "SCALE", default_value = "1/16", value_parser = value::scale)]
    pub scale: f64,
    /// Let each op take at least its duration, and each copy its time on the device's link, so that
    /// measured and predicted time can be compared. Without it ops take as long as their checks,
    /// and copies as long as they take here (but see --link-gbps)
    #[arg(long)]
    pub paced: bool,
    /// Multiply the durations of a paced replay, of ops and copies, by this [default: SCALE]. Where
    /// this machine checks bytes more slowly than the device computes, take a larger one
    #[arg(long, value_name = "SCALE", value_parser = value::scale)]
    pub time_scale: Option<f64>,
    /// The speed of the link in both directions, in 10^9 bytes per second, for the plan and for the
    /// execution, whose copies then take their time on it even without --paced; on a GPU for the
    /// plan alone [default: the device's for the plan, as fast as it goes for an execution without
    /// --paced]
    #[arg(long, value_name = "GBPS", value_parser = value::link_gbps)]
    pub link_gbps: Option<f64>,
}

/// Training steps, and devices that they are planned for.
#[derive(Clone, Debug, Args)]
pub struct TracesArgs {
    /// Recorded training steps: JSON, plain or gzip'ed; or the name of the built-in one,
    /// resnet50_b32_sgdm
    #[arg(value_name = "TRACES", required = true)]
    pub traces: Vec<PathBuf>,
    /// Devices, separated by commas [default: all that a trace has durations for]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub device: Vec<String>,
    /// A JSON file with device profiles, used instead of the built-in ones
    #[arg(long, value_name = "FILE")]
    pub devices: Option<PathBuf>,
    /// Which tensors keep their address for life, beside those of which the trace says so
    #[arg(long, value_name = "WHICH", value_enum)]
    pub fixed: Option<FixedArg>,
}

/// Arguments of `smallest`.
#[derive(Clone, Debug, Args)]
pub struct SmallestArgs {
    /// Which training steps, on which devices.
    #[command(flatten)]
    pub steps: TracesArgs,
    /// How much longer than without a limit a step may take, as 20%
    #[arg(long, value_name = "SHARE", default_value = "20%", value_parser = value::share)]
    pub slowdown: f64,
    /// How room is made, separated by commas: a column for each
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "swap,recompute,both"
    )]
    pub methods: Vec<Methods>,
}

/// Arguments of `compare`.
#[derive(Clone, Debug, Args)]
pub struct CompareArgs {
    /// Which training steps, on which devices.
    #[command(flatten)]
    pub steps: TracesArgs,
    /// Budgets, separated by commas: shares of a trace's peak, as 50%, or amounts, as 96MiB
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "70%,50%,35%"
    )]
    pub budget: Vec<BudgetArg>,
    /// Policies, separated by commas [default: all but none, which the others are compared with]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub policy: Vec<Policy>,
    /// How vtensor and portfolio make room, separated by commas: a row for each. Their names go on
    /// with a dash then, as vtensor-both; swap alone is just vtensor
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "swap,recompute,both"
    )]
    pub methods: Vec<Methods>,
    /// The page size [default: the device's, or a smaller one where an op would not fit]
    #[arg(long, value_name = "BYTES", value_parser = value::page_bytes)]
    pub page_bytes: Option<PageBytes>,
    /// Plan without one of the planner's tricks, to see what it is worth
    #[arg(long, value_name = "TRICK", value_parser = value::without, help = without_help())]
    pub without: Option<Tricks>,
    /// Write all cells to this file, as CSV
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Draw time over budget into this file, as SVG: a panel for each trace and device
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}

/// The help of `--without`: the names have one home.
fn without_help() -> String {
    let names = Tricks::NAMES.join(", ");
    format!("Leave out one trick of the planner, to see what it is worth: {names}")
}

impl ReplayArgs {
    /// The replay of a run without a command.
    #[must_use]
    pub fn bundled() -> Self {
        Self {
            task: TaskArgs::bundled(),
            spill: SpillArgs::default(),
            gpu: GpuArgs::default(),
            steps: const { NonZeroU32::new(3).expect("3 is not 0") },
            scale: 1.0 / 16.0,
            paced: false,
            time_scale: None,
            link_gbps: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn commands_are_read() {
        let cli =
            parse("x plan t.json --device d --budget 50% --policy lru --page-bytes 64KiB -o f")
                .expect("sound");
        let Some(Command::Plan(plan)) = cli.command else {
            panic!("{cli:?}");
        };
        assert_eq!(plan.task.budget, BudgetArg::Percent(50.0));
        assert_eq!(plan.task.policy(), Policy::Lru);
        assert_eq!(plan.task.page_bytes.map(PageBytes::get), Some(65_536));
        assert_eq!(plan.output, Some("f".into()));
        let line = "x replay t --device d --budget 1GB --spill file:/var/tmp --steps 9 --scale 1/8 \
                    --paced --link-gbps 2.5 --json";
        let cli = parse(line).expect("sound");
        assert!(cli.json);
        let Some(Command::Replay(replay)) = cli.command else {
            panic!("{cli:?}");
        };
        assert_eq!(
            replay.spill.spill,
            crate::value::SpillArg::File("/var/tmp".into())
        );
        assert_eq!(
            (replay.steps.get(), replay.scale, replay.paced),
            (9, 0.125, true)
        );
        assert_eq!(replay.link_gbps, Some(2.5));
        let cli = parse("x").expect("the main job needs no arguments");
        assert!(cli.command.is_none() && !cli.json);
    }

    #[test]
    fn defaults_of_the_command_line_and_of_the_bundled_run_agree() {
        let cli =
            parse("x replay resnet50_b32_sgdm --device agx_orin --budget 50%").expect("sound");
        let Some(Command::Replay(replay)) = cli.command else {
            panic!("{cli:?}");
        };
        assert_eq!(
            format!("{replay:?}"),
            format!("{:?}", ReplayArgs::bundled())
        );
    }

    #[test]
    fn the_help_teaches() {
        let mut help = Cli::command().render_long_help().to_string();
        for mut command in Cli::command().get_subcommands().cloned() {
            help += &command.render_long_help().to_string();
        }
        for wanted in [
            "Examples:",
            "Units:",
            "50%",
            "96MiB",
            "file:",
            "1/64",
            "Exit status",
        ] {
            assert!(help.contains(wanted), "{wanted} is not in\n{help}");
        }
        let policies = Policy::ALL.map(Policy::name);
        assert!(
            policies.iter().all(|policy| help.contains(policy)),
            "{policies:?}"
        );
        assert!(help.contains(crate::built_in::NAME));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "x plan",
            "x plan t --device d",
            "x plan t --device d --budget none",
            "x plan t --device d --budget 50% --policy best",
            "x plan t --device d --budget 50% --page-bytes 3",
            "x replay t --device d --budget 50% --steps 0",
            "x replay t --device d --budget 50% --scale 2",
            "x replay t --device d --budget 50% --spill tape",
            "x verify",
            "x train --policy best",
            "x train --steps 3 --epochs 2",
            "x train --model vgg",
            "x probe --gpu-spill tape",
        ] {
            assert_eq!(
                parse(line).map(|_| ()).map_err(|e| e.exit_code()),
                Err(2),
                "{line}"
            );
        }
    }
}
