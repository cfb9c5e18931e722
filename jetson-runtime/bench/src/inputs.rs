//! What plan and replay start from: trace, device and budget, read and checked.

use std::fmt::Display;
use std::fs::File;
use std::path::Path;

use lgm::planner::{Methods, Request};
use lgm::policy::Policy;
use lgm::profile::{Profile, Profiles};
use lgm::skeleton::Skeleton;
use lgm::trace::{Tensor, Trace, TraceError};
use vtensor::{Bytes, Kinds, PageBytes, limits};

use crate::args::{FixedArg, TaskArgs};
use crate::error::BenchError;
use crate::trace_file;

/// What plan and replay start from.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The recorded step.
    pub trace: Trace,
    /// Its skeleton, with the device's durations.
    pub skeleton: Skeleton,
    /// The device.
    pub profile: Profile,
    /// The budget, in bytes.
    pub budget: Bytes,
    /// Which tensors keep their address, beside those of which the trace says so.
    pub fixed: Option<FixedArg>,
}

impl Inputs {
    /// Reads everything that a task names.
    ///
    /// # Errors
    /// If a file cannot be used, or the device is unknown to the profiles or to the trace.
    pub fn read(task: &TaskArgs) -> Result<Self, BenchError> {
        let profiles = profiles(task.devices.as_deref())?;
        let profile = profiles.get(&task.device)?.clone();
        let trace = trace_file::open(&task.trace)?;
        let name = task.trace.display();
        Ok(Self {
            budget: task.budget.resolve(trace.peak_bytes()),
            skeleton: skeleton(&trace, &name, &profile, task.fixed)?,
            trace,
            profile,
            fixed: task.fixed,
        })
    }

    /// The same on a device whose link has that speed in both directions, in 10^9 bytes per
    /// second.
    #[must_use]
    pub fn with_link_gbps(mut self, gbps: Option<f64>) -> Self {
        if let Some(gbps) = gbps {
            self.profile.link.out_bps = gbps * 1e9;
            self.profile.link.in_bps = gbps * 1e9;
        }
        self
    }

    /// The same without the persistent tensors of some kinds, which stay in memory and take their
    /// share of the budget; and how much that is.
    ///
    /// # Errors
    /// If they alone take more than the budget.
    pub fn keeping(mut self, kinds: Kinds) -> Result<(Self, Bytes), BenchError> {
        let stays = |tensor: &Tensor| tensor.persistent && kinds.contains(tensor.kind);
        let kept = self.trace.tensors().iter().filter(|tensor| stays(tensor));
        let kept = Bytes(
            kept.map(|tensor| tensor.bytes.0.next_multiple_of(limits::TENSOR_ALIGN))
                .sum(),
        );
        let rest = self.budget.0.checked_sub(kept.0);
        self.budget = rest.map(Bytes).ok_or(BenchError::Kept {
            kept,
            budget: self.budget,
        })?;
        let name = "what is not kept";
        let rest = self.trace.without(stays);
        self.trace = rest.map_err(|source| refused(&name, source))?;
        self.skeleton = skeleton(&self.trace, &name, &self.profile, self.fixed)?;
        Ok((self, kept))
    }

    /// What to ask the planner.
    #[must_use]
    pub fn request(
        &self,
        policy: Policy,
        methods: Methods,
        page: Option<PageBytes>,
    ) -> Request<'_> {
        Request {
            skeleton: &self.skeleton,
            profile: &self.profile,
            budget: self.budget,
            policy,
            methods,
            page,
            trace_digest: self.trace.digest(),
            model: self.trace.model(),
        }
    }
}

/// What a trace says about memory, with a device's durations and fixed addresses.
///
/// # Errors
/// If the trace has no durations for the device.
pub fn skeleton(
    trace: &Trace,
    name: &impl Display,
    profile: &Profile,
    fixed: Option<FixedArg>,
) -> Result<Skeleton, BenchError> {
    let skeleton = trace.skeleton(&profile.name);
    let mut skeleton = skeleton.map_err(|source| refused(name, source))?;
    if let Some(fixed) = fixed {
        fixed.fix(&mut skeleton);
    }
    Ok(skeleton)
}

fn refused(name: &impl Display, source: TraceError) -> BenchError {
    BenchError::Trace {
        name: name.to_string(),
        source,
    }
}

/// The device profiles of a file, or those that are built in.
///
/// # Errors
/// If the file cannot be used.
pub fn profiles(path: Option<&Path>) -> Result<Profiles, BenchError> {
    let Some(path) = path else {
        return Ok(Profiles::builtin());
    };
    let file = File::open(path).map_err(|source| BenchError::File {
        path: path.into(),
        source,
    })?;
    Ok(Profiles::read(file)?)
}

/// The profiles of the named devices; without names, of all that a trace has durations for.
///
/// # Errors
/// If a device is unknown.
pub fn chosen<'a>(
    profiles: &'a Profiles,
    names: &[String],
    trace: &Trace,
) -> Result<Vec<&'a Profile>, BenchError> {
    if names.is_empty() {
        let known = |profile: &&Profile| trace.devices().contains(&profile.name);
        return Ok(profiles.iter().filter(known).collect());
    }
    let named = names.iter().map(|name| Ok(profiles.get(name)?));
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundled_task_is_complete() {
        let inputs = Inputs::read(&TaskArgs::bundled()).expect("all built in");
        assert_eq!(inputs.budget.0, inputs.trace.peak_bytes().0 / 2);
        assert_eq!(inputs.profile.name, "agx_orin");
        let compute = inputs.trace.compute_ns("agx_orin").expect("known");
        assert_eq!(inputs.skeleton.compute_ns(), compute);
    }

    #[test]
    fn an_unknown_device_is_named() {
        let mut task = TaskArgs::bundled();
        task.device = "tx1".into();
        let error = Inputs::read(&task).expect_err("unknown");
        assert_eq!(error.kind(), "device");
        assert!(error.to_string().contains("there are agx_orin"), "{error}");
    }
}
