//! Labelled images in host memory, as a disk or a camera would deliver them: bytes.

use crate::train::model::Shape;

/// Labelled images of one size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Images {
    /// One image after the other, each as rows of pixels, each pixel as its channels.
    pub pixels: Vec<u8>,
    /// What each shows.
    pub labels: Vec<u8>,
}

impl Images {
    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Those at `places`, in that order.
    ///
    /// # Panics
    /// If a place is none of an image.
    #[must_use]
    pub fn select(&self, places: &[usize]) -> Self {
        let floats = self.pixels.len() / self.len();
        let mut selected = Self::default();
        for &place in places {
            let pixels = &self.pixels[place * floats..(place + 1) * floats];
            selected.pixels.extend_from_slice(pixels);
            selected.labels.push(self.labels[place]);
        }
        selected
    }
}

/// Images to learn from, and others to see what was learnt.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// What it is, for people.
    pub name: &'static str,
    /// The size of each image.
    pub shape: Shape,
    /// Labels are below this.
    pub classes: usize,
    /// To learn from.
    pub train: Images,
    /// Held out.
    pub test: Images,
    /// For each channel the mean over all training images, and one over the deviation from it.
    scale: Vec<(f32, f32)>,
}

impl Dataset {
    /// A dataset, whose pixels count as their distance from the mean in deviations.
    #[must_use]
    pub fn new(
        name: &'static str,
        shape: Shape,
        classes: usize,
        train: Images,
        test: Images,
    ) -> Self {
        let scale = (0..shape.channels).map(|channel| {
            let pixels = train.pixels.iter().skip(channel).step_by(shape.channels);
            let pixels = pixels.map(|x| u64::from(*x));
            let (count, sum, squares) = pixels.fold((0_u64, 0, 0), |(count, sum, squares), x| {
                (count + 1, sum + x, squares + x * x)
            });
            let mean = sum as f64 / count as f64;
            let variance = squares as f64 / count as f64 - mean * mean;
            // A channel that is the same everywhere has no deviation; it becomes 0.
            let inverse = 1.0 / variance.max(1e-6).sqrt();
            #[allow(clippy::cast_possible_truncation)]
            (mean as f32, inverse as f32)
        });
        Self {
            name,
            shape,
            classes,
            scale: scale.collect(),
            train,
            test,
        }
    }

    /// Writes the images at `places` of `images`, which are the dataset's, and their labels.
    ///
    /// # Panics
    /// If there is no such image, or the slices do not have the size of these images.
    pub fn load(&self, images: &Images, places: &[u32], pixels: &mut [f32], labels: &mut [u32]) {
        let floats = self.shape.floats();
        assert_eq!(labels.len(), places.len(), "a label for each image");
        assert_eq!(pixels.len(), places.len() * floats, "room for each image");
        let to = pixels.chunks_exact_mut(floats).zip(labels);
        for (place, (pixels, label)) in places.iter().zip(to) {
            let place = *place as usize;
            *label = images.labels[place].into();
            let from = &images.pixels[place * floats..(place + 1) * floats];
            for (at, (to, from)) in pixels.iter_mut().zip(from).enumerate() {
                let (mean, inverse) = self.scale[at % self.scale.len()];
                *to = (f32::from(*from) - mean) * inverse;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_become_deviations_from_the_mean_of_their_channel() {
        let images = Images {
            pixels: vec![1, 10, 3, 10, 5, 10, 7, 10],
            labels: vec![1, 0],
        };
        let shape = Shape {
            height: 1,
            width: 2,
            channels: 2,
        };
        let data = Dataset::new("two", shape, 2, images.clone(), images.select(&[1]));
        assert_eq!(data.test.pixels, [5, 10, 7, 10]);
        let (mut pixels, mut labels) = ([f32::NAN; 4], [9; 1]);
        data.load(&data.train, &[1], &mut pixels, &mut labels);
        let deviation = 5.0_f32.sqrt();
        for (found, expected) in pixels
            .iter()
            .zip([1.0 / deviation, 0.0, 3.0 / deviation, 0.0])
        {
            assert!((found - expected).abs() < 1e-6, "{pixels:?}");
        }
        assert_eq!(labels, [0]);
    }
}
