//! Plans on pages.
//!
//! Method: schedules are laid out, the fastest first, and the fastest program is kept. Schedules
//! for less memory leave pages free, so that they have a layout where tighter ones have none. They
//! are slower, so the search ends when none of them can be faster than what is there. (With fixed
//! addresses a layout can be a little faster than its schedule; that is not counted on.)

use vtensor::PageBytes;

use super::candidates::Candidates;
use super::ground::Ground;
use super::need::{Need, PlanError};
use super::{Found, Request};
use crate::graph::Graph;
use crate::layout;
use crate::policy::{Policy, Scheduler, Task};
use crate::pool::Pool;
use crate::queues::Pages;
use crate::schedule::Schedule;
use crate::tricks::Tricks;

/// Thousandths of the pages that schedules leave free, so that they have a layout, and one that
/// makes nobody wait.
const RETREATS: [i64; 17] = [
    0, 2, 4, 8, 16, 30, 45, 60, 80, 100, 125, 150, 185, 220, 300, 400, 500,
];
/// Thousandths of its time by which a schedule that leaves more free may be slower, and takes the
/// place of one that leaves less; and where all addresses are fixed, or some in a step of so many
/// ops, since layouts take more work there.
const AS_FAST: u64 = 1;
const AS_FAST_FIXED: u64 = 10;
const LONG: u32 = 5000;
/// How many grounds are tried at most where layouts on those with faster schedules fail.
const STANDS_MAX: usize = 4;

/// Plans, if that takes less than `below_ns`.
pub(super) fn plan(
    request: &Request<'_>,
    page: PageBytes,
    tricks: Tricks,
    below_ns: u64,
) -> Result<Found, PlanError> {
    let grounds = Ground::all(request, page, tricks);
    let graphs: Vec<Graph<'_>> = grounds.iter().map(Ground::graph).collect();
    let mut tried = Vec::with_capacity(grounds.len());
    for (ground, graph) in grounds.iter().zip(&graphs) {
        match Stand::new(request, ground, graph) {
            Ok(stand) => tried.push(stand),
            Err(error) if tried.is_empty() => return Err(error),
            Err(_) => {}
        }
    }
    let mut ranked: Vec<_> = tried
        .iter()
        .map(|stand| {
            let mut scheduler = Scheduler::new(request.policy, tricks);
            let probed = (tried.len() > 1).then(|| scheduler.probe(stand.task(request, 0)));
            (probed.flatten().unwrap_or((u64::MAX, 0)), stand, scheduler)
        })
        .collect();
    ranked.sort_by_key(|&(took, ..)| took);
    let mut none = None;
    for (_, stand, scheduler) in ranked.into_iter().take(STANDS_MAX) {
        match stand.plan(request, scheduler, tricks, below_ns) {
            // The fastest schedules may have no layout where others have one.
            Err(error) if below_ns == u64::MAX => none = none.or(Some(error)),
            found => return found,
        }
    }
    Err(none.expect("the first ground is tried"))
}

/// The time of an iteration as the grid of the search makes it out to be, on the first ground.
pub(super) fn probe(request: &Request<'_>, page: PageBytes, tricks: Tricks) -> Option<u64> {
    let ground = Ground::first(request, page, tricks);
    let graph = ground.graph();
    let stand = Stand::new(request, &ground, &graph).ok()?;
    let (took_ns, _) = Scheduler::new(request.policy, tricks).probe(stand.task(request, 0))?;
    Some(took_ns)
}

/// A ground, and what follows from it before anything moves.
struct Stand<'a> {
    ground: &'a Ground,
    graph: &'a Graph<'a>,
    pool: Pool,
    pages: Pages,
    need: Need,
    /// Pages beside the pool, and as many of them as are of use.
    paged: i64,
    capacity: i64,
}

impl<'a> Stand<'a> {
    fn new(
        request: &Request<'_>,
        ground: &'a Ground,
        graph: &'a Graph<'a>,
    ) -> Result<Self, PlanError> {
        let pool = Pool::pack(graph);
        let pool_pages = u64::from(pool.pages(graph.page));
        let pages = Pages::of(graph);
        let most = pages.live.iter().copied().max().unwrap_or(0);
        let arena = if request.policy == Policy::None {
            pool_pages + u64::try_from(most).expect("pages are not negative")
        } else {
            request.budget.0 / graph.page.get()
        };
        let need = Need::largest(request.skeleton, graph, &pool, request.policy);
        if need.all_pages() > arena {
            return Err(PlanError::OpTooLarge {
                need,
                budget: request.budget,
            });
        }
        let paged = i64::try_from(arena - pool_pages).expect("limits: at most 2^51 bytes");
        Ok(Self {
            ground,
            graph,
            pool,
            pages,
            need,
            paged,
            capacity: paged.min(most),
        })
    }

    /// What to schedule with so many thousandths of the pages left free.
    fn task<'s>(&'s self, request: &'s Request<'_>, retreat: i64) -> Task<'s> {
        Task {
            graph: self.graph,
            pages: &self.pages,
            capacity: self.capacity - (self.capacity * retreat + 999) / 1000,
            link: &request.profile.link,
        }
    }

    fn plan(
        &self,
        request: &Request<'_>,
        mut scheduler: Scheduler,
        tricks: Tricks,
        below_ns: u64,
    ) -> Result<Found, PlanError> {
        let mut candidates = Candidates {
            request,
            ground: layout::Ground {
                graph: self.graph,
                link: &request.profile.link,
                tricks,
            },
            units: &self.ground.units,
            pool: &self.pool,
            paged: u32::try_from(self.paged).unwrap_or(u32::MAX),
            below_ns,
            beside_ns: 0,
            best: None,
        };
        let schedules = RETREATS.into_iter().enumerate().map(|(row, retreat)| {
            let schedules = scheduler.schedules(self.task(request, retreat));
            (row, schedules.unwrap_or_default())
        });
        let mut schedules = schedules.peekable();
        let long = self.graph.has_fixed() && self.graph.steps() >= LONG;
        let as_fast = match self.graph.has_movable() && !long {
            true => AS_FAST,
            false => AS_FAST_FIXED,
        };
        let mut tried = Vec::new();
        while let Some((row, these)) = schedules.next() {
            if !candidates.may_improve(&these) {
                break;
            }
            // The first may have a layout at once. Of what then takes as long as each other, that
            // which leaves most free is the easiest to lay out.
            let next = schedules.peek().map(|(_, next)| next);
            if row == 0 || next.is_none_or(|next| is_slower(next, &these, as_fast)) {
                candidates.improve(&these, layout::layout);
                if candidates.best.is_none() {
                    tried.push(these);
                }
            }
        }
        for these in &tried {
            if candidates.best.is_some() || below_ns < u64::MAX {
                break;
            }
            // Where pages that follow from a schedule do not do.
            candidates.improve(these, layout::layout_in_place);
        }
        candidates.best.ok_or_else(|| PlanError::NoSchedule {
            policy: request.policy.name(),
            need: self.need.clone(),
            budget: request.budget,
        })
    }
}

/// Whether some schedules take longer than others by more than so many thousandths, the fastest of
/// each.
fn is_slower(some: &[Schedule], others: &[Schedule], thousandths: u64) -> bool {
    let time = |schedules: &[Schedule]| {
        let first = schedules.first();
        first.map_or(u64::MAX, |schedule| schedule.timeline.iteration_ns)
    };
    time(some) > time(others).saturating_add(time(others) / 1000 * thousandths)
}
