//! What to plan: the arguments that commands on recorded steps share.

use std::path::PathBuf;

use clap::Args;
use lgm::planner::Methods;
use lgm::policy::Policy;
use vtensor::PageBytes;

use super::FixedArg;
use crate::built_in;
use crate::error::BenchError;
use crate::value::{self, BudgetArg};

/// What to plan.
#[derive(Clone, Debug, Args)]
pub struct TaskArgs {
    /// A recorded training step: JSON, plain or gzip'ed; or the name of the built-in one,
    /// resnet50_b32_sgdm
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// The device whose durations, link and page size are used, such as agx_orin
    #[arg(long, value_name = "NAME")]
    pub device: String,
    /// Memory that the step may use: a share of the trace's peak, as 50%, or an amount, as 96MiB
    /// or 100663296
    #[arg(long, value_name = "AMOUNT")]
    pub budget: BudgetArg,
    /// What decides which tensors leave and when.
    #[arg(long, value_name = "POLICY", help = policy_help())]
    pub policy: Option<Policy>,
    /// How room is made: swap (tensors move), recompute (ops run again, nothing moves), or both,
    /// each where it is faster. Only the policies vtensor and portfolio run ops again [default:
    /// both; recompute on a GPU whose memory is the host's]
    #[arg(long, value_name = "METHODS")]
    pub methods: Option<Methods>,
    /// The page size, a power of two such as 64KiB [default: the device's, or a smaller one where
    /// an op would not fit]
    #[arg(long, value_name = "BYTES", value_parser = value::page_bytes)]
    pub page_bytes: Option<PageBytes>,
    /// A JSON file with device profiles, used instead of the built-in ones
    ///
    /// The names in it must be keys of the trace's `dur_us`. Its form is that of the built-in
    /// one, `lgm/src/devices.json`: {"schema": 1, "devices": {NAME: {"class": "A" to "E",
    /// "spill": "storage" or "host", "out_bps", "in_bps": bytes per second,
    /// "copy_latency_s", "duplex": true or false, "page_bytes"}}}
    #[arg(long, value_name = "FILE")]
    pub devices: Option<PathBuf>,
    /// Which tensors keep their address for life, beside those of which the trace says so: for
    /// applications that hold pointers. Such tensors are not made again
    #[arg(long, value_name = "WHICH", value_enum)]
    pub fixed: Option<FixedArg>,
}

/// What decides which tensors leave, unless something else is named.
const DEFAULT_POLICY: Policy = Policy::Vtensor;

/// The help of `--policy`: the names have one home.
fn policy_help() -> String {
    let names = Policy::ALL.map(Policy::name).join(", ");
    format!("What decides which tensors leave and when: {names} [default: {DEFAULT_POLICY}]")
}

impl TaskArgs {
    /// What decides which tensors leave and when.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy.unwrap_or(DEFAULT_POLICY)
    }

    /// How room is made, if not as is usual.
    ///
    /// # Errors
    /// If a policy makes room in one way only, and it is another.
    pub fn methods_or(&self, usual: Methods) -> Result<Methods, BenchError> {
        methods(self.policy(), self.methods, usual)
    }

    /// The task of a run without a command: the built-in trace at half of its memory.
    #[must_use]
    pub fn bundled() -> Self {
        Self {
            trace: built_in::NAME.into(),
            device: "agx_orin".into(),
            budget: BudgetArg::Percent(50.0),
            policy: None,
            methods: None,
            page_bytes: None,
            devices: None,
            fixed: None,
        }
    }
}

/// How a policy makes room: as is asked for, or else as is usual.
///
/// # Errors
/// If a policy makes room in one way only, and it is another.
pub fn methods(
    policy: Policy,
    asked: Option<Methods>,
    usual: Methods,
) -> Result<Methods, BenchError> {
    let able = |methods: &Methods| {
        let own = match policy {
            Policy::Checkpoint => Methods::Recompute,
            _ => Methods::Swap,
        };
        policy.is_in_pieces() || *methods == own
    };
    match asked {
        Some(methods) if !able(&methods) => Err(BenchError::Methods { policy, methods }),
        asked => Ok(asked.unwrap_or(usual)),
    }
}
