//! A network: layers in the order of the forward pass, and the values between them.
//!
//! In: layers, one after the other. Out: shapes of all values, and when each may be forgotten.
//! A value may have several readers (a shortcut); layers that work in place have it as both input
//! and output. Value 0 is the images, the last one the logits.

use super::Shape;
use super::layer::{Kind, Layer};
use crate::train::kernels::Convolution;
use crate::train::kernels::elementwise::Shortcut;
use crate::train::kernels::linear::Linear;
use crate::train::kernels::pool::MaxPool;

/// A network.
#[derive(Clone, Debug)]
pub struct Network {
    /// Its name.
    pub name: &'static str,
    /// The shape that one image has as each value.
    pub values: Vec<Shape>,
    /// What each value is called.
    pub value_names: Vec<String>,
    /// Its layers.
    pub layers: Vec<Layer>,
}

impl Network {
    /// A network without layers.
    #[must_use]
    pub fn new(name: &'static str, images: Shape) -> Self {
        Self {
            name,
            values: vec![images],
            value_names: vec!["images".into()],
            layers: Vec::new(),
        }
    }

    /// The value that was added last.
    #[must_use]
    pub fn last(&self) -> usize {
        self.values.len() - 1
    }

    fn shape(&self) -> Shape {
        self.values[self.last()]
    }

    /// Adds a layer that reads the last value and makes another.
    fn push(&mut self, name: &str, kind: Kind, output: Shape) -> &mut Self {
        self.layers.push(Layer {
            name: name.into(),
            kind,
            input: self.last(),
            output: self.values.len(),
        });
        self.values.push(output);
        self.value_names.push(format!("{name}.output"));
        self
    }

    /// Adds a layer that works in place on the last value.
    fn push_in_place(&mut self, name: &str, kind: Kind) -> &mut Self {
        let value = self.last();
        self.layers.push(Layer {
            name: name.into(),
            kind,
            input: value,
            output: value,
        });
        self
    }

    /// Adds a 3 × 3 convolution whose output is the input's size over `stride`.
    pub fn convolution(&mut self, name: &str, channels: usize, stride: usize) -> &mut Self {
        let convolution = Convolution {
            input: self.shape(),
            channels,
            kernel: 3,
            stride,
            padding: 1,
        };
        self.push(name, Kind::Convolution(convolution), convolution.output())
    }

    /// Adds a batch normalisation.
    pub fn batch_norm(&mut self, name: &str) -> &mut Self {
        let shape = self.shape();
        self.push(name, Kind::BatchNorm(shape.channels), shape)
    }

    /// Adds a rectifier.
    pub fn relu(&mut self, name: &str) -> &mut Self {
        self.push_in_place(name, Kind::Relu)
    }

    /// Adds pooling of the largest number in windows of `size` by `size` pixels.
    pub fn max_pool(&mut self, name: &str, size: usize) -> &mut Self {
        let pool = MaxPool {
            input: self.shape(),
            size,
        };
        self.push(name, Kind::MaxPool(pool), pool.output())
    }

    /// Adds the mean over all pixels.
    pub fn average_pool(&mut self, name: &str) -> &mut Self {
        let shape = self.shape();
        let output = Shape {
            height: 1,
            width: 1,
            ..shape
        };
        self.push(name, Kind::AveragePool(shape), output)
    }

    /// Adds a linear layer.
    pub fn linear(&mut self, name: &str, outputs: usize) -> &mut Self {
        let linear = Linear {
            inputs: self.shape().floats(),
            outputs,
        };
        let output = Shape {
            height: 1,
            width: 1,
            channels: outputs,
        };
        self.push(name, Kind::Linear(linear), output)
    }

    /// Adds value `from` to the last one.
    pub fn shortcut(&mut self, name: &str, from: usize) -> &mut Self {
        let (input, output) = (self.values[from], self.shape());
        let shortcut = Shortcut {
            input,
            output,
            stride: input.width.div_ceil(output.width),
        };
        self.push_in_place(name, Kind::Shortcut { from, shortcut })
    }

    /// For each step of an evaluation, which is one layer's forward pass, the values that no later
    /// one reads. The logits are not among them.
    #[must_use]
    pub fn ends_in_evaluation(&self) -> Vec<Vec<usize>> {
        self.ends(self.layers.iter().map(Layer::forward_uses).collect())
    }

    /// The same for training: all layers forward, then all backward in reverse order.
    #[must_use]
    pub fn ends_in_training(&self) -> Vec<Vec<usize>> {
        let forward = self.layers.iter().map(Layer::forward_uses);
        let backward = self.layers.iter().rev().map(Layer::backward_uses);
        self.ends(forward.chain(backward).collect())
    }

    fn ends(&self, uses: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
        let mut ends = vec![Vec::new(); uses.len()];
        for value in 0..self.last() {
            let last = uses.iter().rposition(|used| used.contains(&value));
            ends[last.expect("every value is the output of a layer or the images")].push(value);
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Network {
        let shape = Shape {
            height: 4,
            width: 4,
            channels: 2,
        };
        let mut network = Network::new("small", shape);
        network.convolution("conv", 4, 2).relu("relu");
        network.shortcut("add", 0).linear("fc", 3);
        network
    }

    #[test]
    fn shapes_follow_from_layers() {
        let network = small();
        let shapes: Vec<_> = network
            .values
            .iter()
            .map(|s| (s.height, s.channels))
            .collect();
        assert_eq!(shapes, [(4, 2), (2, 4), (1, 3)]);
        let places: Vec<_> = network.layers.iter().map(|l| (l.input, l.output)).collect();
        assert_eq!(places, [(0, 1), (1, 1), (1, 1), (1, 2)]);
        assert_eq!(network.value_names, ["images", "conv.output", "fc.output"]);
    }

    #[test]
    fn values_end_after_their_last_reader() {
        let network = small();
        assert_eq!(
            network.ends_in_evaluation(),
            [vec![], vec![], vec![0], vec![1]]
        );
        // Backward: the linear layer and the rectifier read value 1, the convolution value 0.
        let ends = network.ends_in_training();
        let expected = [
            vec![],
            vec![],
            vec![],
            vec![],
            vec![],
            vec![],
            vec![1],
            vec![0],
        ];
        assert_eq!(ends, expected);
    }
}
