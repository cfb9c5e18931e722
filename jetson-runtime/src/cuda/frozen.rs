//! The phase of execution on a GPU: each step enqueues its waits, and the copies that it releases.
//!
//! In: the application's ops, in the recorded order; between `step_begin` and `step_end` it
//! enqueues its kernels on [`Frozen::stream`]. Out: for each op the addresses of its tensors.
//!
//! Rules, in the words of the contract: beginning a step makes it wait for what it needs (E1);
//! ending it lets the copies begin that it releases (E2, E3, E4). How, is the matter of `copies`.
//! Events come in two sets, used in turn; a set is used again only after the host has seen its
//! iteration complete (E5): where streams make the copies, for that alone the host ever waits.
//!
//! Guarantees: the step path allocates nothing and takes no lock of its own. A failed call ends
//! the program: every later call answers an error (E6). A call may also tell of work that was
//! enqueued before, and whose is not known: so what is intact can be saved if nothing had been
//! enqueued since the GPU was at rest, or if the program is given up without a failure.
//!
//! Limits: not yet captured as a CUDA graph.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use lgm::plan::Plan;
use vtensor::{Bytes, OpIndex, TensorId};

use super::ahead::{AHEAD, set};
use super::copies::Copies;
use super::device::Device;
use super::error::CudaError;
use super::mechanism::{Backing, Mechanism, Taken};
use super::queued::With;
use super::stats::Stats;
use super::stream::{Events, Stream};
use crate::content::Content;
use crate::course::Course;
use crate::error::RuntimeError;
use crate::fault::Fault;
use crate::scale::Scale;
use crate::stats::elapsed_ns;
use crate::step::Accesses;
use crate::table::{StepRow, Table};

/// What a program owns. Fields are dropped in this order, after the streams have come to rest.
pub(crate) struct Parts {
    pub(super) copies: Copies,
    pub(super) compute: Arc<Stream>,
    /// Two sets of one for each stream, for the host.
    pub(super) ends: Events,
    pub(crate) table: Table,
    pub(crate) content: Content,
    pub(super) backing: Box<dyn Backing>,
    pub(crate) plan: Plan,
    pub(super) scale: Scale,
    pub(super) mechanism: Mechanism,
    pub(super) duplex: bool,
    pub(super) fault: Option<Fault>,
    pub(super) device: Device,
}

impl Parts {
    /// The streams: that of steps first.
    fn streams(&self) -> impl Iterator<Item = &Stream> {
        std::iter::once(&*self.compute).chain(self.copies.streams())
    }

    /// Waits until every stream is at rest.
    pub(super) fn synchronize(&self) -> Result<(), CudaError> {
        self.streams().try_for_each(Stream::synchronize)
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        // Whatever a stream still does with this memory comes to its end first.
        self.streams().for_each(Stream::rest);
    }
}

/// A program in execution. Calls may come from any thread, one at a time.
pub struct Frozen {
    pub(super) parts: Parts,
    pub(super) course: Course,
    pub(super) over: bool,
    /// Whether anything may have been enqueued since the GPU was seen at rest.
    unseen: bool,
    /// Whether something that was enqueued may have failed.
    pub(super) doubt: bool,
    host_waits: u64,
    host_wait_ns: u64,
}

impl Frozen {
    pub(super) fn new(parts: Parts) -> Self {
        Self {
            course: Course::new(&parts.table),
            over: false,
            unseen: false,
            doubt: false,
            host_waits: 0,
            host_wait_ns: 0,
            parts,
        }
    }

    /// Begins an iteration: waits on the host until the last but one is complete.
    ///
    /// # Errors
    /// If an iteration runs already, or the GPU failed.
    pub fn iteration_begin(&mut self) -> Result<(), RuntimeError> {
        self.course.check_rest("iteration_begin")?;
        self.check()?;
        let next = self.course.iteration + 1;
        if next > AHEAD {
            let begin = Instant::now();
            let seen = self.await_end(next - AHEAD);
            if !self.check_call(seen)? {
                self.host_waits += 1;
                self.host_wait_ns += elapsed_ns(begin);
            }
        }
        let Parts { copies, plan, .. } = &mut self.parts;
        let begun = copies.begin_iteration(next, &plan.skeleton.tensors);
        self.check_call(begun)?;
        self.course.begin();
        Ok(())
    }

    /// Waits on the host for the end of an iteration. Answers whether it was over already.
    fn await_end(&self, iteration: u64) -> Result<bool, CudaError> {
        let mut over = true;
        for stream in 0..self.parts.streams().count() {
            over &= self.parts.ends.wait(end_event(iteration, stream))?;
        }
        Ok(over)
    }

