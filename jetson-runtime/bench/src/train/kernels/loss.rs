//! Softmax and cross-entropy, in place: logits become probabilities, then the gradient.

/// What a batch came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Metrics {
    /// The mean cross-entropy of its images.
    pub loss: f32,
    /// How many images had their label as the largest number.
    pub correct: u32,
}

/// `rows <- softmax of each row`; returns what the batch came to. Row `i` belongs to image `i`.
///
/// # Panics
/// If a label is not below the length of a row; loaders refuse such labels.
pub fn forward(labels: &[u32], rows: &mut [f32]) -> Metrics {
    let classes = rows.len() / labels.len();
    let (mut loss, mut correct) = (0.0, 0);
    for (row, &label) in rows.chunks_exact_mut(classes).zip(labels) {
        let label = label as usize;
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        correct += u32::from(row.iter().position(|x| *x == largest) == Some(label));
        let own = row[label] - largest;
        let mut sum = 0.0;
        for x in row.iter_mut() {
            *x = (*x - largest).exp();
            sum += *x;
        }
        row.iter_mut().for_each(|x| *x /= sum);
        loss += sum.ln() - own;
    }
    let loss = loss / labels.len() as f32;
    Metrics { loss, correct }
}

/// `rows <- gradient of the mean loss by the logits`, from the probabilities.
pub fn backward(labels: &[u32], rows: &mut [f32]) {
    let classes = rows.len() / labels.len();
    let share = 1.0 / labels.len() as f32;
    for (row, &label) in rows.chunks_exact_mut(classes).zip(labels) {
        row[label as usize] -= 1.0;
        row.iter_mut().for_each(|x| *x *= share);
    }
}
