//! Hand-made iterations for the tests of single policies.

use vtensor::{Bytes, Mode, PageBytes, TensorId, TensorKind};

use super::Task;
use crate::graph::{Granularity, Graph};
use crate::profile::Link;
use crate::queues::Pages;
use crate::skeleton::{Access, Op, Skeleton, Tensor};

/// A tensor and how an op uses it.
pub(super) type Used = (u32, Mode);

pub(super) const fn r(tensor: u32) -> Used {
    (tensor, Mode::Read)
}

pub(super) const fn w(tensor: u32) -> Used {
    (tensor, Mode::Write)
}

/// Copies of one page take [`COPY_NS`] in each direction.
pub(super) struct Example {
    skeleton: Skeleton,
}

pub(super) const COPY_NS: u64 = 1000;

impl Example {
    /// Tensors by their pages, all transient; ops by name, nanoseconds and what they use.
    pub(super) fn new(pages: &[u64], ops: &[(&str, u64, &[Used])]) -> Self {
        let tensor = |&pages: &u64| Tensor {
            name: String::new(),
            bytes: Bytes(pages * PageBytes::MIN.get()),
            kind: TensorKind::Activation,
            persistent: false,
            fixed: false,
        };
        let mut skeleton = Skeleton {
            tensors: pages.iter().map(tensor).collect(),
            ..Skeleton::default()
        };
        for &(name, duration_ns, used) in ops {
            skeleton.ops.push(Op {
                name: name.into(),
                duration_ns,
                first_access: u32::try_from(skeleton.accesses.len()).expect("few"),
                access_count: u32::try_from(used.len()).expect("few"),
                replayable: false,
            });
            let accesses = used.iter().map(|&(tensor, mode)| Access {
                tensor: TensorId(tensor),
                mode,
            });
            skeleton.accesses.extend(accesses);
        }
        Self { skeleton }
    }

    /// The same with a tensor that outlives the iteration.
    pub(super) fn persistent(mut self, tensor: usize) -> Self {
        self.skeleton.tensors[tensor].persistent = true;
        self
    }

    /// Hands out the task of planning it with so many pages.
    pub(super) fn with(&self, capacity: i64, check: impl FnOnce(Task<'_>)) {
        self.skeleton.check().expect("a sound example");
        let granularity = Granularity {
            page: PageBytes::MIN,
            pool_below: 1,
            park_unused: true,
        };
        let graph = Graph::new(&self.skeleton, granularity);
        let bps = PageBytes::MIN.get() as f64 * 1e9 / COPY_NS as f64;
        let link = Link {
            out_bps: bps,
            in_bps: bps,
            copy_latency_ns: 0,
            duplex: true,
        };
        check(Task {
            graph: &graph,
            pages: &Pages::of(&graph),
            capacity,
            link: &link,
        });
    }
}

/// The tensors that leave by a choice, in order, each as often as it does.
pub(super) fn leaving(task: Task<'_>, choice: &super::paged::Choice<'_>) -> Vec<u32> {
    let gaps = task.graph.gaps().iter().enumerate();
    gaps.filter(|(row, _)| choice.taken(*row))
        .map(|(_, gap)| gap.tensor.0)
        .collect()
}
