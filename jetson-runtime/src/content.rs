//! Where the bytes of the persistent tensors are while nothing moves, and access to them there.
//!
//! In: the HOME table of a program, or what a failure left. Out: reads and writes of ranges of
//! tensors, from the device or from the spill tier, wherever they are, without moving anything.
//!
//! Guarantees: a write goes through to every live copy; a call that returns an error about its
//! range has touched nothing. Not here: making sure that nothing moves (see `frozen`).

use std::ptr::NonNull;

use lgm::plan::Plan;
use vtensor::{Bytes, TensorId};

use crate::error::RuntimeError;
use crate::places::{AtRest, Places, Site, Spot};
use crate::scale::{Scale, to_usize};

/// Bytes `start .. end` of a tensor, and where they are. In neither place their content is not
/// kept; `lost` says whether that was meant to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) tensor: TensorId,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) device: Option<NonNull<u8>>,
    pub(crate) slot: Option<u64>,
    pub(crate) lost: bool,
}

// SAFETY: a segment is an address range; `Content` reads and writes it under its owner's borrow.
unsafe impl Send for Segment {}
// SAFETY: a shared segment is only read.
unsafe impl Sync for Segment {}

impl Segment {
    pub(crate) const fn kept(&self) -> bool {
        self.device.is_some() || self.slot.is_some()
    }
}

/// Where the persistent tensors are.
#[derive(Debug)]
pub(crate) struct Content {
    /// By tensor, then by offset; together they hold every byte of every persistent tensor once.
    segments: Vec<Segment>,
    /// The executed size of each tensor; `None` for those that are not kept here.
    sizes: Vec<Option<u64>>,
}

impl Content {
    /// The places at the boundary of an iteration.
    pub(crate) fn home(plan: &Plan, scale: Scale, places: &dyn Places) -> Self {
        let mut segments = Vec::with_capacity(plan.program.homes.len());
        for home in &plan.program.homes {
            let pieces = plan.program.pieces(plan.skeleton.tensor(home.tensor).bytes);
            let bytes = pieces
                .bytes(home.pieces)
                .expect("HOME names pieces that exist");
            let bytes = scale.bytes(bytes.0);
            let start = scale.offset(pieces.offset(home.pieces).0);
            let device = home.place.map(|place| {
                places.address(Site {
                    tensor: home.tensor,
                    offset: start,
                    place: scale.place(place),
                    bytes: to_usize(bytes),
                })
            });
            let slot = home.slot.map(|slot| scale.offset(slot));
            segments.push(Segment {
                tensor: home.tensor,
                start,
                end: start + bytes,
                device,
                slot,
                lost: false,
            });
        }
        Self::new(plan, scale, segments)
    }

    /// Content of `segments`, in any order, which must hold every persistent byte once, and every
    /// byte or none of each other tensor.
    pub(crate) fn new(plan: &Plan, scale: Scale, mut segments: Vec<Segment>) -> Self {
        segments.sort_unstable_by_key(|segment| (segment.tensor, segment.start));
        let tensors = plan.skeleton.tensors.iter().enumerate();
        let held = |id: TensorId| segments.binary_search_by_key(&id, |s| s.tensor).is_ok();
        let sizes: Vec<Option<u64>> = tensors
            .map(|(row, tensor)| {
                let kept = tensor.persistent || held(TensorId::from_index(row));
                kept.then(|| scale.bytes(tensor.bytes.0))
            })
            .collect();
        let content = Self { segments, sizes };
        for (index, size) in content.sizes.iter().enumerate() {
            let tensor = TensorId::from_index(index);
            let end = content.of(tensor).iter().fold(0, |end, segment| {
                assert_eq!(
                    segment.start, end,
                    "every byte of tensor {tensor} is somewhere"
                );
                segment.end
            });
            assert_eq!(
                end,
                size.unwrap_or(0),
                "every byte of tensor {tensor} is somewhere"
            );
        }
        content
    }

    /// All segments, by tensor and offset.
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The size of a persistent tensor, as executed.
    pub(crate) fn size(&self, tensor: TensorId) -> Option<u64> {
        self.sizes.get(tensor.index()).copied().flatten()
    }

    /// The segments of a tensor, by offset; none if it is not kept here.
    pub(crate) fn of(&self, tensor: TensorId) -> &[Segment] {
        let first = self
            .segments
            .partition_point(|segment| segment.tensor < tensor);
        let end = self
            .segments
            .partition_point(|segment| segment.tensor <= tensor);
        &self.segments[first..end]
    }

