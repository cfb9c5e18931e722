//! `autoswap`: among the tensors that idle at the peak, the one with the highest score leaves,
//! until there is no peak beyond the capacity. The best of four scores:
//!
//! - *DOA*, duration of absence: how long the tensor would really be away, copies taken off;
//! - *AOA*, area of absence: DOA times its size (over its size, where DOA is negative);
//! - *WDOA*, weighted duration of absence: the load beyond the capacity, summed over the absence;
//! - *SWDOA*: the same, with the load that is left after each pick.
//!
//! Source: Zhang et al., *Efficient Memory Management for GPU-based Deep Learning Systems*, arXiv
//! 1903.06631, 2019.

use super::Task;
use super::paged::{Choice, Clock, best};
use super::published::{Fastest, Timed, by_need, just_in_time, release};
use crate::queues::Overfull;
use crate::schedule::Schedule;

/// By what tensors are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Score {
    Doa,
    Aoa,
    Wdoa,
    Swdoa,
}

impl Score {
    const ALL: [Self; 4] = [Self::Doa, Self::Aoa, Self::Wdoa, Self::Swdoa];
}

/// How many choices are scheduled.
#[allow(clippy::cast_possible_truncation)]
pub(super) const CHOICES: u32 = Score::ALL.len() as u32;

pub(super) fn schedules(task: Task<'_>) -> Result<Vec<Schedule>, Overfull> {
    best(Score::ALL.map(|score| choice(task, score)))
}

fn choice(task: Task<'_>, by: Score) -> Choice<'_> {
    let mut choice = Choice::new(task);
    let mut weights = Weights::new(task);
    weights.update(&choice);
    let mut scores = scores(task, by, &weights);
    let steps = task.graph.steps();
    while !choice.fits() {
        let peak = u32::try_from(choice.peak()).expect("limits: at most 2^20 steps");
        let gaps = task.graph.gaps().iter().enumerate();
        let spans =
            gaps.filter(|(row, gap)| !choice.taken(*row) && gap.idle().contains(peak, steps));
        let pick =
            spans.max_by(|(a, _), (b, _)| scores[*a].total_cmp(&scores[*b]).then_with(|| b.cmp(a)));
        let Some((row, _)) = pick else {
            break;
        };
        choice.take(row);
        if by == Score::Swdoa {
            weights.update(&choice);
            scores = self::scores(task, by, &weights);
        }
    }
    choice
}

/// Sums over steps of load beyond the capacity times duration.
struct Weights<'a> {
    task: Task<'a>,
    /// Until each step, and until the end.
    until: Vec<f64>,
}

impl<'a> Weights<'a> {
    fn new(task: Task<'a>) -> Self {
        Self {
            task,
            until: Vec::new(),
        }
    }

    fn update(&mut self, choice: &Choice<'_>) {
        self.until.clear();
        let mut sum = 0.0;
        self.until.push(sum);
        for (step, op) in self.task.graph.skeleton.ops.iter().enumerate() {
            sum += choice.excess(step) as f64 * op.duration_ns as f64;
            self.until.push(sum);
        }
    }

    /// Until a step that may lie in the next iteration.
    fn until(&self, step: u32) -> f64 {
        let steps = self.task.graph.steps();
        let whole = self.until[steps as usize];
        f64::from(step / steps) * whole + self.until[(step % steps) as usize]
    }
}

/// The score of each gap.
fn scores(task: Task<'_>, by: Score, weights: &Weights<'_>) -> Vec<f64> {
    let clock = Clock::new(task);
    let gaps = task.graph.gaps().iter();
    gaps.map(|gap| {
        let doa = clock.absence(gap).free_ns() as f64;
        let bytes = task.graph.skeleton.tensor(gap.tensor).bytes.0 as f64;
        match by {
            Score::Doa => doa,
            Score::Aoa if doa < 0.0 => doa / bytes,
            Score::Aoa => doa * bytes,
            Score::Wdoa | Score::Swdoa => {
                let idle = gap.idle();
                weights.until(idle.end) - weights.until(idle.start)
            }
        }
    })
    .collect()
}

/// How many schedules each choice gets: by the time without stalls, and by that of the last one.
pub(super) const ROUNDS: u32 = 3;

/// Copies in are scheduled backwards from the next uses.
pub(super) fn published(task: Task<'_>) -> Result<Vec<Timed>, Overfull> {
    let mut fastest = Fastest::new();
    for score in Score::ALL {
        let moves = choice(task, score).moves();
        let mut clock = Clock::new(task);
        for _ in 0..ROUNDS {
            let backs = just_in_time(task, &clock, &moves);
            let made = release(task, moves.clone(), |row, _| backs[row], by_need(task));
            if let Ok(schedule) = &made {
                clock = Clock::simulated(task, &schedule.timeline);
            }
            fastest.offer(made);
        }
    }
    fastest.all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::example::{Example, leaving, r, w};

    /// Tensor 0 is large, 1 waits long, 2 waits at the second peak too.
    fn example() -> Example {
        let ops: &[(_, _, &[_])] = &[
            ("a", 9000, &[w(1)]),
            ("b", 9000, &[w(0)]),
            ("c", 1000, &[w(2)]),
            ("peak", 10_000, &[w(3)]),
            ("d", 1000, &[r(0)]),
            ("e", 1000, &[r(1)]),
            ("second", 20_000, &[w(4)]),
            ("f", 1000, &[r(2)]),
        ];
        Example::new(&[4, 1, 2, 1, 4], ops)
    }

    #[test]
    fn the_four_scores_are_as_published() {
        example().with(5, |task| {
            let choice = Choice::new(task);
            let mut weights = Weights::new(task);
            weights.update(&choice);
            // At `c` 7 pages are live, at `peak` 8, at `d` 7 and at `second` 6.
            let by = |score| scores(task, score, &weights);
            let page = vtensor::PageBytes::MIN.get() as f64;
            assert_eq!(by(Score::Doa), [3000.0, 19_000.0, 28_000.0]);
            let areas = [3000.0 * 4.0, 19_000.0, 28_000.0 * 2.0].map(|area| area * page);
            assert_eq!(by(Score::Aoa), areas);
            assert_eq!(by(Score::Wdoa), [32_000.0, 34_000.0, 52_000.0]);
        });
    }

    #[test]
    fn the_highest_score_at_the_peak_leaves_first() {
        example().with(6, |task| {
            let leaving = |score| leaving(task, &choice(task, score));
            // Tensor 2 makes room at the peak; at `c` it is written, and a page is missing.
            assert_eq!(leaving(Score::Doa), [1, 2]);
            assert_eq!(leaving(Score::Aoa), [1, 2]);
            // By weight tensor 1 comes first (22,000), then tensors 0 and 2 are equal (21,000, and
            // 10,000 with tensor 1 away).
            assert_eq!(leaving(Score::Wdoa), [0, 1]);
            assert_eq!(leaving(Score::Swdoa), [0, 1]);
        });
    }
}
