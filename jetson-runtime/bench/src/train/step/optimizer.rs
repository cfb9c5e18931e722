//! Parameters and their gradients, and the updates at the end of a step.

use jetson_runtime::{Access, RuntimeError, Tensor};
use vtensor::TensorKind;

use super::{Step, floats, floats_mut};
use crate::train::kernels::sgd::Sgd;

impl Step<'_> {
    /// The parameters of a layer.
    pub(super) fn parameters<const N: usize>(&self, layer: usize) -> [Tensor; N] {
        let parameters = &self.model.state.parameters[layer];
        assert_eq!(
            parameters.len(),
            N,
            "the kind of a layer says what it learns"
        );
        std::array::from_fn(|at| parameters[at].kept.tensor)
    }

    /// The running statistics of a layer.
    pub(super) fn statistics<const N: usize>(&self, layer: usize) -> [Tensor; N] {
        let statistics = &self.model.state.statistics[layer];
        assert_eq!(
            statistics.len(),
            N,
            "the kind of a layer says what it counts"
        );
        std::array::from_fn(|at| statistics[at].tensor)
    }

    /// Makes the gradients of a layer's parameters.
    pub(super) fn create_parameter_gradients<const N: usize>(
        &mut self,
        layer: usize,
    ) -> Result<[Tensor; N], RuntimeError> {
        let model = self.model;
        for parameter in &model.state.parameters[layer] {
            let floats = parameter.kept.weights.floats();
            let name = &parameter.gradient_name;
            let gradient = self.create(name, floats, TensorKind::Gradient)?;
            self.parameter_gradients[layer].push(gradient);
        }
        let gradients = self.parameter_gradients[layer].as_slice();
        Ok(gradients
            .try_into()
            .expect("the kind of a layer says what it learns"))
    }

    /// Every parameter follows its gradient, which is gone then.
    pub(super) fn update(&mut self, sgd: Sgd) -> Result<(), RuntimeError> {
        let model = self.model;
        for (layer, parameters) in model.state.parameters.iter().enumerate() {
            let gradients = std::mem::take(&mut self.parameter_gradients[layer]);
            for (parameter, gradient) in parameters.iter().zip(gradients) {
                let accesses = [
                    Access::read(gradient),
                    Access::read_write(parameter.kept.tensor),
                    Access::read_write(parameter.momentum.tensor),
                ];
                self.op(
                    &parameter.update_name,
                    accesses,
                    |[gradient, parameter, momentum]| {
                        sgd.step(
                            floats(gradient),
                            floats_mut(parameter),
                            floats_mut(momentum),
                        );
                    },
                )?;
                self.destroy(Some(gradient))?;
            }
        }
        Ok(())
    }
}