    /// The segments under a range, checked to be kept.
    fn kept(
        &self,
        tensor: TensorId,
        offset: u64,
        bytes: usize,
    ) -> Result<impl Iterator<Item = &Segment>, RuntimeError> {
        let size = self
            .size(tensor)
            .ok_or(RuntimeError::NotPersistent(tensor))?;
        let end = offset.saturating_add(bytes as u64);
        if end > size {
            return Err(RuntimeError::OutOfRange {
                tensor,
                offset,
                end,
                bytes: Bytes(size),
            });
        }
        let under = move |segment: &&Segment| segment.start < end && offset < segment.end;
        let segments = self.of(tensor).iter().filter(under);
        if let Some(gone) = segments.clone().find(|segment| !segment.kept()) {
            let offset = gone.start.max(offset);
            return Err(match gone.lost {
                true => RuntimeError::Lost { tensor, offset },
                false => RuntimeError::Dead { tensor, offset },
            });
        }
        Ok(segments)
    }

    /// Copies a range of a tensor to `buffer`.
    ///
    /// # Safety
    /// The windows behind the segments are mapped, and no engine and no op writes them or their
    /// slots meanwhile.
    pub(crate) unsafe fn read(
        &self,
        memory: &dyn AtRest,
        tensor: TensorId,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), RuntimeError> {
        for segment in self.kept(tensor, offset, buffer.len())? {
            let cut = Cut::new(segment, offset, buffer.len());
            let part = &mut buffer[cut.buffer..cut.buffer + cut.bytes];
            if let Some(spot) = cut.spots(segment).next() {
                // SAFETY: the caller vouches for the segment, in which the cut lies.
                unsafe { memory.load(tensor, spot, part) }
                    .map_err(|error| behind(error, cut.start(segment)))?;
            }
        }
        Ok(())
    }

    /// Copies `buffer` to a range of a tensor, in every place where it is.
    ///
    /// # Safety
    /// The windows behind the segments are mapped, and no engine and no op touches them or their
    /// slots meanwhile.
    pub(crate) unsafe fn write(
        &self,
        memory: &dyn AtRest,
        tensor: TensorId,
        offset: u64,
        buffer: &[u8],
    ) -> Result<(), RuntimeError> {
        for segment in self.kept(tensor, offset, buffer.len())? {
            let cut = Cut::new(segment, offset, buffer.len());
            let part = &buffer[cut.buffer..cut.buffer + cut.bytes];
            for spot in cut.spots(segment) {
                // SAFETY: the caller vouches for the segment, in which the cut lies.
                unsafe { memory.store(tensor, spot, part) }
                    .map_err(|error| behind(error, cut.start(segment)))?;
            }
        }
        Ok(())
    }
}

/// The part of a segment that a range of its tensor covers.
struct Cut {
    /// Bytes of the segment before it.
    skip: usize,
    /// Bytes of the range's buffer before it.
    buffer: usize,
    bytes: usize,
}

impl Cut {
    fn new(segment: &Segment, offset: u64, bytes: usize) -> Self {
        let start = segment.start.max(offset);
        let end = segment.end.min(offset + bytes as u64);
        Self {
            skip: to_usize(start - segment.start),
            buffer: to_usize(start - offset),
            bytes: to_usize(end - start),
        }
    }

    /// Bytes of the tensor before it.
    const fn start(&self, segment: &Segment) -> u64 {
        segment.start + self.skip as u64
    }

    /// Where its first byte is: on the device, in the spill tier, or both.
    fn spots(&self, segment: &Segment) -> impl Iterator<Item = Spot> {
        let skip = self.skip;
        let device = segment.device.map(|device| {
            // SAFETY: the cut lies inside the segment, whose address does not wrap around.
            Spot::Device(unsafe { device.add(skip) })
        });
        let slot = segment.slot.map(|slot| Spot::Slot(slot + skip as u64));
        device.into_iter().chain(slot)
    }
}

/// An error of the tier about a part of a tensor, `before` bytes from its start.
fn behind(error: RuntimeError, before: u64) -> RuntimeError {
    match error {
        RuntimeError::Tier {
            tensor,
            offset,
            errno,
        } => RuntimeError::Tier {
            tensor,
            offset: before + offset,
            errno,
        },
        other => other,
    }
}
