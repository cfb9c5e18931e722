//! Images in the size of CIFAR-10 that are made up, where there are no real ones.
//!
//! Each class has a pattern of colours of its own; an image is the pattern with noise. That says
//! nothing about accuracy on photographs, but losses fall, and shapes and times are the real ones.

use oorandom::Rand32;

use super::{Dataset, Images, cifar};

/// Images to learn from.
const TRAIN: usize = 1024;
/// Images that are held out.
const TEST: usize = 256;
const SEED: u64 = 32;
/// Rows and columns of a pattern.
const PATCHES: usize = 4;
const NOISE: u32 = 96;

/// Generated images, the same each time.
#[must_use]
pub fn generated() -> Dataset {
    let mut random = Rand32::new(SEED);
    let patterns: Vec<u8> = (0..cifar::CLASSES * PATCHES * PATCHES * cifar::SHAPE.channels)
        .map(|_| byte(random.rand_range(0..256 - NOISE)))
        .collect();
    let mut images = |count: usize| {
        let mut images = Images::default();
        for image in 0..count {
            let class = image % cifar::CLASSES;
            images.labels.push(byte(class));
            for y in 0..cifar::SHAPE.height {
                for x in 0..cifar::SHAPE.width {
                    let row = class * PATCHES + y * PATCHES / cifar::SHAPE.height;
                    let patch = row * PATCHES + x * PATCHES / cifar::SHAPE.width;
                    for channel in 0..cifar::SHAPE.channels {
                        let colour = patterns[patch * cifar::SHAPE.channels + channel];
                        let noise = byte(random.rand_range(0..NOISE));
                        images.pixels.push(colour + noise);
                    }
                }
            }
        }
        images
    };
    let (train, test) = (images(TRAIN), images(TEST));
    Dataset::new(
        "generated images, not real ones",
        cifar::SHAPE,
        cifar::CLASSES,
        train,
        test,
    )
}

fn byte(number: impl TryInto<u8>) -> u8 {
    let Ok(byte) = number.try_into() else {
        panic!("numbers are drawn below 256");
    };
    byte
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_differ_by_more_than_noise() {
        let data = generated();
        assert_eq!((data.train.len(), data.test.len()), (TRAIN, TEST));
        let mean = |image: usize| {
            // The first patch, red.
            let image = &data.train.pixels[image * data.shape.floats()..];
            let patch = (0..8).flat_map(|y| (0..8).map(move |x| (y * 32 + x) * 3));
            patch.map(|at| f64::from(image[at])).sum::<f64>() / 64.0
        };
        assert!((mean(0) - mean(10)).abs() < 20.0, "the same class");
        let far = (1..10).filter(|class| (mean(0) - mean(*class)).abs() > 20.0);
        assert!(far.count() >= 5, "other classes");
    }
}
