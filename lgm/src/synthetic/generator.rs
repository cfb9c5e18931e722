//! The ops and tensors of a random step, in order.

use oorandom::Rand64;
use vtensor::{Bytes, TensorKind};

use super::Shape;
use crate::trace::{Phase, Tensor};

/// An op before it is known what dies after it.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub(super) name: &'static str,
    pub(super) reads: Vec<u32>,
    pub(super) writes: Vec<u32>,
    pub(super) allocs: Vec<u32>,
    pub(super) views: Vec<u32>,
    pub(super) no_time: bool,
}

#[derive(Clone, Copy, Default)]
struct Layer {
    kept: Option<u32>,
    parameter: Option<u32>,
    momentum: Option<u32>,
    gradient: Option<u32>,
}

pub(super) struct Generator {
    random: Rand64,
    shape: Shape,
    pub(super) tensors: Vec<Tensor>,
    pub(super) ops: Vec<(Phase, Draft)>,
    /// The activation or gradient that the next layer works on.
    current: u32,
    /// A temporary that was written and not yet read.
    temporary: Option<u32>,
    /// Tensors with content that other ops read now and then.
    readable: Vec<u32>,
}

impl Generator {
    pub(super) fn new(seed: u64, shape: &Shape) -> Self {
        Self {
            random: Rand64::new(u128::from(seed)),
            shape: *shape,
            tensors: Vec::new(),
            ops: Vec::new(),
            current: 0,
            temporary: None,
            readable: Vec::new(),
        }
    }

    /// Makes the whole step.
    pub(super) fn step(&mut self) {
        let Shape {
            ops,
            parameter_percent,
            fused_optimizer,
            ..
        } = self.shape;
        // A third of the ops are extras. A layer takes a forward op, a backward op, and an update
        // if it has a parameter.
        let percent = if fused_optimizer {
            200
        } else {
            200 + parameter_percent.min(100)
        };
        let layer_count = ((ops as u64 - 2) * 2 / 3 * 100 / percent).max(1);
        let mut layers: Vec<Layer> = (0..layer_count).map(|_| self.layer()).collect();
        let updates = layers
            .iter()
            .filter(|layer| layer.parameter.is_some())
            .count();
        let updates = if fused_optimizer {
            updates.min(1)
        } else {
            updates
        };
        let main_count = 1 + 2 * layers.len() + updates;
        let mut extras = Extras {
            count: ops.saturating_sub(main_count),
            points: main_count,
            point: 0,
        };
        self.load();
        self.extras(Phase::Load, &mut extras);
        for layer in &mut layers {
            self.forward(layer);
            self.extras(Phase::Forward, &mut extras);
        }
        for layer in layers.iter_mut().rev() {
            self.backward(layer);
            self.extras(Phase::Backward, &mut extras);
        }
        layers.retain(|layer| layer.parameter.is_some());
        let group = if fused_optimizer {
            layers.len().max(1)
        } else {
            1
        };
        for layers in layers.chunks(group) {
            self.update(layers);
            self.extras(Phase::Optimizer, &mut extras);
        }
    }

    fn layer(&mut self) -> Layer {
        let mut layer = Layer::default();
        if self.chance(self.shape.parameter_percent) {
            layer.parameter = Some(self.tensor(TensorKind::Parameter, true));
            let parameter = self.tensors.last().expect("just added").bytes;
            if self.chance(90) {
                layer.momentum = Some(self.sized(parameter, TensorKind::Optimizer, true));
            }
        }
        layer
    }

    /// Data arrives: in persistent tensors, overwritten whole, and in one of the step's own.
    fn load(&mut self) {
        let inputs: Vec<u32> = (0..1 + self.below(2))
            .map(|_| self.tensor(TensorKind::Input, true))
            .collect();
        let batch = self.tensor(TensorKind::Input, false);
        // A buffer that nobody ever writes, and one that layers update.
        let constant = self.tensor(TensorKind::Buffer, true);
        let statistics = self.tensor(TensorKind::Buffer, true);
        self.readable.extend([constant, statistics]);
        self.readable.extend(&inputs);
        self.current = batch;
        let writes = [&inputs[..], &[batch]].concat();
        self.push(
            Phase::Load,
            Draft {
                name: "load",
                writes,
                allocs: vec![batch],
                ..Draft::default()
            },
        );
    }

    fn forward(&mut self, layer: &mut Layer) {
        let mut op = Draft {
            name: "forward",
            reads: vec![self.current],
            ..Draft::default()
        };
        op.reads.extend(layer.parameter);
        if self.chance(20) {
            op.reads.push(self.any_readable());
        }
        if self.chance(15) {
            op.name = "forward_";
            op.writes.push(self.current);
        } else {
            self.current = self.tensor(TensorKind::Activation, false);
            op.writes.push(self.current);
            op.allocs.push(self.current);
        }
        if self.chance(self.shape.kept_percent) {
            layer.kept = Some(self.current);
            if self.chance(20) {
                self.readable.push(self.current);
            }
        }
        self.push(Phase::Forward, op);
    }

