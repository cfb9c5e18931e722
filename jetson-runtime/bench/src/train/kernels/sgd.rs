//! Stochastic gradient descent with momentum.

/// How a parameter follows its gradient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sgd {
    /// How far a step goes.
    pub learning_rate: f32,
    /// How much of the last step goes on.
    pub momentum: f32,
    /// How strongly parameters are pulled to 0.
    pub weight_decay: f32,
}

impl Sgd {
    /// One step of one parameter.
    pub fn step(&self, gradient: &[f32], parameter: &mut [f32], momentum: &mut [f32]) {
        let state = parameter.iter_mut().zip(momentum);
        for (g, (w, v)) in gradient.iter().zip(state) {
            *v = self.momentum * *v + (g + self.weight_decay * *w);
            *w -= self.learning_rate * *v;
        }
    }
}
