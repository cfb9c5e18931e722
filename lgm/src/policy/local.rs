//! Local search: from good schedules of the grid to better ones, a small change at a time.
//!
//! In: the recipes of the grid's best. Out: schedules that are offered to the same [`Best`], with
//! their recipes. A change is made where it hurts: a wait is drawn, long ones more often, and
//! either what leaves in the gaps whose copies it waits for is *capped*, so that others leave
//! instead, or more room is *asked* for in a window of steps before it, so that copies in can
//! start earlier. Now and then headroom or lead change, or an earlier change is taken back.
//!
//! Guarantees: the budget counts evaluations by the cost model and the seed is fixed, so the result
//! is a function of the inputs.

use std::rc::Rc;

use oorandom::Rand64;

use super::Task;
use super::leads::{Best, Lead};
use super::recipe::{Granule, HEADROOMS, Recipe, Tweak, selected};
use crate::cost::{Load, Wait};
use crate::count::to_i64;
use crate::moves::{Cut, moves};
use crate::schedule::{Prefetch, Schedule, prefetch};

/// Work of a search: so many steps and moves are looked at.
const WORK: u64 = 1_500_000;
/// Evaluations of a search, at least and at most.
const EVALUATIONS: (u32, u32) = (100, EVALUATIONS_MAX);
/// How many schedules a search scores at most.
pub(super) const EVALUATIONS_MAX: u32 = 2000;
/// From how many points a search starts.
const STARTS: usize = 2;
/// After so many failures in a row the search goes back to the best point.
const PATIENCE: u32 = 120;
/// Early on, a schedule may be worse by one part in so many.
const SLACK: u64 = 500;
/// A schedule that takes no more than one part in so many longer than its ops is good enough.
const GOOD: u64 = 1000;
/// The seed.
const SEED: u128 = 1;

/// A schedule, how it was made, and how many pieces leave in each gap.
#[derive(Clone)]
struct Point {
    recipe: Recipe,
    schedule: Schedule,
    selected: Vec<u32>,
    waits: Vec<Wait>,
}

/// Searches on from the best that there are.
///
/// Again, after a search for another task, less work will do.
pub(super) fn improve(task: Task<'_>, granule: Granule, again: bool, best: &mut Best<Recipe>) {
    let compute = task.graph.skeleton.compute_ns();
    let starts = best.best(STARTS);
    let Some((first, _)) = starts.first() else {
        return;
    };
    if first.timeline.iteration_ns <= compute + compute / GOOD {
        return;
    }
    let size = task.graph.skeleton.ops.len() + 2 * first.moves.len();
    let work = if again { WORK / 3 } else { WORK };
    let budget = (work / size as u64).clamp(EVALUATIONS.0.into(), EVALUATIONS.1.into());
    let each = budget / starts.len() as u64;
    let mut random = Rand64::new(SEED);
    for (schedule, recipe) in starts {
        let selected = selected(task, granule, &recipe);
        let from = Point {
            waits: waits(task, &schedule),
            recipe,
            schedule,
            selected,
        };
        Walk {
            task,
            granule,
            random: &mut random,
        }
        .walk(from, each, best);
    }
}

fn waits(task: Task<'_>, schedule: &Schedule) -> Vec<Wait> {
    let (moves, queues) = (&schedule.moves, &schedule.queues);
    Load::of_queues(task.graph.skeleton, moves, queues, task.link).waits()
}

struct Walk<'a, 'r> {
    task: Task<'a>,
    granule: Granule,
    random: &'r mut Rand64,
}

impl Walk<'_, '_> {
    fn walk(&mut self, from: Point, evaluations: u64, best: &mut Best<Recipe>) {
        let time = |point: &Point| point.schedule.timeline.iteration_ns;
        let mut top = from.clone();
        let mut here = from;
        let mut failures = 0;
        for round in 0..evaluations {
            if here.waits.is_empty() {
                break;
            }
            let recipe = self.change(&here);
            let slack = if round < evaluations / 2 {
                time(&here) / SLACK
            } else {
                0
            };
            match self.evaluate(recipe, &here) {
                Some(next) if time(&next) <= time(&here) + slack => {
                    here = next;
                    // What never repeats is hard to predict, so it is only passed through.
                    let steady = |point: &Point| point.schedule.timeline.steady;
                    if time(&here) < time(&top) && (steady(&here) || !steady(&top)) {
                        top = here.clone();
                        failures = 0;
                        continue;
                    }
                }
                _ => {}
            }
            failures += 1;
            if failures > PATIENCE {
                here = top.clone();
                failures = 0;
            }
        }
        best.keep(top.schedule, top.recipe);
    }

