//! Candidates: programs of schedules, of which the fastest is kept.

use super::{Found, Request};
use crate::cost::Load;
use crate::emit::emit;
use crate::layout::{self, Effort, Layout};
use crate::pool::Pool;
use crate::schedule::Schedule;
use crate::share::Units;

/// Work on the layouts of some schedules, about a tenth of a second, and so much more for each
/// move.
const EFFORT: u64 = 6_000_000;
const EFFORT_PER_MOVE: u64 = 500;

/// Lays a schedule out on so many pages, in less than so many nanoseconds.
pub(super) type Way =
    for<'a> fn(layout::Ground<'a>, &Schedule, (u32, u64), &mut Effort) -> Option<Layout<'a>>;

/// The fastest program so far, and what more are made of.
pub(super) struct Candidates<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) ground: layout::Ground<'a>,
    pub(super) units: &'a Units,
    pub(super) pool: &'a Pool,
    /// Pages beside the pool.
    pub(super) paged: u32,
    /// Slower programs are of no use.
    pub(super) below_ns: u64,
    /// What programs take beside what their schedules say, at the least: parts of shared pages are
    /// copied by themselves.
    pub(super) beside_ns: u64,
    pub(super) best: Option<Found>,
}

impl Candidates<'_> {
    /// What is not faster is of no use.
    fn below_ns(&self) -> u64 {
        let best_ns = self.best.as_ref().map(Found::iteration_ns);
        best_ns.unwrap_or(self.below_ns)
    }

    fn may_be_faster(&self, schedule: &Schedule) -> bool {
        let least_ns = schedule
            .timeline
            .iteration_ns
            .saturating_add(self.beside_ns);
        least_ns < self.below_ns()
    }

    /// Whether a program of some schedules, the fastest first, or of slower ones may be faster.
    pub(super) fn may_improve(&self, schedules: &[Schedule]) -> bool {
        match schedules.first() {
            Some(schedule) => self.may_be_faster(schedule),
            // Without a limit to beat, less memory may still do where so much does not.
            None => self.below_ns() == u64::MAX,
        }
    }

    /// Looks for a faster program among the layouts of some schedules, the fastest first.
    pub(super) fn improve(&mut self, schedules: &[Schedule], way: Way) {
        let moves = schedules.first().map_or(0, |schedule| schedule.moves.len());
        let mut effort = Effort(EFFORT + EFFORT_PER_MOVE * moves as u64);
        for schedule in schedules {
            if !self.may_be_faster(schedule) || effort.0 == 0 {
                break;
            }
            let within = (self.paged, self.below_ns());
            let Some(layout) = way(self.ground, schedule, within, &mut effort) else {
                continue;
            };
            let found = self.found(schedule, &layout);
            let layout_ns = layout.timeline.iteration_ns;
            let beside_ns = found.iteration_ns().saturating_sub(layout_ns);
            self.beside_ns = match self.best {
                Some(_) => self.beside_ns.min(beside_ns),
                None => beside_ns,
            };
            if found.iteration_ns() < self.below_ns() {
                self.best = Some(found);
            }
        }
    }

    fn found(&self, schedule: &Schedule, layout: &Layout<'_>) -> Found {
        let (skeleton, link) = (self.request.skeleton, self.ground.link);
        let program = emit(layout, self.pool, self.units, skeleton);
        Found {
            timeline: Load::of_program(skeleton, &program, link).simulate(),
            program,
            scheduled_ns: schedule.timeline.iteration_ns,
            peak_pages: self.pool.pages(self.ground.graph.page) + layout.peak_pages,
        }
    }
}
