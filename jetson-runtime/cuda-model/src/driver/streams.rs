//! Streams, and how work gets into them.
//!
//! The default stream (handle 0 or 1) has its implicit order: its work comes after all that is in
//! the blocking streams, and what follows in those comes after it. Streams created non-blocking
//! know nothing of it.

use std::sync::Arc;
use std::thread::JoinHandle;

use super::{Driver, new_handle};
use crate::check::{Clock, Conflict, Line, Mode};
use crate::engine::command::{Command, Queued};
use crate::engine::progress::Progress;
use crate::engine::record::Record;
use crate::engine::stream::Stream;
use crate::space::Part;
use crate::status::Status;

/// The handle of the default stream, beside 0.
const LEGACY: u64 = 1;
/// The flag of streams without implicit order with the default stream.
const NON_BLOCKING: u32 = 1;

/// A stream.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) stream: Arc<Stream>,
    thread: Option<JoinHandle<()>>,
    pub(super) line: Line,
    blocking: bool,
}

/// What the host waits for, and what it knows then.
#[derive(Debug)]
pub(crate) struct Pending {
    streams: Vec<(Arc<Progress>, u64)>,
    record: Option<Arc<Record>>,
    clock: Clock,
}

/// What the host has learned from a wait.
#[derive(Debug)]
pub(crate) struct Seen(Clock);

impl Pending {
    /// A wait for a record.
    pub(super) fn record(record: Arc<Record>, clock: Clock) -> Self {
        Self {
            streams: Vec::new(),
            record: Some(record),
            clock,
        }
    }

    /// Blocks until it has come. Called without the driver's lock.
    pub(crate) fn wait(self) -> Seen {
        for (progress, count) in self.streams {
            progress.wait_for(count);
        }
        if let Some(record) = self.record {
            record.wait();
        }
        Seen(self.clock)
    }
}

impl Driver {
    /// The host has waited, and knows now.
    pub(crate) fn seen(&mut self, seen: &Seen) -> Result<(), Status> {
        self.order.wait(Line::HOST, &seen.0);
        self.hardware.failure.take().map_or(Ok(()), Err)
    }

    pub(super) fn start_default_stream(&mut self) -> Result<(), Status> {
        let lane = self.start(true)?;
        self.lanes.insert(LEGACY, lane);
        Ok(())
    }

    fn start(&mut self, blocking: bool) -> Result<Lane, Status> {
        let line = self.order.add_line();
        let started = Stream::start(line.0, Arc::clone(&self.hardware));
        let (stream, thread) = started.map_err(|_| Status::OPERATING_SYSTEM)?;
        Ok(Lane {
            stream,
            thread: Some(thread),
            line,
            blocking,
        })
    }

    /// `cuStreamCreate`.
    pub(crate) fn create_stream(&mut self, flags: u32) -> Result<u64, Status> {
        if flags > NON_BLOCKING {
            return Err(Status::INVALID_VALUE);
        }
        let lane = self.start(flags != NON_BLOCKING)?;
        let handle = new_handle();
        self.lanes.insert(handle, lane);
        Ok(handle)
    }

    /// `cuStreamDestroy`: returns at once; the work goes on.
    pub(crate) fn destroy_stream(&mut self, handle: u64) -> Result<(), Status> {
        let Some(lane) = self.lanes.remove(&handle).filter(|_| handle != LEGACY) else {
            return Err(self.bad_handle("stream", handle));
        };
        lane.stream.close();
        self.retired_clock.join(self.order.clock(lane.line));
        self.retired.push(lane);
        // Threads that are done are not kept.
        let (done, busy) = self.retired.drain(..).partition(|lane| lane.stream.idle());
        self.retired = busy;
        join(done);
        Ok(())
    }

    /// The key of a stream, for a handle that may be one of the default stream.
    pub(super) fn lane_key(&mut self, handle: u64) -> Result<u64, Status> {
        let key = if handle == 0 { LEGACY } else { handle };
        match self.lanes.contains_key(&key) {
            true => Ok(key),
            false => Err(self.bad_handle("stream", handle)),
        }
    }

    /// Enqueues work that touches bytes, and reports what it conflicts with.
    pub(super) fn submit(
        &mut self,
        stream: u64,
        what: &'static str,
        touches: &[(Part, Mode)],
        command: Command,
    ) -> Result<(), Status> {
        let key = self.lane_key(stream)?;
        self.order_implicitly(key);
        self.touch(self.lanes[&key].line, what, touches);
        let fails = self.late.take();
        self.push(key, Queued { command, fails });
        Ok(())
    }

    pub(super) fn push(&self, key: u64, queued: Queued) {
        self.lanes[&key].stream.push(queued);
    }

