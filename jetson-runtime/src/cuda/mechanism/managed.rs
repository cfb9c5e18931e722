//! `managed`: the driver places pages, the program's copies are prefetches.
//!
//! Each tensor has an address for life, and its bytes are wherever the driver has them, so nothing
//! can be lost by a copy. An out is a prefetch to the host, an in one to the device, in the order
//! of the same waits. What is dead is discarded where the driver can do that.
//!
//! Limits: the budget is not hard. A piece that a program drops without a copy, because its slot
//! holds the same bytes, stays where it is until the driver wants the room; without discard so do
//! dead transients. The driver moves whole pages of its own.

use std::ptr::NonNull;

use lgm::plan::Plan;
use vtensor::{Bytes, Mode, TensorId, limits};

use super::overlay::Overlay;
use super::{Backing, Taken};
use crate::content::{Content, Segment};
use crate::copier::Transfer;
use crate::cuda::class::Class;
use crate::cuda::device::Device;
use crate::cuda::error::CudaError;
use crate::cuda::memory::{Kind, Memory, pointer};
use crate::cuda::prefetch::prefetch;
use crate::cuda::stream::Stream;
use crate::cuda::symbols::Address;
use crate::error::RuntimeError;
use crate::failure::Direction;
use crate::places::{AtRest, Places, Site, Spot};
use crate::residency::{Lowered, Progress};
use crate::scale::{Scale, to_usize};

/// Ranges that a step leaves dead, as the driver takes them.
#[derive(Debug, Default)]
struct Dead {
    addresses: Vec<Address>,
    bytes: Vec<usize>,
}

/// Managed memory with a tensor at each address.
#[derive(Debug)]
pub(super) struct Managed {
    memory: Memory,
    starts: Vec<u64>,
    dead_after: Vec<Dead>,
    device: Device,
}

impl Managed {
    /// Takes the memory.
    pub(super) fn new(device: &Device, plan: &Plan, scale: Scale) -> Result<Self, CudaError> {
        let class = Class::of(device.facts());
        if !class.prefetches() || !device.facts().managed {
            return Err(CudaError::Refused {
                choice: "managed",
                reason: format!("nothing can be prefetched on a device of class {class}"),
            });
        }
        let page = scale.page().get();
        let mut align = vec![limits::TENSOR_ALIGN; plan.skeleton.tensors.len()];
        let outs = plan.program.outs.iter().map(|out| out.tensor);
        for tensor in outs.chain(plan.program.ins.iter().map(|r#in| r#in.tensor)) {
            align[tensor.index()] = page;
        }
        let tensors = plan.skeleton.tensors.iter();
        let sizes: Vec<u64> = tensors.map(|tensor| scale.bytes(tensor.bytes.0)).collect();
        let overlay = Overlay::new(&plan.skeleton, &sizes, &align);
        let memory = Memory::new(device, Kind::Managed, to_usize(overlay.bytes))?;
        let dead = |tensors: &Vec<usize>| {
            let whole = |tensor: &&usize| align[**tensor] == page && sizes[**tensor] >= page;
            let ranges = tensors.iter().filter(whole).map(|&tensor| {
                let bytes = to_usize(sizes[tensor] / page * page);
                (memory.at(overlay.starts[tensor], bytes), bytes)
            });
            let (addresses, bytes) = ranges.unzip();
            Dead { addresses, bytes }
        };
        let discards = device.driver().symbols().discard.is_there();
        let dead_after = match discards {
            true => overlay.dead_after.iter().map(dead).collect(),
            false => Vec::new(),
        };
        Ok(Self {
            memory,
            starts: overlay.starts,
            dead_after,
            device: device.clone(),
        })
    }

    fn tensor(&self, tensor: TensorId, offset: u64, bytes: usize) -> Address {
        self.memory.at(self.starts[tensor.index()] + offset, bytes)
    }
}

impl Places for Managed {
    fn address(&self, site: Site) -> NonNull<u8> {
        pointer(self.tensor(site.tensor, site.offset, site.bytes))
    }
}

impl AtRest for Managed {
    unsafe fn load(&self, _: TensorId, from: Spot, to: &mut [u8]) -> Result<(), RuntimeError> {
        let Spot::Device(from) = from else {
            unreachable!("managed bytes have an address: see `home` and `intact`");
        };
        // SAFETY: the caller vouches for the source.
        unsafe { self.device.load(from.addr().get() as u64, to) }?;
        Ok(())
    }

