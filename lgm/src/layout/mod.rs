//! Layout: the page of every residency.
//!
//! In: the graph, a schedule, and a number of pages. Out: a page for each stay of each piece on the
//! device, and what claimants have to wait for because of it. Relocatable tensors get their pages
//! anew in each stay, so pages are assigned by interval colouring, on a circle that is cut open
//! where little crosses.
//!
//! Tensors whose address may never change have one page for each piece, which is kept free for all
//! stays; between them others have it. Then pages come first, and the times of copies follow: see
//! `fixed`.
//!
//! Limits: for fixed addresses no bound on pages holds; where they do not fit the caller has to
//! schedule for less. Work is bounded: a layout that is not found within [`Effort`] does not exist
//! for the caller.

mod colouring;
mod exchange;
mod extent;
mod fixed;
mod lot;
mod occupancy;
mod preference;
mod reserved;
mod stays;
mod times;
mod waits;

use std::rc::Rc;

use vtensor::StepRange;

use self::colouring::{Choice, colour};
use self::preference::Preference;
pub(crate) use self::stays::{AWAY, Stays};
use self::stays::{Keep, absent_before};
pub(crate) use self::waits::Waits;
use self::waits::waits;
use crate::cost::{Load, Timeline};
use crate::count::to_u32;
use crate::demand::{add_on_circle, prefix_sums};
use crate::graph::{Graph, Holding};
use crate::profile::Link;
use crate::schedule::Schedule;
use crate::tricks::Tricks;

/// How many places to cut the circle are tried at most.
const CUTS_MAX: usize = 6;
/// A layout that makes an iteration longer by no more thousandths is as good as any.
const GOOD: u64 = 1;

/// Work on finding out how few pages do, in extents looked at.
const SHRINK_EFFORT: u64 = 10_000_000;

/// Pages for all stays of a schedule.
pub struct Layout<'a> {
    pub(crate) stays: Stays<'a>,
    /// The page of each stay.
    pub(crate) page_of: Vec<u32>,
    pub(crate) waits: Waits,
    /// Pages that are used, those of the pool not included.
    pub pages: u32,
    /// Pages that the schedule holds at its worst moment, if it waits no longer than it has to. A
    /// layout that makes it wait longer can do with fewer.
    pub peak_pages: u32,
    /// What the cost model says, with all that claimants wait for because of their pages.
    pub timeline: Timeline,
}

/// Work that may still be spent on layouts, in extents looked at. A colouring that has begun goes
/// on to its end without it, but exchanges nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort(pub u64);

impl Effort {
    /// Spends some; `false` if there is not so much.
    pub(crate) fn spend(&mut self, looks: usize) -> bool {
        let looks = looks as u64;
        let enough = self.0 >= looks;
        self.0 = self.0.saturating_sub(looks);
        enough
    }
}

/// Lays a schedule out on at most `most` pages, for the shortest iteration that is found; `None` if
/// no layout takes less than `below_ns`.
#[must_use]
pub fn layout<'a>(
    ground: Ground<'a>,
    schedule: &Schedule,
    (most, below_ns): (u32, u64),
    effort: &mut Effort,
) -> Option<Layout<'a>> {
    let peak = u32::try_from(schedule.queues.peak).ok()?;
    if peak > most {
        return None;
    }
    let schedule = Rc::new(schedule.clone());
    if ground.graph.has_fixed() {
        return ground.with_fixed(&schedule, (most, below_ns), effort);
    }
    // As few pages as will do: more are taken only where they save time.
    let found = ground.fastest(&schedule, (peak, below_ns), effort);
    if peak == most || effort.0 == 0 || ground.is_good(found.as_ref(), &schedule) {
        return found;
    }
    let below_ns = below(found.as_ref(), below_ns);
    let more = ground.fastest(&schedule, (most, below_ns), effort);
    more.or(found)
}

/// As [`layout`], with pages chosen first, and each piece on one page for good. Slower, as a rule;
/// but it may be there where the other is not.
#[must_use]
pub fn layout_in_place<'a>(
    ground: Ground<'a>,
    schedule: &Schedule,
    within: (u32, u64),
    effort: &mut Effort,
) -> Option<Layout<'a>> {
    let found = ground.pages_first(schedule, within, effort)?;
    Some(ground.shrunk(found))
}

/// What another layout has to take less than.
fn below(found: Option<&Layout<'_>>, below_ns: u64) -> u64 {
    found.map_or(below_ns, |found| found.timeline.iteration_ns)
}

/// What all layouts of a plan stand on.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'a> {
    /// The graph.
    pub graph: &'a Graph<'a>,
    /// The link to the spill tier.
    pub link: &'a Link,
    /// What may be tried.
    pub tricks: Tricks,
}

