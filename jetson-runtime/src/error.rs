//! What can go wrong in the world: limits of the kernel, full disks, failed copies, calls out of
//! order. Messages say what was wanted, what was found, and what to do.
//!
//! Limits: no variant that the step path of a frozen program can return owns heap memory, so even a
//! failing step allocates nothing. Violations of a verified plan are our bugs and panic instead.

use std::path::PathBuf;

use lgm::trace::TraceError;
use nix::errno::Errno;
use vtensor::{Bytes, OpIndex, StepIndex, TensorId};

use crate::cuda::CudaError;
use crate::failure::{Direction, Failure, ShortName, said};
use crate::live::LostRange;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The executed page size does not fit the planned one, or the machine.
    #[error(
        "an executed page of {executed} bytes was wanted for a plan with pages of {planned} bytes \
         on a machine with pages of {system} bytes; take a power of two between the last two"
    )]
    PageSize {
        /// The page size of the plan.
        planned: u64,
        /// The page size that was wanted.
        executed: u64,
        /// The page size of the machine.
        system: u64,
    },
    /// An offset of the plan does not survive the division by the scale.
    #[error(
        "offsets of the plan are multiples of {divisor} bytes, the scale wants {ratio}; take an \
         executed page of at least {} bytes", page_min.0
    )]
    Indivisible {
        /// What all offsets of the plan are multiples of.
        divisor: u64,
        /// Planned page over executed page.
        ratio: u64,
        /// The smallest executed page with which the plan works.
        page_min: Bytes,
    },
    /// The plan has a kind of step that this runtime does not know.
    #[error("step {0} has a kind that this runtime does not know; use the runtime of its planner")]
    StepKind(StepIndex),
    /// The plan needs more mappings than the kernel grants.
    #[error(
        "the windows need {needed} mappings of the kernel, {free} are free of {limit} \
         (vm.max_map_count); plan with larger pages, or raise the limit"
    )]
    Mappings {
        /// Mappings that the windows need.
        needed: u64,
        /// Mappings that are still free, a reserve for the application taken off.
        free: u64,
        /// The limit.
        limit: u64,
    },
    /// The plan needs more virtual memory than is allowed.
    #[error(
        "the windows need {needed} of virtual memory, {limit} are allowed; plan with fewer \
         windows, or with smaller executed pages"
    )]
    VirtualMemory {
        /// Virtual memory that the windows need.
        needed: Bytes,
        /// Virtual memory that is allowed.
        limit: Bytes,
    },
    /// There is not enough memory for the arena or a spill tier in RAM.
    #[error("the {what} needs {needed} of memory, {available} are available; take a smaller one")]
    Memory {
        /// What needs it.
        what: &'static str,
        /// How much it needs.
        needed: Bytes,
        /// How much the machine has.
        available: Bytes,
    },
    /// The directory of a spill file cannot be used.
    #[error(
        "a spill file could not be made in {}: {}; {}", directory.display(), errno.desc(),
        match errno {
            Errno::ENOSPC | Errno::EDQUOT => "free some space, or name another directory",
            _ => "name a directory that exists and that you may write",
        }
    )]
    SpillFile {
        /// The directory.
        directory: PathBuf,
        /// What the system said.
        errno: Errno,
    },
    /// The directory of a spill file is in memory, which spilling is to free.
    #[error(
        "files in {} are in memory: spilling there frees none; name a directory on a disk, or \
         accept it (--memory-backed; `StorageOptions::memory_backed`; VT_CONFIG_SPILL_IN_MEMORY; \
         for a device's owner the setting `spill_in_memory`)",
        directory.display()
    )]
    SpillInMemory {
        /// The directory.
        directory: PathBuf,
    },
    /// The file system has no room for the spill file.
    #[error(
        "the spill file needs {needed} in {}: {}; free some space, or name another directory",
        directory.display(), errno.desc()
    )]
    SpillSpace {
        /// The directory.
        directory: PathBuf,
        /// The size of the spill tier.
        needed: Bytes,
        /// What the system said.
        errno: Errno,
    },
    /// The system refused something that has no variant of its own.
    #[error("the system refused to {what}: {}", errno.desc())]
    System {
        /// What was wanted.
        what: &'static str,
        /// What the system said.
        errno: Errno,
    },
    /// A call came out of order. Nothing was changed.
    #[error("{call} was called {found}; {advice}")]
    Order {
        /// The call.
        call: &'static str,
        /// What the state was.
        found: &'static str,
        /// What to call instead.
        advice: &'static str,
    },
    /// The application ran another op than the one that was recorded. Nothing was changed.
    #[error(
        "step {step} was recorded as op {expected}, the application began op {given}; run the \
         recorded sequence, or abandon the program and record again"
    )]
    Diverged {
        /// The step.
        step: StepIndex,
        /// The op that was recorded.
        expected: OpIndex,
        /// The op that was given.
        given: OpIndex,
    },
    /// The iteration has ended for the program, but not for the application.
    #[error(
        "all {steps} recorded ops have run, the application began op {given}; end the iteration"
    )]
    PastTheEnd {
        /// How many ops an iteration has.
        steps: u32,
        /// The op that was given.
        given: OpIndex,
    },
    /// The application ended the iteration before its last op.
    #[error("the iteration was ended before op {expected}, which was recorded; run it first")]
    EndedEarly {
        /// The op that comes next.
        expected: OpIndex,
    },
    /// A copy failed. The program cannot go on.
    #[error("{0}")]
    CopyFailed(Failure),
    /// An engine is gone without a report: a bug, whose panic is on the standard error stream.
    #[error("a copy engine panicked; this is a bug, please report the message that it printed")]
    EngineDied,
    /// A handle that stands for no tensor.
    #[error(
        "{0:#x} is no tensor: it was never created, or it was destroyed, or its iteration is over"
    )]
    NoTensor(u64),
    /// A tensor cannot be made like this.
    #[error("a tensor of {bytes} bytes with a name of {name_bytes} bytes was wanted; {advice}")]
    TensorDesc {
        /// The size that was wanted.
        bytes: u64,
        /// The bytes of its name.
        name_bytes: usize,
        /// What to do.
        advice: &'static str,
    },
    /// A tensor is used inside an iteration in a way that only works outside.
    #[error(
        "tensor '{name}' outlives iterations: it cannot be destroyed in the middle of one; end \
         the iteration first"
    )]
    DestroyedInside {
        /// The tensor.
        name: ShortName,
    },
    /// An op reads a tensor of its iteration that nothing has written.
    #[error(
        "op '{op}' reads tensor '{name}', which nothing has written in this iteration; write it \
         first, or let the op read and write it"
    )]
    ReadBeforeWrite {
        /// The op.
        op: ShortName,
        /// The tensor.
        name: ShortName,
    },
    /// The tensors of one op do not fit into the budget.
    #[error(
        "op '{op}' uses {needed} at once, the budget is {budget}; give it that much, or split \
         the op"
    )]
    OpTooLarge {
        /// The op.
        op: ShortName,
        /// What its tensors take.
        needed: Bytes,
        /// The arena.
        budget: Bytes,
    },
    /// An op was to run again later, and nothing is there to run it.
    #[error("op '{op}' was begun as one that may run again; set a replayer first")]
    NoReplayer {
        /// The op.
        op: ShortName,
    },
    /// An op could not run again.
    #[error(
        "op '{op}' was run again and failed: {reason}; what it was to compute is lost, the rest of \
         the iteration goes on on demand"
    )]
    Replay {
        /// The op.
        op: ShortName,
        /// What the replayer said.
        reason: &'static str,
    },
    /// A pinned tensor does not fit beside the others.
    #[error(
        "tensor '{name}' is to stay in the arena and needs {needed}, of which {room} are not taken \
         by others that stay; raise the budget, or let more tensors move"
    )]
    PinTooLarge {
        /// The tensor.
        name: ShortName,
        /// What it takes.
        needed: Bytes,
        /// What is left.
        room: Bytes,
    },
    /// Nothing that is alive was allocated at an address.
    #[error("nothing that is alive was allocated at {0:#x}; take the pointer that alloc answered")]
    NoAllocation(usize),
    /// Iterations would write more to a spill file than they may.
    #[error(
        "iterations of kind {key} write {written} each, {per_day} a day at the pace that is \
         predicted; {max} are allowed, enough for {iterations} iterations: raise the budget, allow \
         more, or spill to host memory"
    )]
    Wear {
        /// The kind of iteration.
        key: u64,
        /// What an iteration writes.
        written: Bytes,
        /// What that is in a day.
        per_day: Bytes,
        /// What is allowed in a day.
        max: Bytes,
        /// How many iterations that is enough for.
        iterations: u64,
    },
    /// A saved program cannot be used.
    #[error("the program of key {key} cannot be loaded: {reason}")]
    NotLoaded {
        /// The kind of iteration.
        key: u64,
        /// Why.
        reason: String,
    },
    /// The spill tier is full while nothing is frozen.
    #[error(
        "the spill tier has no room for {needed}: {used} of {max} are in use; allow it more, or \
         give more memory"
    )]
    SpillFull {
        /// What was to be spilled.
        needed: Bytes,
        /// What is spilled.
        used: Bytes,
        /// The limit.
        max: Bytes,
    },
    /// A copy failed while nothing is frozen. What it was to bring or take is left where it is.
    #[error(
        "the {direction} of tensor '{name}' ({bytes}) failed: {}; {}, end or abort the iteration \
         and save what matters", said(*errno),
        match direction {
            Direction::Out => "nothing is lost",
            Direction::In => "what the tier still has can be read again",
        }
    )]
    Spilling {
        /// Which way.
        direction: Direction,
        /// The tensor.
        name: ShortName,
        /// Its size.
        bytes: Bytes,
        /// What the system said.
        errno: Errno,
    },
    /// A range that leaves its tensor.
    #[error("bytes {offset}..{end} leave tensor '{name}' of {} bytes", bytes.0)]
    Bounds {
        /// The tensor.
        name: ShortName,
        /// The first byte.
        offset: u64,
        /// One past the last byte.
        end: u64,
        /// The size of the tensor.
        bytes: Bytes,
    },
    /// Some of the content of a tensor is gone.
    #[error(
        "bytes {}..{} of tensor '{name}' were {}", lost.offset, lost.end(), lost.loss.said()
    )]
    LostContent {
        /// The tensor.
        name: ShortName,
        /// The first of the bytes that are asked for and gone.
        lost: LostRange,
    },
    /// An op that recording found cannot be put into a trace.
    #[error("the recorded iteration cannot be written down: {0}")]
    Transcript(#[from] TraceError),
    /// No program could be made.
    #[error("no program was made for iterations of key {key}: {reason}")]
    NotPlanned {
        /// The kind of iteration.
        key: u64,
        /// Why.
        reason: String,
    },
    /// A tensor that does not exist, or that does not outlive an iteration.
    #[error("tensor {0} is not a persistent tensor of this program")]
    NotPersistent(TensorId),
    /// A range that leaves its tensor.
    #[error("bytes {offset}..{end} leave tensor {tensor} of {} bytes", bytes.0)]
    OutOfRange {
        /// The tensor.
        tensor: TensorId,
        /// The first byte.
        offset: u64,
        /// One past the last byte.
        end: u64,
        /// The size of the tensor, as executed.
        bytes: Bytes,
    },
    /// The content is not kept here: the next op that uses the tensor overwrites it.
    #[error(
        "tensor {tensor} holds nothing at byte {offset} now: the next op that uses it overwrites \
         it; read it right after the op that wrote it"
    )]
    Dead {
        /// The tensor.
        tensor: TensorId,
        /// The first byte that is not kept.
        offset: u64,
    },
    /// The content was lost by a failure.
    #[error("tensor {tensor} lost its content at byte {offset}; restore it from a checkpoint")]
    Lost {
        /// The tensor.
        tensor: TensorId,
        /// The first byte that is lost.
        offset: u64,
    },
    /// A GPU cannot be used, or a call of its driver failed.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// The spill tier failed while the application read or wrote a tensor.
    #[error("the spill tier failed at byte {offset} of tensor {tensor}: {}", said(*errno))]
    Tier {
        /// The tensor.
        tensor: TensorId,
        /// Where what failed begins in it, in bytes.
        offset: u64,
        /// What the system said.
        errno: Errno,
    },
}

impl RuntimeError {
    /// An error of a call that has no variant of its own.
    pub(crate) const fn system(what: &'static str) -> impl Fn(Errno) -> Self {
        move |errno| Self::System { what, errno }
    }
}
