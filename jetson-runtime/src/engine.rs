//! Engines: threads that make the copies of a frozen program, in order.
//!
//! In: the immutable command table, up to the released counts. Out: the completed counts. With a
//! duplex link there is an out and an in engine (rules E2, E3); otherwise one engine takes all
//! commands in the order of rule E4.
//!
//! Guarantees: a command starts when those before it in its queue are complete, its step is
//! complete, and, for an in, the outs it names are. A failed command never advances its counter
//! (E6): its engine reports it on a ring, sets the failed state, wakes every waiter, and ends; the
//! other engine ends after the copy that it is at. Dropping [`Engines`] ends them in every state.
//!
//! Limit: a copy that the kernel does not return from (a disk that hangs) cannot be interrupted.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use lgm::skeleton::Tensor;
use nix::errno::Errno;
use rtrb::{Consumer, Producer, RingBuffer};
use vtensor::Bytes;

use crate::copier::{Copier, TierCopier, Transfer};
use crate::counters::Counters;
use crate::error::RuntimeError;
use crate::failure::{Direction, Failure, short_name};
use crate::fault::{Fault, Faulty};
use crate::scale::to_usize;
use crate::spill::Tier;
use crate::stats::elapsed_ns;
use crate::storage::TransferError;
use crate::table::{Command, Table};
use crate::throttle::{Throttle, Throttled};

/// A failure report on its way to the application: the command's row, and what the system said.
#[derive(Clone, Copy, Debug)]
struct Report {
    command: Command,
    iteration: u64,
    error: TransferError,
}

/// How engines of the host are built.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EngineOptions {
    pub(crate) duplex: bool,
    pub(crate) throttle: Option<Throttle>,
    pub(crate) fault: Option<Fault>,
}

/// The engines of a runtime.
pub(crate) struct Engines {
    counters: Arc<Counters>,
    threads: Vec<JoinHandle<()>>,
    reports: Vec<Consumer<Report>>,
}

impl Engines {
    /// Starts the engines, each with a copier that is made for its queue. They use addresses of the
    /// windows, which must outlive them.
    pub(crate) fn start(
        table: &Table,
        duplex: bool,
        counters: &Arc<Counters>,
        mut copier: impl FnMut(&[Command]) -> Result<Box<dyn Copier>, RuntimeError>,
    ) -> Result<Self, RuntimeError> {
        let queues = if duplex {
            vec![table.outs.clone(), table.ins.clone()]
        } else {
            vec![table.single_queue()]
        };
        let counts = [table.outs.len() as u64, table.ins.len() as u64];
        let mut engines = Self {
            counters: Arc::clone(counters),
            threads: Vec::with_capacity(queues.len()),
            reports: Vec::with_capacity(queues.len()),
        };
        for (parker, commands) in queues.into_iter().enumerate() {
            // An engine without commands would have nothing to wait for.
            if commands.is_empty() {
                continue;
            }
            let (producer, consumer) = RingBuffer::new(1);
            let engine = Engine {
                copier: copier(&commands)?,
                commands,
                counts,
                counters: Arc::clone(counters),
                parker,
                reports: producer,
            };
            let thread = thread::Builder::new()
                .name(format!("vtensor-engine-{parker}"))
                .spawn(move || engine.run())
                .map_err(|error| RuntimeError::System {
                    what: "start a copy engine",
                    errno: Errno::from_raw(error.raw_os_error().unwrap_or(0)),
                })?;
            engines.threads.push(thread);
            engines.reports.push(consumer);
        }
        Ok(engines)
    }

    /// The report of the command that failed, once; the engine's thread may be gone.
    pub(crate) fn failure(&mut self, tensors: &[Tensor]) -> Option<Failure> {
        let report = self
            .reports
            .iter_mut()
            .find_map(|reports| reports.pop().ok())?;
        let Command {
            transfer, index, ..
        } = report.command;
        Some(Failure {
            direction: transfer.direction,
            command: index,
            iteration: report.iteration,
            tensor: transfer.tensor,
            name: short_name(&tensors[transfer.tensor.index()].name),
            pieces: transfer.pieces,
            bytes: Bytes(transfer.bytes as u64),
            errno: report.error.errno,
            offset: Bytes(report.error.offset),
        })
    }

    /// Ends the engines after the copy that they are at, and waits for that.
    pub(crate) fn stop(&mut self) {
        self.counters.stop();
        for thread in self.threads.drain(..) {
            // A panic of an engine has set the failed state already; it is not ours to repeat.
            let _ = thread.join();
        }
    }
}

