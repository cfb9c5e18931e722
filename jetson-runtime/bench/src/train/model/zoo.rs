//! The networks that can be trained.

use super::{Network, Shape};

/// A small network for small images: three convolutions, one pooling, one linear layer.
#[must_use]
pub fn digits(images: Shape, classes: usize) -> Network {
    let mut network = Network::new("digits", images);
    for number in 1..=3 {
        network.convolution(&format!("conv{number}"), 32, 1);
        network.batch_norm(&format!("bn{number}"));
        network.relu(&format!("relu{number}"));
    }
    network.max_pool("pool", 2).linear("fc", classes);
    network
}

/// ResNet-20 as published for CIFAR: three stages of three blocks with 16, 32 and 64 channels, and
/// shortcuts without parameters.
///
/// Source: He, Zhang, Ren, Sun, *Deep Residual Learning for Image Recognition*, 2015, section 4.2.
#[must_use]
pub fn resnet20(images: Shape, classes: usize) -> Network {
    let mut network = Network::new("resnet20", images);
    network
        .convolution("conv1", 16, 1)
        .batch_norm("bn1")
        .relu("relu1");
    for (stage, channels) in [16, 32, 64].into_iter().enumerate() {
        for block in 0..3 {
            let name = |what: &str| format!("layer{}.{block}.{what}", stage + 1);
            let start = network.last();
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            network.convolution(&name("conv1"), channels, stride);
            network.batch_norm(&name("bn1")).relu(&name("relu1"));
            network.convolution(&name("conv2"), channels, 1);
            network.batch_norm(&name("bn2"));
            network.shortcut(&name("add"), start).relu(&name("relu2"));
        }
    }
    network.average_pool("pool").linear("fc", classes);
    network
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::model::Layer;

    fn parameters(network: &Network) -> usize {
        let all = network.layers.iter().flat_map(Layer::parameters);
        all.map(|weights| weights.floats()).sum()
    }

    #[test]
    fn resnet20_is_the_published_one() {
        let images = Shape {
            height: 32,
            width: 32,
            channels: 3,
        };
        let network = resnet20(images, 10);
        // 20 layers with weights; the published 0.27 million parameters.
        let convolutions = network.layers.iter().filter(|l| l.name.contains("conv"));
        assert_eq!(convolutions.count(), 19);
        assert_eq!(parameters(&network), 269_722);
        assert_eq!(network.values[network.last() - 1].floats(), 64);
    }

    #[test]
    fn activations_of_digits_outweigh_its_parameters() {
        let images = Shape {
            height: 8,
            width: 8,
            channels: 1,
        };
        let network = digits(images, 10);
        let activations: usize = network.values.iter().map(|shape| shape.floats()).sum();
        assert!(128 * activations > 40 * parameters(&network));
    }
}