    /// The order between the default stream and the blocking ones.
    pub(super) fn order_implicitly(&mut self, key: u64) {
        let lane = &self.lanes[&key];
        if !lane.blocking {
            return;
        }
        let others = |other: &u64| match key {
            LEGACY => *other != LEGACY && self.lanes[other].blocking,
            _ => *other == LEGACY,
        };
        let keys: Vec<u64> = self.lanes.keys().copied().filter(others).collect();
        for other in keys {
            let lane = &self.lanes[&other];
            let count = lane.stream.pushed();
            let progress = Arc::clone(lane.stream.progress());
            self.order.wait_for_line(self.lanes[&key].line, lane.line);
            if count > 0 {
                let command = Command::Join(progress, count);
                self.push(
                    key,
                    Queued {
                        command,
                        fails: None,
                    },
                );
            }
        }
    }

    pub(super) fn report_conflict(
        &mut self,
        line: Line,
        what: &str,
        part: &Part,
        mode: Mode,
        conflict: &Conflict,
    ) {
        let does = |mode| match mode {
            Mode::Read => "reads",
            Mode::Write => "writes",
            Mode::Atomic => "updates",
            Mode::Discard => "discards",
        };
        let earlier = &conflict.earlier;
        let start = conflict.range.start.max(part.range.start);
        let end = conflict.range.end.min(part.range.end);
        let rule = match conflict.mode {
            Mode::Discard if mode != Mode::Write => "read-of-discarded",
            _ => "race",
        };
        let text = format!(
            "{what} on {} {} bytes {start}..{end} of {}, which {} (work {} of {}) {}; nothing \
             orders them",
            name_of(line),
            does(mode),
            self.allocation_name(part.allocation),
            earlier.what,
            earlier.number,
            name_of(earlier.line),
            does(conflict.mode),
        );
        self.reports.add(rule, text);
    }

    /// What the host waits for to know a stream's work complete.
    pub(crate) fn stream_pending(&mut self, handle: u64) -> Result<Option<Pending>, Status> {
        let key = self.lane_key(handle)?;
        if self.elided {
            return Ok(None);
        }
        self.order_implicitly(key);
        Ok(Some(self.lane_pending(&[key])))
    }

    /// What the host waits for to know all work complete.
    pub(crate) fn context_pending(&mut self) -> Option<Pending> {
        if self.elided {
            return None;
        }
        let keys: Vec<u64> = self.lanes.keys().copied().collect();
        let mut pending = self.lane_pending(&keys);
        pending.clock.join(&self.retired_clock);
        for lane in &self.retired {
            let progress = Arc::clone(lane.stream.progress());
            pending.streams.push((progress, lane.stream.pushed()));
        }
        Some(pending)
    }

    pub(super) fn lane_pending(&self, keys: &[u64]) -> Pending {
        let mut clock = Clock::default();
        let mut streams = Vec::with_capacity(keys.len());
        for key in keys {
            let lane = &self.lanes[key];
            clock.join(self.order.clock(lane.line));
            streams.push((Arc::clone(lane.stream.progress()), lane.stream.pushed()));
        }
        Pending {
            streams,
            record: None,
            clock,
        }
    }

    /// `cuStreamQuery`.
    pub(crate) fn query_stream(&mut self, handle: u64) -> Result<(), Status> {
        let key = self.lane_key(handle)?;
        if self.elided {
            return Ok(());
        }
        let lane = &self.lanes[&key];
        if !lane.stream.idle() {
            return Err(Status::NOT_READY);
        }
        let clock = self.order.clock(lane.line).clone();
        self.seen(&Seen(clock))
    }

    /// Waits until the streams have done everything, so that memory can go. Orders nothing: it
    /// protects the model, not the program.
    pub(super) fn drain(&self) {
        for lane in self.lanes.values().chain(&self.retired) {
            lane.stream.progress().wait_for(lane.stream.pushed());
        }
    }

    /// Ends all streams.
    pub(super) fn end_streams(&mut self) {
        let lanes: Vec<Lane> = self.lanes.drain().map(|(_, lane)| lane).collect();
        for lane in &lanes {
            lane.stream.close();
        }
        join(lanes);
        join(self.retired.drain(..).collect());
    }

    /// Streams that were created and not destroyed.
    pub(super) fn own_streams(&self) -> impl Iterator<Item = (u64, Line)> + '_ {
        let own = self.lanes.iter().filter(|(key, _)| **key != LEGACY);
        own.map(|(key, lane)| (*key, lane.line))
    }
}

/// Waits for the threads of closed streams.
fn join(lanes: Vec<Lane>) {
    for mut lane in lanes {
        if let Some(thread) = lane.thread.take() {
            // A panic there was printed; the model's user sees a stream that stands still.
            let _ = thread.join();
        }
    }
}

/// What reports call a line.
pub(super) fn name_of(line: Line) -> String {
    match line {
        Line::HOST => "the host".to_owned(),
        Line(number) => format!("stream {number}"),
    }
}
