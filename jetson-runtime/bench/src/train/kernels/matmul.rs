//! Products of dense row-major matrices: a thin front to the crate that computes them.
//!
//! In: slices and their shapes; transposed operands are views, never copies. Guarantees: one
//! thread, the same bits for the same operands and shapes on the same machine.
//!
//! Limits: the crate packs operands in buffers of its own, at most about 1 MiB, for the duration of
//! a call. *Not here*: the products themselves (`matrixmultiply`, which `ndarray` calls).

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2};

/// `data` as a matrix of that shape.
///
/// # Panics
/// If `data` has another size than the shape.
#[must_use]
pub fn matrix(data: &[f32], rows: usize, columns: usize) -> ArrayView2<'_, f32> {
    assert_eq!(data.len(), rows * columns, "a matrix has its shape's size");
    ArrayView2::from_shape((rows, columns), data).expect("the size was just compared")
}

/// `result <- left × right`, added to what is there if `accumulate`, else over it.
///
/// # Panics
/// If `result` has another size than the product, or the operands do not fit together.
pub fn multiply(
    left: &ArrayView2<'_, f32>,
    right: &ArrayView2<'_, f32>,
    accumulate: bool,
    result: &mut [f32],
) {
    let shape = (left.nrows(), right.ncols());
    assert_eq!(result.len(), shape.0 * shape.1, "a product has its size");
    let mut result = ArrayViewMut2::from_shape(shape, result).expect("the size was just compared");
    let kept = if accumulate { 1.0 } else { 0.0 };
    general_mat_mul(1.0, left, right, kept, &mut result);
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: [f32; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    const RIGHT: [f32; 6] = [7.0, 8.0, 9.0, 10.0, 11.0, 12.0];

    #[test]
    fn products_are_right_and_accumulate() {
        let (left, right) = (matrix(&LEFT, 2, 3), matrix(&RIGHT, 3, 2));
        let mut result = [f32::NAN; 4];
        multiply(&left, &right, false, &mut result);
        assert_eq!(result, [58.0, 64.0, 139.0, 154.0]);
        multiply(&left, &right, true, &mut result);
        assert_eq!(result, [116.0, 128.0, 278.0, 308.0]);
    }

    #[test]
    fn views_transpose() {
        let (left, right) = (matrix(&LEFT, 2, 3), matrix(&RIGHT, 2, 3));
        let mut result = [0.0; 9];
        multiply(&left.t(), &right, false, &mut result);
        assert_eq!(
            result,
            [47.0, 52.0, 57.0, 64.0, 71.0, 78.0, 81.0, 90.0, 99.0]
        );
    }

    #[test]
    #[should_panic(expected = "a matrix has its shape's size")]
    fn a_wrong_shape_is_a_bug() {
        let _ = matrix(&LEFT, 2, 2);
    }
}