impl<'a> Ground<'a> {
    /// The fastest layout on so many pages, or the first that is good.
    fn fastest(
        &self,
        schedule: &Rc<Schedule>,
        (pages, below_ns): (u32, u64),
        effort: &mut Effort,
    ) -> Option<Layout<'a>> {
        let mut best: Option<Layout<'a>> = None;
        for cut in quiet_steps(self.graph, schedule) {
            let stays = Stays::new(self.graph, schedule, (cut, Keep::Fixed));
            for preference in Preference::ALL {
                if effort.0 == 0 {
                    return best;
                }
                let below_ns = below(best.as_ref(), below_ns);
                best = self
                    .laid_out(&stays, (pages, preference), below_ns, effort)
                    .or(best);
                if self.is_good(best.as_ref(), schedule) {
                    return best;
                }
            }
        }
        best
    }

    /// Whether another layout of a schedule is not worth looking for.
    fn is_good(&self, found: Option<&Layout<'_>>, schedule: &Schedule) -> bool {
        let good = schedule.timeline.iteration_ns / 1000 * (1000 + GOOD);
        found.is_some_and(|found| !self.tricks.layouts || found.timeline.iteration_ns <= good)
    }

    /// The same on fewer pages, if it takes no longer.
    fn shrunk(&self, mut found: Layout<'a>) -> Layout<'a> {
        let mut effort = Effort(SHRINK_EFFORT);
        let mut enough = found.pages;
        let mut least = found.peak_pages;
        while least < enough {
            let pages = least.midpoint(enough);
            let below_ns = found.timeline.iteration_ns + 1;
            let fewer = Preference::ALL.into_iter().find_map(|preference| {
                self.laid_out(&found.stays, (pages, preference), below_ns, &mut effort)
            });
            match fewer {
                Some(fewer) => {
                    enough = fewer.pages;
                    found = fewer;
                }
                None => least = pages + 1,
            }
        }
        found
    }

    /// A layout on so many pages; `None` if it is not found, or an iteration does not take less
    /// than `below_ns`.
    fn laid_out(
        &self,
        stays: &Stays<'a>,
        (pages, preference): (u32, Preference),
        below_ns: u64,
        effort: &mut Effort,
    ) -> Option<Layout<'a>> {
        let colours = self.coloured(stays, (pages, preference), effort)?;
        self.timed(stays, colours, below_ns)
    }

    /// A page for each stay; `None` if so many pages are not found to do.
    fn coloured(
        &self,
        stays: &Stays<'_>,
        (pages, preference): (u32, Preference),
        effort: &mut Effort,
    ) -> Option<Vec<u32>> {
        let choice = Choice {
            preference,
            tricks: self.tricks,
        };
        colour(stays, pages, choice, effort)
    }

    /// The layout of a colouring; `None` if an iteration does not take less than `below_ns`.
    fn timed(&self, stays: &Stays<'a>, page_of: Vec<u32>, below_ns: u64) -> Option<Layout<'a>> {
        let pages = page_of.iter().max().map_or(0, |last| last + 1);
        let waits = waits(stays, &page_of, pages);
        let timeline = self.timeline(&stays.schedule, &waits);
        if timeline.iteration_ns >= below_ns {
            return None;
        }
        Some(Layout {
            peak_pages: u32::try_from(stays.schedule.queues.peak).ok()?.min(pages),
            stays: stays.clone(),
            page_of,
            waits,
            pages,
            timeline,
        })
    }

    /// What an iteration takes with the waits of a layout.
    fn timeline(&self, schedule: &Schedule, waits: &Waits) -> Timeline {
        let mut queues = schedule.queues.clone();
        queues.out_needed.clone_from(&waits.steps);
        let ins = queues.ins.iter_mut().zip(&waits.ins);
        ins.for_each(|(queued, &after_out)| queued.after_out = after_out);
        Load::of_queues(self.graph.skeleton, &schedule.moves, &queues, self.link).simulate()
    }
}

/// Some places to cut the circle, the best first: steps before which few pages belong to stays that
/// end and begin again, or to outs that are not known complete.
fn quiet_steps(graph: &Graph<'_>, schedule: &Schedule) -> Vec<u32> {
    let steps = graph.steps();
    let mut change = vec![0_i64; steps as usize + 1];
    let mut add = |range, pages| add_on_circle(&mut change, range, pages);
    let mut moving = vec![0_u32; graph.skeleton.tensors.len()];
    for m in &schedule.moves {
        let moving = &mut moving[m.tensor.index()];
        *moving = (*moving).max(graph.node(m.tensor).pieces - m.pieces.first);
        add(absent_before(m), -i64::from(m.pieces.count));
    }
    for (tensor, node) in graph.held(Holding::Paged) {
        let life = graph.life(tensor);
        if node.persistent {
            add(life, i64::from(moving[tensor.index()]));
        } else {
            add(
                StepRange {
                    start: life.start + 1,
                    end: life.end,
                },
                i64::from(node.pieces),
            );
        }
    }
    let crossing = prefix_sums(&change);
    let unsettled = &schedule.queues.unsettled;
    let mut steps: Vec<u32> = (0..steps).collect();
    steps.sort_by_key(|&step| crossing[step as usize] + unsettled[step as usize]);
    let apart = graph.steps() / (2 * to_u32(CUTS_MAX));
    let mut cuts: Vec<u32> = Vec::new();
    for step in steps {
        if cuts.len() < CUTS_MAX && cuts.iter().all(|cut| cut.abs_diff(step) >= apart) {
            cuts.push(step);
        }
    }
    cuts
}