    unsafe fn store(&self, _: TensorId, to: Spot, from: &[u8]) -> Result<(), RuntimeError> {
        let Spot::Device(to) = to else {
            unreachable!("managed bytes have an address: see `home` and `intact`");
        };
        // SAFETY: the caller vouches for the target.
        unsafe { self.device.store(to.addr().get() as u64, from) }?;
        Ok(())
    }
}

impl Backing for Managed {
    unsafe fn copy(&self, transfer: &Transfer, stream: &Stream) -> Result<(), CudaError> {
        let address = transfer.device.addr().get() as u64;
        // SAFETY: the range is managed, and alive by the caller's word.
        unsafe {
            prefetch(
                &self.device,
                address,
                transfer.bytes,
                transfer.direction,
                stream,
            )
        }
    }

    unsafe fn step_ended(&self, step: usize, compute: &Stream) -> Result<(), CudaError> {
        let Some(dead) = self.dead_after.get(step) else {
            return Ok(());
        };
        if dead.addresses.is_empty() {
            return Ok(());
        }
        let (addresses, bytes) = (dead.addresses.as_ptr(), dead.bytes.as_ptr());
        let count = dead.addresses.len();
        let symbols = self.device.driver().symbols();
        // SAFETY: the ranges are managed and alive, and no later step reads what they hold.
        unsafe { symbols.discard(addresses, bytes, count, 0, compute.raw()) }
    }

    fn home(&self, plan: &Plan, scale: Scale) -> Content {
        let planned = Content::home(plan, scale, self);
        let segments = planned.segments().iter().map(|segment| {
            let bytes = to_usize(segment.end - segment.start);
            let address = self.tensor(segment.tensor, segment.start, bytes);
            Segment {
                device: segment.kept().then(|| pointer(address)),
                slot: None,
                ..*segment
            }
        });
        Content::new(plan, scale, segments.collect())
    }

    fn settle(&self, plan: &Plan, scale: Scale, stream: &Stream) -> Result<(), CudaError> {
        for segment in Content::home(plan, scale, self).segments() {
            let to = match (segment.device, segment.slot) {
                (Some(_), _) => Direction::In,
                (None, Some(_)) => Direction::Out,
                (None, None) => continue,
            };
            let bytes = to_usize(segment.end - segment.start);
            let address = self.tensor(segment.tensor, segment.start, bytes);
            // SAFETY: the range is this memory's.
            unsafe { prefetch(&self.device, address, bytes, to, stream) }?;
        }
        stream.synchronize()
    }

    fn intact(&self, lowered: Lowered<'_>, progress: Progress) -> Vec<Segment> {
        let Lowered {
            plan, table, scale, ..
        } = lowered;
        // What the open step was writing is neither old nor new.
        let open = progress.open.then(|| &table.steps[progress.steps]);
        let torn = |tensor: TensorId| {
            let rows = open.map(|row| table.accesses_of(row)).unwrap_or_default();
            let mut rows = rows.iter().filter(|row| row.tensor == tensor);
            rows.any(|row| row.mode != Mode::Read)
        };
        let persistent = plan.skeleton.tensors.iter().enumerate();
        let persistent = persistent.filter(|(_, tensor)| tensor.persistent);
        let whole = persistent.map(|(index, tensor)| {
            let id = TensorId::from_index(index);
            let bytes = scale.bytes(tensor.bytes.0);
            let lost = torn(id);
            Segment {
                tensor: id,
                start: 0,
                end: bytes,
                device: (!lost).then(|| pointer(self.tensor(id, 0, to_usize(bytes)))),
                slot: None,
                lost,
            }
        });
        whole.collect()
    }

    fn taken(&self) -> Taken {
        let bytes = Bytes(self.memory.bytes() as u64);
        Taken {
            device: bytes,
            addresses: bytes,
            ..Taken::default()
        }
    }
}
