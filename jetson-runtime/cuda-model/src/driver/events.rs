//! Events: records of a place in a stream, waited for by streams and by the host.

use std::sync::Arc;

use super::streams::name_of;
use super::{Driver, Pending, new_handle};
use crate::check::{Clock, Line};
use crate::engine::command::{Command, Queued};
use crate::engine::record::Record;
use crate::status::Status;

/// The flag of events without times.
const DISABLE_TIMING: u32 = 2;
/// All flags: blocking synchronisation, no times, for other processes.
const FLAGS_ALL: u32 = 7;

/// An event.
#[derive(Debug)]
pub(super) struct Event {
    timing: bool,
    last: Option<Recorded>,
}

/// What an event was last recorded for.
#[derive(Debug)]
struct Recorded {
    record: Arc<Record>,
    /// What is known by who waits for it.
    clock: Clock,
    line: Line,
    /// Whether a stream waits for it, or the host saw it complete.
    used: bool,
}

impl Driver {
    fn event(&mut self, handle: u64) -> Result<&mut Event, Status> {
        match self.events.contains_key(&handle) {
            true => Ok(self.events.get_mut(&handle).expect("it was just found")),
            false => Err(self.bad_handle("event", handle)),
        }
    }

    /// `cuEventCreate`.
    pub(crate) fn create_event(&mut self, flags: u32) -> Result<u64, Status> {
        if flags > FLAGS_ALL {
            return Err(Status::INVALID_VALUE);
        }
        let handle = new_handle();
        let timing = flags & DISABLE_TIMING == 0;
        self.events.insert(handle, Event { timing, last: None });
        Ok(handle)
    }

    /// `cuEventDestroy`. Streams that wait for its record go on waiting.
    pub(crate) fn destroy_event(&mut self, handle: u64) -> Result<(), Status> {
        match self.events.remove(&handle) {
            Some(_) => Ok(()),
            None => Err(self.bad_handle("event", handle)),
        }
    }

    /// `cuEventRecord`.
    pub(crate) fn record(&mut self, handle: u64, stream: u64) -> Result<(), Status> {
        let key = self.lane_key(stream)?;
        self.event(handle)?;
        if self.elided {
            return Ok(());
        }
        self.check_rerecord(handle);
        self.order_implicitly(key);
        let line = self.lanes[&key].line;
        let record = Arc::new(Record::default());
        self.order.wait_for_line(line, Line::HOST);
        let clock = self.order.clock(line).clone();
        let command = Command::Record(Arc::clone(&record));
        let fails = self.late.take();
        self.push(key, Queued { command, fails });
        self.event(handle)?.last = Some(Recorded {
            record,
            clock,
            line,
            used: false,
        });
        Ok(())
    }

    /// Whether recording an event anew loses its earlier record.
    fn check_rerecord(&mut self, handle: u64) {
        let Some(last) = self
            .events
            .get(&handle)
            .and_then(|event| event.last.as_ref())
        else {
            return;
        };
        if self.order.clock(Line::HOST).includes(&last.clock) {
            return;
        }
        let line = name_of(last.line);
        if !last.used {
            let text = format!(
                "event {handle:#x} is recorded anew; nobody waited for its record on {line}, and \
                 nobody can any more"
            );
            self.reports.add("record-lost", text);
        } else if self.strict_events {
            let text = format!(
                "event {handle:#x} is recorded anew before the host saw its record on {line} \
                 complete"
            );
            self.reports.add("record-early", text);
        }
    }

    /// What an event was last recorded for; a report if never.
    fn recorded(&mut self, handle: u64, by: &str) -> Result<Option<&mut Recorded>, Status> {
        if self.event(handle)?.last.is_none() {
            let text = format!("{by} waits for event {handle:#x}, which was never recorded");
            self.reports.add("never-recorded", text);
        }
        Ok(self.event(handle)?.last.as_mut())
    }

    /// `cuStreamWaitEvent`.
    pub(crate) fn wait_event(&mut self, stream: u64, handle: u64) -> Result<(), Status> {
        let key = self.lane_key(stream)?;
        let line = self.lanes[&key].line;
        self.event(handle)?;
        if self.elided {
            return Ok(());
        }
        let Some(last) = self.recorded(handle, &name_of(line))? else {
            return Ok(());
        };
        last.used = true;
        let (record, clock) = (Arc::clone(&last.record), last.clock.clone());
        self.order_implicitly(key);
        self.order.wait(line, &clock);
        let command = Command::Wait(record);
        let fails = self.late.take();
        self.push(key, Queued { command, fails });
        Ok(())
    }

    /// `cuEventSynchronize`: what to wait for, without the driver's lock.
    pub(crate) fn event_pending(&mut self, handle: u64) -> Result<Option<Pending>, Status> {
        self.event(handle)?;
        if self.elided {
            return Ok(None);
        }
        let last = self.recorded(handle, "the host")?;
        Ok(last.map(|last| {
            last.used = true;
            Pending::record(Arc::clone(&last.record), last.clock.clone())
        }))
    }

    /// `cuEventQuery`.
    pub(crate) fn query_event(&mut self, handle: u64) -> Result<(), Status> {
        let elided = self.elided;
        self.event(handle)?;
        if elided {
            return Ok(());
        }
        let Some(last) = self.recorded(handle, "the host")? else {
            return Ok(());
        };
        if last.record.reached().is_none() {
            return Err(Status::NOT_READY);
        }
        last.used = true;
        let pending = Pending::record(Arc::clone(&last.record), last.clock.clone());
        self.seen(&pending.wait())
    }

    /// `cuEventElapsedTime`, in milliseconds.
    pub(crate) fn elapsed(&mut self, start: u64, end: u64) -> Result<f32, Status> {
        let mut times = Vec::with_capacity(2);
        for handle in [start, end] {
            let event = self.event(handle)?;
            let Some(last) = event.last.as_ref().filter(|_| event.timing) else {
                let text =
                    format!("event {handle:#x} has no time: never recorded, or without times");
                return Err(self.misuse("no-time", Status::INVALID_HANDLE, text));
            };
            times.push(last.record.reached().ok_or(Status::NOT_READY)?);
        }
        let ms = |late: std::time::Instant, early| late.duration_since(early).as_secs_f32() * 1e3;
        Ok(match times[1] >= times[0] {
            true => ms(times[1], times[0]),
            false => -ms(times[0], times[1]),
        })
    }
}
