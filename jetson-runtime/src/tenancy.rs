//! Tenancy: a program gives the arena up, wherever it is, and takes it again at HOME.
//!
//! In: a frozen program, at rest or in the middle of an iteration. Out: what it holds, to be
//! carried away; and the program at HOME again, with contents from elsewhere, at the same addresses
//! as before. Guarantees: nothing is given up before the caller says so; a stop in the middle is
//! exact (B4): each byte is named as held, dead, or lost.
//!
//! *Not here*: where the contents go meanwhile (see `runtime`).

use std::sync::Arc;

use vtensor::TensorId;

use crate::content::Content;
use crate::counters::Counters;
use crate::course::Position;
use crate::engine::Engines;
use crate::error::RuntimeError;
use crate::failure::{Direction, Failure};
use crate::frozen::{Frozen, Parts};
use crate::planned::bring_home;
use crate::residency::{Progress, Whose, residency};

impl Frozen {
    /// Lets what was released come to an end, ends the engines, and says how far execution came.
    pub(crate) fn progress(&mut self) -> Progress {
        // A failure ends the wait; what it left is what the caller reports.
        let _ = self.quiesce();
        self.parts.engines.stop();
        if self.parts.counters.failed() {
            // Fetches the engine's report, if the application has not seen it yet.
            let _ = self.failed();
        }
        let counters = &self.parts.counters;
        let done = [Direction::Out, Direction::In].map(|d| counters.queue(d).done());
        Progress {
            iteration: self.course.iteration,
            since: self.course.since,
            steps: self.course.next_step,
            open: self.course.position == Position::Step,
            done,
            torn: torn(&self.parts, self.failure.as_ref(), done),
        }
    }

    /// Stops in the middle of an iteration: where every byte is that the iteration holds. The
    /// program needs [`Self::restart`] before it runs again.
    pub(crate) fn halt(&mut self) -> Content {
        let progress = self.progress();
        let segments = residency(self.parts.lowered(), progress, Whose::All);
        Content::new(&self.parts.plan, self.parts.scale, segments)
    }

    /// Copies bytes of a tensor out of what the program holds, be it at HOME or halted.
    pub(crate) fn fetch(
        &self,
        content: &Content,
        tensor: TensorId,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), RuntimeError> {
        // SAFETY: the map is alive, and no op runs: this borrows the program. Engines are at rest
        // or ended: `content` is HOME after `rest`, or comes from `halt`.
        unsafe { content.read(&*self.parts.tier, tensor, offset, buffer) }
    }

    /// Gives the slots back: what the program holds there was carried away.
    pub(crate) fn release_slots(&self) -> Result<(), RuntimeError> {
        self.parts.tier.release(0, self.parts.tier.bytes())
    }

    /// Takes slots and pages, and brings every persistent piece to HOME. See [`bring_home`].
    pub(crate) fn return_home(
        &mut self,
        fill: impl FnMut(TensorId, u64, &mut [u8]) -> Result<(), RuntimeError>,
    ) -> Result<(), RuntimeError> {
        self.rest("return_home")?;
        let Parts {
            tier,
            arena,
            content,
            plan,
            scale,
            ..
        } = &self.parts;
        tier.claim(0, tier.bytes())?;
        let pages = u64::from(plan.program.arena_pages) * scale.page().get();
        arena.claim(0, pages)?;
        bring_home(content, &**tier, fill)?;
        self.course.rewritten();
        Ok(())
    }

    /// After [`Self::halt`]: the program as it was frozen, without content, at rest; its numbers
    /// begin anew.
    pub(crate) fn restart(&mut self) -> Result<(), RuntimeError> {
        let parts = &mut self.parts;
        let [outs, ins] = parts.table.counts();
        let counters = Arc::new(Counters::new(outs, ins));
        parts.engines = Engines::start(&parts.table, &parts.tier, &counters, parts.engine_options)?;
        parts.counters = counters;
        self.begin_anew();
        Ok(())
    }
}

/// The commands that began and did not complete. Without a failure there is none: engines that are
/// told to end complete the copy that they are at. An engine that panicked left no report: then
/// either next command may have begun.
fn torn(parts: &Parts, failure: Option<&Failure>, done: [u64; 2]) -> [Option<u64>; 2] {
    let Some(failure) = failure else {
        let panicked = parts.counters.failed();
        return done.map(|next| panicked.then_some(next));
    };
    let mut torn = [None; 2];
    let row = failure.direction.index();
    let counts = parts.table.counts();
    torn[row] = Some(failure.iteration * counts[row] + u64::from(failure.command));
    torn
}
