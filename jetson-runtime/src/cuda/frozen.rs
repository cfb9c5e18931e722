//! The phase of execution on a GPU: each step enqueues its waits, and the copies that it releases.
//!
//! In: the application's ops, in the recorded order; between `step_begin` and `step_end` it
//! enqueues its kernels on [`Frozen::stream`]. Out: for each op the addresses of its tensors.
//!
//! Rules, in the words of the contract: beginning a step enqueues its waits (E1) on the stream of
//! steps; ending it records its event, then enqueues the outs that it releases (E2), then the ins
//! (E3), with their waits; one copy stream takes both in that order (E4). A wait is always for an
//! event that was recorded before (V2), which is asserted: a wait for another one would silently
//! do nothing. Events come in two sets, used in turn; a set is used again only after the host has
//! seen its iteration complete (E5), and for that alone the host ever waits.
//!
//! Guarantees: the step path allocates nothing and takes no lock of its own. A failed call ends
//! the program: every later call answers an error (E6). A call may also tell of work that was
//! enqueued before, and whose is not known: so what is intact can be saved if nothing had been
//! enqueued since the GPU was at rest, or if the program is given up without a failure.
//!
//! Limits: not yet captured as a CUDA graph.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::time::Instant;

use lgm::plan::Plan;
use vtensor::{Bytes, OpIndex, TensorId};

use super::device::Device;
use super::error::CudaError;
use super::mechanism::{Backing, Mechanism, Taken};
use super::stats::Stats;
use super::stream::{Events, Stream};
use super::waits::{Awaited, CopyWaits, Waits};
use crate::content::Content;
use crate::course::Course;
use crate::error::RuntimeError;
use crate::failure::Direction;
use crate::scale::Scale;
use crate::stats::elapsed_ns;
use crate::step::Accesses;
use crate::table::{Command, StepRow, Table};

/// Iterations that the application may be ahead of the GPU, and sets of events.
const AHEAD: u64 = 2;

/// The streams of a program.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) compute: Stream,
    pub(super) out: Stream,
    /// `None` where one stream takes both directions.
    pub(super) r#in: Option<Stream>,
}

impl Streams {
    pub(super) fn each(&self) -> impl Iterator<Item = &Stream> {
        [&self.compute, &self.out].into_iter().chain(&self.r#in)
    }

    fn of(&self, direction: Direction) -> &Stream {
        match (direction, &self.r#in) {
            (Direction::In, Some(stream)) => stream,
            _ => &self.out,
        }
    }
}

/// What a program owns. Fields are dropped in this order, after the streams have come to rest.
pub(super) struct Parts {
    pub(super) streams: Streams,
    /// Two sets, for order between streams.
    pub(super) events: Events,
    /// Two sets of one for each stream, for the host.
    pub(super) ends: Events,
    pub(super) waits: Waits,
    pub(super) table: Table,
    pub(super) content: Content,
    pub(super) backing: Box<dyn Backing>,
    pub(super) plan: Plan,
    pub(super) scale: Scale,
    pub(super) mechanism: Mechanism,
    pub(super) device: Device,
}

impl Parts {
    /// Waits until every stream is at rest.
    pub(super) fn synchronize(&self) -> Result<(), CudaError> {
        self.streams.each().try_for_each(Stream::synchronize)
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        // Whatever a stream still does with this memory comes to its end first.
        self.streams.each().for_each(Stream::rest);
    }
}

/// A program in execution. Calls may come from any thread, one at a time.
pub struct Frozen {
    pub(super) parts: Parts,
    pub(super) course: Course,
    /// In which iteration each event was recorded last, by set and number.
    recorded: Vec<u64>,
    /// Copies that were enqueued, by direction; absolute, as released counts are.
    pub(super) enqueued: [u64; 2],
    /// The copy whose enqueuing failed, by direction.
    pub(super) torn: [Option<u64>; 2],
    pub(super) over: bool,
    /// Whether anything may have been enqueued since the GPU was seen at rest.
    unseen: bool,
    /// Whether something that was enqueued may have failed.
    pub(super) doubt: bool,
    pub(super) stats: Stats,
}

impl Frozen {
    pub(super) fn new(parts: Parts) -> Self {
        let course = Course::new(&parts.table);
        Self {
            recorded: vec![0; 2 * parts.waits.events as usize],
            enqueued: course.released,
            torn: [None; 2],
            over: false,
            unseen: false,
            doubt: false,
            stats: Stats::default(),
            course,
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
                self.stats.host_waits += 1;
                self.stats.host_wait_ns += elapsed_ns(begin);
            }
        }
        self.course.begin();
        Ok(())
    }

