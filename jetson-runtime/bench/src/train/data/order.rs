//! In which order images are learnt from.

use oorandom::Rand64;

/// The numbers below `count` in an order that `seed` decides.
#[must_use]
pub fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut random = Rand64::new(seed.into());
    let mut places: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        let other = random.rand_range(0..last as u64 + 1);
        let other = usize::try_from(other).expect("it is at most a usize");
        places.swap(last, other);
    }
    places
}

/// The largest number of images, at most `batch`, that `count` is a multiple of: batches of that
/// size leave no odd one.
#[must_use]
pub fn even_batch(count: usize, batch: usize) -> usize {
    let fitting = (1..=batch.min(count)).rev();
    fitting
        .into_iter()
        .find(|size| count.is_multiple_of(*size))
        .unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_image_comes_once_and_seeds_matter() {
        let order = shuffled(1000, 1);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..1000));
        assert_ne!(order, shuffled(1000, 2));
        assert_eq!(order, shuffled(1000, 1));
        assert!(
            order
                .iter()
                .enumerate()
                .filter(|(at, place)| at == *place)
                .count()
                < 20
        );
        assert!(shuffled(0, 1).is_empty());
        assert_eq!(shuffled(1, 1), [0]);
    }

    #[test]
    fn even_batches_leave_nothing() {
        for (count, batch, even) in [(360, 128, 120), (10_000, 128, 125), (7, 5, 1), (4, 9, 4)] {
            assert_eq!(even_batch(count, batch), even);
        }
        assert_eq!(even_batch(0, 3), 1);
    }
}
