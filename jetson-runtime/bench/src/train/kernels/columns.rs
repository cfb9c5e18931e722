//! Some neighbouring channels of a batch, pixel by pixel.
//!
//! Channels are taken a cache line at a time: sums then stay in registers, and a pass over the
//! batch reads each line once. Channels that do not fill a line are taken one by one.

/// Channels at a time: the floats of a cache line.
const LINE: usize = 16;
/// Pixels whose sum is taken before it is added to the sum of all, so that small numbers are not
/// lost in a large one.
const BLOCK: usize = 64;

/// `N` channels from `first` on, of batches with `channels` channels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns<const N: usize> {
    pub(super) first: usize,
    channels: usize,
}

/// Does something for the channels of a batch, `N` at a time.
pub(super) trait ForColumns {
    fn run<const N: usize>(&mut self, columns: Columns<N>);
}

/// Calls `work` for all channels.
pub(super) fn for_columns(channels: usize, work: &mut impl ForColumns) {
    let whole = channels - channels % LINE;
    for first in (0..whole).step_by(LINE) {
        work.run(Columns::<LINE> { first, channels });
    }
    for first in whole..channels {
        work.run(Columns::<1> { first, channels });
    }
}

impl<const N: usize> Columns<N> {
    /// These channels' part of numbers that there are one of for each channel.
    pub(super) fn of(self, channels: &[f32]) -> &[f32; N] {
        let part = &channels[self.first..self.first + N];
        part.try_into().expect("the range has N numbers")
    }

    pub(super) fn of_mut(self, channels: &mut [f32]) -> &mut [f32; N] {
        let part = &mut channels[self.first..self.first + N];
        part.try_into().expect("the range has N numbers")
    }

    /// The sums of `term(lane, a, b)` over the pixels of two batches.
    pub(super) fn sum(
        self,
        a: &[f32],
        b: &[f32],
        term: impl Fn(usize, f32, f32) -> f32,
    ) -> [f32; N] {
        let mut sum = [0.0; N];
        let step = self.channels * BLOCK;
        for (a, b) in a.chunks(step).zip(b.chunks(step)) {
            let mut part = [0.0; N];
            let pixels = a.chunks_exact(self.channels);
            for (a, b) in pixels.zip(b.chunks_exact(self.channels)) {
                let (a, b) = (self.of(a), self.of(b));
                for lane in 0..N {
                    part[lane] += term(lane, a[lane], b[lane]);
                }
            }
            for lane in 0..N {
                sum[lane] += part[lane];
            }
        }
        sum
    }

    /// Puts `change(lane, from, to)` in place of `to`, for each pixel of two batches.
    pub(super) fn apply(
        self,
        from: &[f32],
        to: &mut [f32],
        change: impl Fn(usize, f32, f32) -> f32,
    ) {
        let pixels = from.chunks_exact(self.channels);
        for (from, to) in pixels.zip(to.chunks_exact_mut(self.channels)) {
            let (from, to) = (self.of(from), self.of_mut(to));
            for lane in 0..N {
                to[lane] = change(lane, from[lane], to[lane]);
            }
        }
    }
}
