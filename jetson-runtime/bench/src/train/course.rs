//! The course of a training: which images when, and how far each step goes.
//!
//! In: how many images, steps, epochs. Out: for each step its images. Guarantees: every epoch sees
//! each image once, in an order that the seed and the number of the epoch decide, and nothing else.

use super::data::order::shuffled;
use super::kernels::sgd::Sgd;

/// How much of the last step goes on.
const MOMENTUM: f32 = 0.9;
/// How strongly parameters are pulled to 0.
const WEIGHT_DECAY: f32 = 5e-4;
/// The last part of all steps goes less far: a fourth of them.
const LATE: usize = 4;
/// By how much less.
const LATE_FACTOR: f32 = 0.1;

/// The course of a training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Course {
    /// Images to learn from.
    pub images: usize,
    /// Images of a step; the last one of an epoch may have fewer.
    pub batch: usize,
    /// Steps in all.
    pub steps: usize,
    /// How far a step goes at first.
    pub learning_rate: f32,
    /// Decides the order of images.
    pub seed: u64,
}

impl Course {
    /// Steps of an epoch.
    #[must_use]
    pub const fn steps_of_epoch(&self) -> usize {
        self.images.div_ceil(self.batch)
    }

    /// Epochs that begin.
    #[must_use]
    pub const fn epochs(&self) -> usize {
        self.steps.div_ceil(self.steps_of_epoch())
    }

    /// The images of each step of epoch `epoch`.
    #[must_use]
    pub fn epoch(&self, epoch: usize) -> Vec<Vec<u32>> {
        let before = epoch * self.steps_of_epoch();
        let seed = self.seed.wrapping_mul(1_000_003).wrapping_add(epoch as u64);
        let places = shuffled(self.images, seed).into_iter();
        let places = places.map(|place| u32::try_from(place).expect("images are counted in u32"));
        let places: Vec<u32> = places.collect();
        let batches = places.chunks(self.batch).map(<[u32]>::to_vec);
        batches.take(self.steps.saturating_sub(before)).collect()
    }

    /// How parameters follow their gradients in a step, counted from 0.
    #[must_use]
    pub fn sgd(&self, step: usize) -> Sgd {
        let late = step >= self.steps - self.steps / LATE;
        let factor = if late { LATE_FACTOR } else { 1.0 };
        Sgd {
            learning_rate: self.learning_rate * factor,
            momentum: MOMENTUM,
            weight_decay: WEIGHT_DECAY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COURSE: Course = Course {
        images: 10,
        batch: 4,
        steps: 8,
        learning_rate: 0.1,
        seed: 1,
    };

    #[test]
    fn epochs_see_every_image_once_and_end_with_the_steps() {
        assert_eq!((COURSE.steps_of_epoch(), COURSE.epochs()), (3, 3));
        let sizes = |epoch| COURSE.epoch(epoch).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(
            [sizes(0), sizes(1), sizes(2)],
            [vec![4, 4, 2], vec![4, 4, 2], vec![4, 4]]
        );
        let mut images = COURSE.epoch(1).concat();
        assert_ne!(images, COURSE.epoch(0).concat());
        images.sort_unstable();
        assert!(images.into_iter().eq(0..10));
        let other = Course { seed: 2, ..COURSE };
        assert_ne!(other.epoch(0), COURSE.epoch(0));
    }

    #[test]
    fn the_learning_rate_changes_once() {
        let rates: Vec<f32> = (0..8).map(|step| COURSE.sgd(step).learning_rate).collect();
        assert!(rates[..6].iter().all(|rate| *rate == 0.1));
        assert!(rates[6..].iter().all(|rate| (*rate - 0.01).abs() < 1e-9));
        let short = Course { steps: 1, ..COURSE };
        assert_eq!(short.sgd(0).learning_rate, 0.1);
    }
}
