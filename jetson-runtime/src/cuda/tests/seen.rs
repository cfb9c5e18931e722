//! What the host must wait for itself, on paper.
//!
//! The host waits for the last iteration but one, stream by stream, before it uses events again
//! (E5), and for every stream before it reads bytes on the device (B2).

use lgm::plan::Plan;
use lgm::program::Home;
use vtensor::TensorId;

use super::order::{ITERATIONS, Order, Touch, arena};

/// Iterations whose end the host has seen when the last one is under way.
const SEEN: u64 = ITERATIONS - 2;

impl Order {
    /// Whether the wait for a stream before an iteration tells the host what the waits for the
    /// others do not.
    pub(super) fn end_matters(&self, iteration: u64, stream: usize) -> bool {
        let seen = iteration - 3;
        self.matters(self.ends[usize::try_from(seen).unwrap()], seen, stream)
    }

    /// Whether the last wait for a stream tells the host what those for the others do not.
    pub(super) fn rest_matters(&self, stream: usize) -> bool {
        self.matters(self.last, SEEN, stream)
    }

    fn matters(&self, last: [Option<usize>; 3], seen: u64, stream: usize) -> bool {
        let known = self.known_without(last, seen, stream);
        last[stream].is_some_and(|end| !self.earlier(|_, _| false).known(end, &known))
    }

    /// The last commands of the other streams, and what the host saw in earlier iterations.
    fn known_without(&self, last: [Option<usize>; 3], seen: u64, stream: usize) -> Vec<usize> {
        let seen = usize::try_from(seen).unwrap();
        let ends = self.ends[..seen].iter().flatten().flatten().copied();
        let others = last.into_iter().enumerate();
        let others = others.filter_map(|(other, last)| last.filter(|_| other != stream));
        ends.chain(others).collect()
    }

    /// Whether a stream may still write, at the end, what the host reads of a tensor on the
    /// device, if it waits for the others only.
    pub(super) fn is_written(&self, plan: &Plan, tensor: TensorId, stream: usize) -> bool {
        let known = self.known_without(self.last, SEEN, stream);
        let earlier = self.earlier(|_, _| false);
        let pieces = plan.program.pieces(plan.skeleton.tensor(tensor).bytes);
        let homes = homes(plan, tensor);
        let read: Vec<Touch> = homes
            .flat_map(|home| {
                let bytes = pieces.bytes(home.pieces).unwrap();
                arena(plan, home.place.unwrap(), bytes, false)
            })
            .collect();
        let mut commands = self.touches.iter().enumerate();
        commands.any(|(command, touches)| {
            let writes = |touch: &Touch| read.iter().any(|part| part.conflicts(touch));
            touches.iter().any(writes) && !earlier.known(command, &known)
        })
    }
}

fn homes(plan: &Plan, tensor: TensorId) -> impl Iterator<Item = &Home> {
    let homes = plan.program.homes.iter();
    homes.filter(move |home| home.tensor == tensor)
}

/// Persistent tensors that are on the device between iterations.
pub(super) fn at_home_on_device(plan: &Plan) -> Vec<TensorId> {
    let tensors = (0..plan.skeleton.tensors.len()).map(TensorId::from_index);
    let on_device = |tensor: &TensorId| {
        let persistent = plan.skeleton.tensor(*tensor).persistent;
        persistent && homes(plan, *tensor).all(|home| home.place.is_some())
    };
    tensors.filter(on_device).collect()
}