    /// Begins the step of op `op`: lets the stream wait until its tensors are in place (E1).
    ///
    /// # Errors
    /// If `op` is not the op that was recorded here, no iteration runs, a step is open, or the GPU
    /// failed.
    #[inline]
    pub fn step_begin(&mut self, op: OpIndex) -> Result<Accesses<'_>, RuntimeError> {
        let row = *self.course.check_step(&self.parts.table, op)?;
        self.check()?;
        let bound = self.parts.device.calls().map(|_| ());
        self.check_call(bound)?;
        self.unseen = true;
        let (step, needed) = (self.course.next_step, self.course.needed(&row));
        let parts = &mut self.parts;
        let tensors = &parts.plan.skeleton.tensors;
        let begun = parts
            .copies
            .begin_step(step, needed, &parts.compute, tensors);
        self.check_call(begun)?;
        self.course.open();
        if row.fill_count > 0 {
            let filled = self.fill_scratch(&row);
            self.check_call(filled)?;
        }
        Ok(Accesses::new(self.parts.table.accesses_of(&row)))
    }

    /// Gives the scratch of the open step, which runs an op again, what it begins with.
    fn fill_scratch(&self, row: &StepRow) -> Result<(), CudaError> {
        let (parts, calls) = (&self.parts, self.parts.device.calls()?);
        let address = |pointer: NonNull<u8>| pointer.addr().get() as u64;
        parts.table.fills_of(row).iter().try_for_each(|fill| {
            let (to, from) = (address(fill.to), address(fill.from));
            // SAFETY: both are tensors of the open step, which the stream has waited for; tensors
            // of a step do not overlap, and memory and stream live as long as the program.
            unsafe { calls.copy_inside_async(to, from, fill.bytes, parts.compute.raw()) }
        })
    }

    /// Ends the step: its kernels are enqueued, and the copies that wait for them are, here.
    ///
    /// # Errors
    /// If no step is open, or the GPU failed.
    #[inline]
    pub fn step_end(&mut self) -> Result<(), RuntimeError> {
        let released = self.course.releases(&self.parts.table)?;
        let step = self.course.next_step;
        let new = self.course.close(released);
        let ended = self.end(step, new.then_some(released));
        self.check_call(ended)
    }

    fn end(&mut self, step: usize, released: Option<[u64; 2]>) -> Result<(), CudaError> {
        self.parts.device.calls()?;
        let parts = &mut self.parts;
        if let Some(released) = released {
            let with = With {
                table: &parts.table,
                backing: &*parts.backing,
                compute: &parts.compute,
            };
            parts.copies.release(step, released, with)?;
        }
        // SAFETY: the memory lives as long as the streams; the step's kernels are enqueued.
        unsafe { parts.backing.step_ended(step, &parts.compute) }
    }

    /// Ends the iteration. The GPU may still be at it; the next one may begin at once.
    ///
    /// # Errors
    /// If a step is open, the iteration has ops left, or the GPU failed.
    pub fn iteration_end(&mut self) -> Result<(), RuntimeError> {
        self.course.end(&self.parts.table)?;
        let iteration = self.course.iteration;
        let recorded = self.parts.device.calls().and_then(|_| {
            let mut streams = self.parts.streams().enumerate();
            streams.try_for_each(|(index, stream)| {
                stream.record(self.parts.ends.get(end_event(iteration, index)))
            })
        });
        self.check_call(recorded)
    }

    /// Waits on the host until all that was enqueued is complete. Between iterations, the
    /// persistent tensors then are at HOME.
    ///
    /// # Errors
    /// If the GPU failed.
    pub fn quiesce(&mut self) -> Result<(), RuntimeError> {
        self.check()?;
        let Parts { copies, plan, .. } = &mut self.parts;
        let drained = copies.drain(&plan.skeleton.tensors);
        self.check_call(drained)?;
        let synchronized = self.parts.synchronize();
        self.check_call(synchronized)?;
        self.unseen = false;
        Ok(())
    }

    /// Takes note that a call of the driver failed that the application made itself: it may have
    /// told of something that the program had enqueued. The program is over then, and nothing
    /// that was enqueued since the GPU was at rest is said to be intact.
    pub fn doubt(&mut self) {
        self.over = true;
        self.doubt |= self.unseen;
    }

    fn check(&self) -> Result<(), CudaError> {
        match self.over {
            true => Err(CudaError::Over),
            false => Ok(()),
        }
    }

    /// Notes the end of the program if a call failed. Which one is not known: a call may tell of
    /// work that was enqueued long before.
    #[inline]
    pub(super) fn check_call<T>(
        &mut self,
        result: Result<T, impl Into<RuntimeError>>,
    ) -> Result<T, RuntimeError> {
        result.map_err(|error| {
            let error = error.into();
            match &error {
                RuntimeError::Cuda(_) => self.doubt(),
                // A disk's, which leaves nothing open that the GPU does.
                _ => self.over = true,
            }
            error
        })
    }

    /// The stream that the application's kernels go to, a `CUstream`. It lives as long as this.
    #[must_use]
    pub fn stream(&self) -> *mut c_void {
        self.parts.compute.raw()
    }

    /// The device.
    #[must_use]
    pub const fn device(&self) -> &Device {
        &self.parts.device
    }

    /// The mechanism.
    #[must_use]
    pub const fn mechanism(&self) -> Mechanism {
        self.parts.mechanism
    }

    /// What was done so far: enqueued, that is; it may not be complete.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            iterations: self.course.iterations(),
            host_waits: self.host_waits,
            host_wait_ns: self.host_wait_ns,
            ..Stats::default()
        };
        self.parts.copies.count(&mut stats);
        stats
    }

    /// The memory that was taken.
    #[must_use]
    pub fn taken(&self) -> Taken {
        let mut taken = self.parts.backing.taken();
        taken.pinned.0 += self.parts.copies.pinned().0;
        taken
    }

    /// The size of a persistent tensor, as executed; `None` for other tensors.
    #[must_use]
    pub fn tensor_bytes(&self, tensor: TensorId) -> Option<Bytes> {
        self.parts.content.size(tensor).map(Bytes)
    }
}

/// The event of the end of an iteration on a stream.
fn end_event(iteration: u64, stream: usize) -> usize {
    set(iteration) * 3 + stream
}