    /// Waits on the host for the end of an iteration. Answers whether it was over already.
    fn await_end(&self, iteration: u64) -> Result<bool, CudaError> {
        let mut over = true;
        for stream in 0..self.parts.streams.each().count() {
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
        let waits = self.parts.waits.steps[self.course.next_step];
        for awaited in [waits.ins, waits.outs].into_iter().flatten() {
            let waited = self.wait(&self.parts.streams.compute, awaited);
            self.check_call(waited)?;
            self.stats.waits += 1;
        }
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
            unsafe { calls.copy_inside_async(to, from, fill.bytes, parts.streams.compute.raw()) }
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
        if let Some(released) = released {
            self.release(step, released)?;
        }
        // SAFETY: the memory lives as long as the streams; the step's kernels are enqueued.
        unsafe {
            self.parts
                .backing
                .step_ended(step, &self.parts.streams.compute)
        }
    }

    /// Enqueues the copies that step `step` releases.
    fn release(&mut self, step: usize, released: [u64; 2]) -> Result<(), CudaError> {
        let waits = self.parts.waits.steps[step];
        let end = waits.end.expect("a step that releases copies has an event");
        self.record(Direction::Out, Recorder::Compute, end)?;
        let event = Awaited {
            event: end,
            back: 0,
        };
        if waits.outs_wait {
            self.wait(&self.parts.streams.out, event)?;
            self.stats.waits += 1;
        }
        for direction in [Direction::Out, Direction::In] {
            if direction == Direction::In && waits.ins_wait {
                self.wait(self.parts.streams.of(Direction::In), event)?;
                self.stats.waits += 1;
            }
            while self.enqueued[direction.index()] < released[direction.index()] {
                self.copy(direction)?;
            }
        }
        Ok(())
    }

    /// Enqueues the next copy of a queue.
    fn copy(&mut self, direction: Direction) -> Result<(), CudaError> {
        let parts = &self.parts;
        let (commands, waits): (&[Command], &[CopyWaits]) = match direction {
            Direction::Out => (&parts.table.outs, &parts.waits.outs),
            Direction::In => (&parts.table.ins, &parts.waits.ins),
        };
        let number = self.enqueued[direction.index()];
        let row = number % commands.len() as u64;
        let row = crate::scale::to_usize(row);
        let (transfer, waits) = (commands[row].transfer, waits[row]);
        let stream = parts.streams.of(direction);
        if let Some(awaited) = waits.after {
            self.wait(stream, awaited)?;
            self.stats.waits += 1;
        }
        // SAFETY: the memory lives as long as the streams. The stream waits for all that the rules
        // ask for: its release step, the copies before it, and for an in the outs it names.
        if let Err(error) = unsafe { self.parts.backing.copy(&transfer, stream) } {
            self.torn[direction.index()] = Some(number);
            return Err(error);
        }
        self.enqueued[direction.index()] += 1;
        self.stats.moved[direction.index()] += transfer.bytes as u64;
        if let Some(event) = waits.done {
            self.record(direction, Recorder::Copies, event)?;
        }
        Ok(())
    }

    /// Lets a stream wait for an event of this iteration or the one before.
    fn wait(&self, stream: &Stream, awaited: Awaited) -> Result<(), CudaError> {
        let iteration = self.course.iteration - u64::from(awaited.back);
        // What the freeze brought is complete.
        if iteration == 0 {
            return Ok(());
        }
        let event = self.event(iteration, awaited.event);
        assert_eq!(
            self.recorded[event], iteration,
            "a wait is for an event that was recorded before (V2)"
        );
        stream.wait(self.parts.events.get(event))
    }

    fn record(
        &mut self,
        direction: Direction,
        recorder: Recorder,
        event: u32,
    ) -> Result<(), CudaError> {
        let event = self.event(self.course.iteration, event);
        let stream = match recorder {
            Recorder::Compute => &self.parts.streams.compute,
            Recorder::Copies => self.parts.streams.of(direction),
        };
        stream.record(self.parts.events.get(event))?;
        self.recorded[event] = self.course.iteration;
        Ok(())
    }

    fn event(&self, iteration: u64, event: u32) -> usize {
        set(iteration) * self.parts.waits.events as usize + event as usize
    }

    /// Ends the iteration. The GPU may still be at it; the next one may begin at once.
    ///
    /// # Errors
    /// If a step is open, the iteration has ops left, or the GPU failed.
    pub fn iteration_end(&mut self) -> Result<(), RuntimeError> {
        self.course.end(&self.parts.table)?;
        let iteration = self.course.iteration;
        let recorded = self.parts.device.calls().and_then(|_| {
            let mut streams = self.parts.streams.each().enumerate();
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
        result: Result<T, CudaError>,
    ) -> Result<T, RuntimeError> {
        match &result {
            Ok(_) => {}
            // It is made while the host waits: whatever the GPU did is known.
            Err(CudaError::Spill { .. }) => self.over = true,
            Err(_) => self.doubt(),
        }
        Ok(result?)
    }

    /// The stream that the application's kernels go to, a `CUstream`. It lives as long as this.
    #[must_use]
    pub const fn stream(&self) -> *mut c_void {
        self.parts.streams.compute.raw()
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
        Stats {
            iterations: self.course.iterations(),
            ..self.stats
        }
    }

    /// The memory that was taken.
    #[must_use]
    pub fn taken(&self) -> Taken {
        self.parts.backing.taken()
    }

    /// The size of a persistent tensor, as executed; `None` for other tensors.
    #[must_use]
    pub fn tensor_bytes(&self, tensor: TensorId) -> Option<Bytes> {
        self.parts.content.size(tensor).map(Bytes)
    }
}

/// Which stream records an event.
#[derive(Clone, Copy)]
enum Recorder {
    Compute,
    Copies,
}

/// The event of the end of an iteration on a stream.
fn end_event(iteration: u64, stream: usize) -> usize {
    set(iteration) * 3 + stream
}

/// Which of the two sets an iteration uses.
fn set(iteration: u64) -> usize {
    usize::from(!iteration.is_multiple_of(AHEAD))
}