    fn evaluate(&self, recipe: Recipe, near: &Point) -> Option<Point> {
        let task = self.task;
        let selected = selected(task, self.granule, &recipe);
        let cut = Cut {
            pieces_max: recipe.pieces_max,
        };
        let mut moves = moves(task.graph, &selected, cut);
        if let Some(lead) = recipe.lead {
            let timeline = &near.schedule.timeline;
            let with = Prefetch {
                pages: task.pages,
                capacity: task.capacity,
                link: task.link,
                timeline,
                lead_ns: lead.of_ns(timeline.iteration_ns),
            };
            prefetch(&mut moves, with);
        }
        let schedule = Schedule::new(task.graph, task.pages, moves, task.capacity, task.link);
        let schedule = schedule.ok()?;
        Some(Point {
            waits: waits(task, &schedule),
            recipe,
            schedule,
            selected,
        })
    }

    /// A neighbour of a point.
    fn change(&mut self, here: &Point) -> Recipe {
        let mut recipe = here.recipe.clone();
        let mut tweak = recipe.tweak.as_deref().cloned().unwrap_or_default();
        match self.below(100) {
            0..40 => self.cap(here, &mut tweak),
            40..80 => self.ask(here, &mut tweak),
            80..90 => self.take_back(&mut tweak),
            90..95 => {
                let lead = self.below(Lead::ALL.len());
                recipe.lead = Some(Lead::ALL[lead]);
            }
            _ => recipe.headroom = HEADROOMS[self.below(HEADROOMS.len())],
        }
        recipe.tweak = Some(Rc::new(tweak));
        recipe
    }

    /// Fewer pieces leave in some of the gaps whose copies are waited for.
    fn cap(&mut self, here: &Point, tweak: &mut Tweak) {
        let graph = self.task.graph;
        let queues = &here.schedule.queues;
        let wait = self.wait(here);
        let outs = wait
            .outs
            .clone()
            .map(|row| queues.outs[row % queues.outs.len()].row);
        let ins = wait
            .ins
            .clone()
            .map(|row| queues.ins[row % queues.ins.len()].row);
        let rows: Vec<usize> = outs.chain(ins).collect();
        if rows.is_empty() {
            return;
        }
        tweak.most.resize(graph.gaps().len(), u32::MAX);
        for _ in 0..=self.below(3) {
            let m = &here.schedule.moves[rows[self.below(rows.len())]];
            let mut gaps = graph.gaps_of(m.tensor);
            let Some(gap) = gaps.find(|&row| graph.gaps()[row].idle().start == m.leave + 1) else {
                continue;
            };
            let leaves = here.selected[gap];
            let fewer = match self.granule {
                Granule::Tensor => 0,
                Granule::Piece => match self.below(3) {
                    0 => 0,
                    1 => leaves / 2,
                    _ => leaves.saturating_sub(1 + leaves / 8),
                },
            };
            tweak.most[gap] = fewer;
        }
    }

    /// More pages are to be free in some steps up to one that waits.
    fn ask(&mut self, here: &Point, tweak: &mut Tweak) {
        let steps = self.task.pages.live.len();
        let end = self.wait(here).step + 1;
        let length = 1 + self.below((steps / 3).max(1));
        let share = 5 + to_i64(self.below(96));
        let pages = (self.task.capacity * share / 1000).max(1);
        tweak.asked.resize(steps, 0);
        for at in 1..=length {
            let step = (end + steps - at % steps) % steps;
            tweak.asked[step] = tweak.asked[step].max(pages);
        }
    }

    fn take_back(&mut self, tweak: &mut Tweak) {
        if self.below(2) == 0 && !tweak.most.is_empty() {
            let capped: Vec<usize> = (0..tweak.most.len())
                .filter(|&row| tweak.most[row] != u32::MAX)
                .collect();
            if !capped.is_empty() {
                tweak.most[capped[self.below(capped.len())]] = u32::MAX;
            }
        } else if !tweak.asked.is_empty() {
            let start = self.below(tweak.asked.len());
            let end = (start + 1 + self.below(tweak.asked.len() / 3 + 1)).min(tweak.asked.len());
            tweak.asked[start..end].fill(0);
        }
    }

    /// A wait, each as likely as it is long.
    fn wait<'p>(&mut self, here: &'p Point) -> &'p Wait {
        let all: u64 = here.waits.iter().map(|wait| wait.ns).sum();
        let mut at = self.random.rand_range(0..all.max(1));
        let found = here.waits.iter().find(|wait| {
            let found = at < wait.ns;
            at = at.saturating_sub(wait.ns);
            found
        });
        found.unwrap_or(&here.waits[0])
    }

    fn below(&mut self, count: usize) -> usize {
        let drawn = self.random.rand_range(0..count as u64);
        usize::try_from(drawn).expect("below a usize")
    }
}
