//! Tenancy: a program gives the arena up, wherever it is, and takes it again at HOME.
//!
//! In: a frozen program, at rest or in the middle of an iteration. Out: what it holds, to be
//! carried away; and the program at HOME again, with contents from elsewhere, at the same addresses
//! as before. Guarantees: nothing is given up before the caller says so; a stop in the middle is
//! exact (B4): each byte is named as held, dead, or lost.
//!
//! *Not here*: where the contents go meanwhile (see `runtime`).

use vtensor::TensorId;

use crate::content::Content;
use crate::error::RuntimeError;
use crate::frozen::{Frozen, Parts};
use crate::planned::{bring_home, crew};
use crate::residency::{Progress, Whose, residency};

impl Frozen {
    /// Lets what was released come to an end, ends the engines, and says how far execution came.
    pub(crate) fn progress(&mut self) -> Progress {
        // A failure ends the wait; what it left is what the caller reports.
        let _ = self.quiesce();
        let parts = &mut self.parts;
        let copies = parts.crew.stop(&parts.plan.skeleton.tensors);
        self.course.progress(copies)
    }

    /// Stops in the middle of an iteration: where every byte is that the iteration holds. The
    /// program needs [`Self::restart`] before it runs again.
    pub(crate) fn halt(&mut self) -> Content {
        let progress = self.progress();
        let segments = residency(self.parts.lowered(), progress, Whose::All);
        Content::new(&self.parts.plan, self.parts.scale, segments)
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
        parts.crew = crew(&parts.table, &parts.tier, parts.engine_options)?;
        self.begin_anew();
        Ok(())
    }
}
