//! The windows that a convolution looks through, as rows of a matrix: gathered, and added back.
//!
//! In: a batch, and which output rows are wanted (row `y` of image `n` is row `n × height + y` of
//! the batch). Out: a matrix with one row for each output pixel, and in it the window's numbers in
//! the order (row, column, channel); zero outside of the image.

use std::ops::Range;

use super::Convolution;

impl Convolution {
    /// Copies the windows of the output rows `rows` into `patches`, whole.
    pub(super) fn gather(&self, rows: Range<usize>, input: &[f32], patches: &mut [f32]) {
        let line = self.kernel * self.input.channels;
        let mut lines = patches.chunks_exact_mut(line);
        self.each_line(rows, |before, pixels| {
            let patch = lines.next().expect("the caller gives room for all rows");
            let (zeros, rest) = patch.split_at_mut(before);
            let (content, after) = rest.split_at_mut(pixels.len());
            zeros.fill(0.0);
            copy(content, &input[pixels]);
            after.fill(0.0);
        });
        assert!(lines.next().is_none(), "the caller gives room for no more");
    }

    /// Adds the windows of the output rows `rows` to the pixels that they came from.
    pub(super) fn add_back(&self, rows: Range<usize>, patches: &[f32], input: &mut [f32]) {
        let line = self.kernel * self.input.channels;
        let mut lines = patches.chunks_exact(line);
        self.each_line(rows, |before, pixels| {
            let patch = lines.next().expect("the caller gives all rows");
            let content = &patch[before..before + pixels.len()];
            for (sum, add) in input[pixels].iter_mut().zip(content) {
                *sum += add;
            }
        });
    }

    /// Calls `visit` for each line of each window, in the order of the matrix, with how many
    /// numbers of it lie left of the image and which numbers of the batch the rest of it is; what
    /// is missing then lies right of the image.
    fn each_line(&self, rows: Range<usize>, mut visit: impl FnMut(usize, Range<usize>)) {
        let (input, output) = (self.input, self.output());
        let channels = input.channels;
        for row in rows {
            let (image, y) = (row / output.height, row % output.height);
            for x in 0..output.width {
                let left = x * self.stride;
                let skipped = self.padding.saturating_sub(left);
                let first = (left + skipped) - self.padding;
                let end = (left + self.kernel - self.padding)
                    .min(input.width)
                    .max(first);
                for line in 0..self.kernel {
                    let top = y * self.stride + line;
                    let inside = top >= self.padding && top - self.padding < input.height;
                    if !inside {
                        visit(0, 0..0);
                        continue;
                    }
                    let start = (image * input.height + top - self.padding) * input.width;
                    let numbers = (start + first) * channels..(start + end) * channels;
                    visit(skipped * channels, numbers);
                }
            }
        }
    }
}

/// Short copies of a length that is not known: in whole vectors, without a call for each.
#[inline]
fn copy(to: &mut [f32], from: &[f32]) {
    let (to_vectors, to_rest) = to.as_chunks_mut::<8>();
    let (from_vectors, from_rest) = from.as_chunks::<8>();
    for (to, from) in to_vectors.iter_mut().zip(from_vectors) {
        *to = *from;
    }
    for (to, from) in to_rest.iter_mut().zip(from_rest) {
        *to = *from;
    }
}
