//! How many numbers one image has at a place of the network.

/// One image at a place of the network: rows of pixels, each pixel all its channels. A batch is one
/// image after the other, so it is also a matrix with a row for each pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows.
    pub height: usize,
    /// Pixels of a row.
    pub width: usize,
    /// Numbers of a pixel.
    pub channels: usize,
}

impl Shape {
    /// Pixels.
    #[must_use]
    pub const fn pixels(self) -> usize {
        self.height * self.width
    }

    /// Numbers.
    #[must_use]
    pub const fn floats(self) -> usize {
        self.pixels() * self.channels
    }
}