    fn backward(&mut self, layer: &mut Layer) {
        let mut op = Draft {
            name: "backward",
            reads: vec![self.current],
            ..Draft::default()
        };
        op.reads.extend(layer.kept);
        if let Some(parameter) = layer.parameter {
            op.reads.push(parameter);
            let bytes = self.tensors[parameter as usize].bytes;
            let gradient = self.sized(bytes, TensorKind::Gradient, false);
            layer.gradient = Some(gradient);
            op.writes.push(gradient);
            op.allocs.push(gradient);
        }
        self.current = self.tensor(TensorKind::Activation, false);
        op.writes.push(self.current);
        op.allocs.push(self.current);
        self.push(Phase::Backward, op);
    }

    fn update(&mut self, layers: &[Layer]) {
        let mut op = Draft {
            name: "update_",
            ..Draft::default()
        };
        for layer in layers {
            op.reads.extend(layer.gradient);
            op.reads.extend(layer.momentum);
            op.writes.extend(layer.momentum);
            op.writes.extend(layer.parameter);
            // Now and then the new parameter is computed without the old one.
            if self.chance(90) {
                op.reads.extend(layer.parameter);
            }
        }
        self.push(Phase::Optimizer, op);
    }

    fn extras(&mut self, phase: Phase, extras: &mut Extras) {
        for _ in 0..extras.due() {
            let op = self.extra();
            self.push(phase, op);
        }
    }

    fn extra(&mut self) -> Draft {
        let mut op = Draft::default();
        if let Some(temporary) = self.temporary.take() {
            op.name = "use_temporary";
            op.reads = vec![temporary, self.current];
            op.writes = vec![self.current];
            return op;
        }
        match self.below(9) {
            0 | 1 => {
                let temporary = self.tensor(TensorKind::Activation, false);
                self.temporary = Some(temporary);
                op.name = "make_temporary";
                op.reads = vec![self.current];
                (op.writes, op.allocs) = (vec![temporary], vec![temporary]);
            }
            2 => {
                op.name = "in_place_";
                (op.reads, op.writes) = (vec![self.current], vec![self.current]);
            }
            3 => {
                op.name = "read_several";
                op.reads = (0..2 + self.below(3))
                    .map(|_| self.any_readable())
                    .collect();
                op.reads.push(self.current);
            }
            4 => {
                let buffer = self.readable[1];
                op.name = "statistics_";
                op.no_time = self.chance(50);
                (op.reads, op.writes) = (vec![buffer], vec![buffer]);
            }
            5 => op.name = "marker",
            6 => {
                op.name = "view";
                op.no_time = true;
                op.views = vec![self.current];
            }
            7 => {
                op.name = "empty";
                op.no_time = true;
                op.allocs = vec![self.tensor(TensorKind::Activation, false)];
            }
            _ => {
                let nothing = self.sized(Bytes(0), TensorKind::Activation, false);
                op.name = "reserve";
                op.reads = vec![self.current];
                (op.writes, op.allocs) = (vec![nothing], vec![nothing]);
            }
        }
        op
    }

    fn push(&mut self, phase: Phase, op: Draft) {
        self.ops.push((phase, op));
    }

    fn tensor(&mut self, kind: TensorKind, persistent: bool) -> u32 {
        let bytes = self.bytes();
        self.sized(bytes, kind, persistent)
    }

    fn sized(&mut self, bytes: Bytes, kind: TensorKind, persistent: bool) -> u32 {
        let id = u32::try_from(self.tensors.len()).expect("a few tensors for each op");
        let name = if persistent {
            format!("{kind:?}.{id}")
        } else {
            String::new()
        };
        self.tensors.push(Tensor {
            name,
            bytes,
            kind,
            persistent,
            fixed: false,
        });
        id
    }

    /// A size: uniform in the number of its bits, and sometimes whole small pages.
    fn bytes(&mut self) -> Bytes {
        if self.chance(10) {
            return Bytes([1, 4, 100, 513][self.below(4)]);
        }
        let Shape {
            bytes_min,
            bytes_max,
            ..
        } = self.shape;
        let bits = self.within(u64::from(bytes_min.ilog2()), u64::from(bytes_max.ilog2()));
        let smallest = bytes_min.max(1 << bits);
        let largest = bytes_max.min((1 << bits) * 2 - 1);
        let bytes = self.within(smallest, largest);
        let whole = bytes / 4096 * 4096;
        Bytes(if whole >= bytes_min && self.chance(25) {
            whole
        } else {
            bytes
        })
    }

    fn any_readable(&mut self) -> u32 {
        let row = self.below(self.readable.len());
        self.readable[row]
    }

    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.random.rand_range(0..100) < percent
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.random.rand_range(0..end as u64)).expect("below a usize")
    }

    pub(super) fn within(&mut self, first: u64, last: u64) -> u64 {
        self.random.rand_range(first..last + 1)
    }
}

/// Spreads `count` extra ops evenly behind `points` main ones.
struct Extras {
    count: usize,
    points: usize,
    point: usize,
}

impl Extras {
    fn due(&mut self) -> usize {
        let before = self.count * self.point / self.points;
        self.point += 1;
        self.count * self.point / self.points - before
    }
}