impl Drop for Engines {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The host's copier, with its adaptors.
pub(crate) fn copier(
    tier: &Arc<Tier>,
    counters: &Arc<Counters>,
    options: EngineOptions,
) -> Result<Box<dyn Copier>, RuntimeError> {
    let copier = Box::new(TierCopier::new(tier)?);
    Ok(adapted(copier, counters, options))
}

/// A copier with its adaptors.
pub(crate) fn adapted(
    mut copier: Box<dyn Copier>,
    counters: &Arc<Counters>,
    options: EngineOptions,
) -> Box<dyn Copier> {
    if let Some(fault) = options.fault {
        copier = Box::new(Faulty::new(copier, fault));
    }
    if let Some(throttle) = options.throttle {
        copier = Box::new(Throttled::new(copier, throttle, Arc::clone(counters)));
    }
    copier
}

/// One engine, on its own thread.
struct Engine {
    commands: Vec<Command>,
    /// Outs and ins of an iteration: the bases of absolute counts grow by them.
    counts: [u64; 2],
    copier: Box<dyn Copier>,
    counters: Arc<Counters>,
    /// Which parker of the counters is this engine's.
    parker: usize,
    reports: Producer<Report>,
}

impl Engine {
    fn run(mut self) {
        let _alarm = Alarm(Arc::clone(&self.counters));
        // The first copy that was not announced.
        let mut next = 0;
        for position in 0_u64.. {
            let (command, iteration) = self.at(position);
            let ready = match self.wait(&command, iteration) {
                Turn::End => return,
                Turn::Start(ready) => ready,
            };
            self.begin(&command, iteration);
            next = self.announce_from(next.max(position));
            if let Err(error) = self.copy(&command, iteration, ready) {
                let report = Report {
                    command,
                    iteration,
                    error,
                };
                let full = self.reports.push(report).is_err();
                assert!(!full, "an engine reports once");
                self.counters.fail();
                return;
            }
        }
    }

    /// The command at a position, counted from the freeze on, and its iteration, counted from 1.
    fn at(&self, position: u64) -> (Command, u64) {
        let count = self.commands.len() as u64;
        let command = self.commands[to_usize(position % count)];
        (command, position / count + 1)
    }

    /// Announces copies from a position on that may start already. Answers with the first that was
    /// not.
    fn announce_from(&mut self, mut position: u64) -> u64 {
        loop {
            let (command, iteration) = self.at(position);
            if !self.may_start(&command, iteration) {
                return position;
            }
            // SAFETY: windows and tier outlive the engines (`Frozen` drops them in that order). The
            // command may start, and the plan is verified: nobody else touches its ranges. Copies
            // follow by position.
            if !unsafe { self.copier.announce(&command.transfer) } {
                return position;
            }
            self.begin(&command, iteration);
            position += 1;
        }
    }

    /// Notes that a command may touch what it reads and writes from now on: one that was announced
    /// may be under way when one before it fails.
    fn begin(&self, command: &Command, iteration: u64) {
        let direction = command.transfer.direction;
        let count = self.number(command, iteration) + 1;
        self.counters.queue(direction).begin(count);
    }

    /// How many commands of its direction were before a command, since the freeze.
    fn number(&self, command: &Command, iteration: u64) -> u64 {
        iteration * self.counts[command.transfer.direction.index()] + u64::from(command.index)
    }

    /// Whether a command may start, those before it aside (E2, E3, E4).
    fn may_start(&self, command: &Command, iteration: u64) -> bool {
        let direction = command.transfer.direction;
        let released = self.number(command, iteration) + 1;
        let outs_done = match direction {
            Direction::Out => 0,
            Direction::In => (iteration * self.counts[Direction::Out.index()])
                .checked_add_signed(command.after_out)
                .expect("waits reach back one iteration, and iterations count from 1"),
        };
        self.counters.queue(direction).released() >= released
            && self.counters.queue(Direction::Out).done() >= outs_done
    }

    /// Waits until a command may start.
    fn wait(&self, command: &Command, iteration: u64) -> Turn {
        let may_start = || self.may_start(command, iteration);
        if self.counters.ended() {
            return Turn::End;
        }
        if may_start() {
            return Turn::Start(None);
        }
        let parker = &self.counters.engines[self.parker];
        parker.wait_until(|| self.counters.ended() || may_start());
        if self.counters.ended() {
            return Turn::End;
        }
        Turn::Start(Some(Instant::now()))
    }

    fn copy(
        &mut self,
        command: &Command,
        iteration: u64,
        ready: Option<Instant>,
    ) -> Result<(), TransferError> {
        let Transfer {
            direction, bytes, ..
        } = command.transfer;
        let start = Instant::now();
        // SAFETY: windows and tier outlive the engines (`Frozen` drops them in that order). The
        // command's waits are over, and the plan is verified: nobody else touches its ranges.
        unsafe { self.copier.copy(&command.transfer, ready) }?;
        let busy_ns = elapsed_ns(start);
        let done = self.number(command, iteration) + 1;
        self.counters
            .complete(direction, done, bytes as u64, busy_ns);
        Ok(())
    }
}

/// What an engine does after a wait.
enum Turn {
    /// It starts the command; with the moment at which the wait ended, if there was one.
    Start(Option<Instant>),
    /// It ends.
    End,
}

/// Marks the failed state if the engine panics, so that nobody waits for it.
struct Alarm(Arc<Counters>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail();
        }
    }
}
