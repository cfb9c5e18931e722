//! One open op: its tensors, at their addresses; and what computes it again, where it may.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;

use vtensor::Mode;

/// Where an op finds one of its tensors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) pointer: NonNull<u8>,
    pub(super) bytes: usize,
    pub(super) mode: Mode,
}

// SAFETY: a row is an address range; `View`s use it under the runtime's borrow.
unsafe impl Send for Row {}
// SAFETY: a shared row is only read.
unsafe impl Sync for Row {}

/// The tensors of an open op, in the order of its accesses. They may be used until the op ends;
/// after it the bytes may move.
#[derive(Debug)]
pub struct Op<'a> {
    rows: &'a [Row],
    /// Whether the host can follow the addresses.
    on_host: bool,
}

impl<'a> Op<'a> {
    pub(super) const fn new(rows: &'a [Row], on_host: bool) -> Self {
        Self { rows, on_host }
    }

    /// How many accesses the op has.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The first byte of the tensor of access `access`, at a multiple of 512 bytes. Valid until the
    /// op ends: for reads, and in modes that write, for writes. Accesses of one tensor have one
    /// pointer; different tensors do not overlap. On a GPU it is an address of the device, for the
    /// kernels that are enqueued until the op ends.
    ///
    /// # Panics
    /// If the op has no such access.
    #[must_use]
    pub const fn pointer(&self, access: usize) -> NonNull<u8> {
        self.rows[access].pointer
    }

    /// The size of the tensor of access `access`.
    ///
    /// # Panics
    /// If the op has no such access.
    #[must_use]
    pub const fn bytes(&self, access: usize) -> usize {
        self.rows[access].bytes
    }

    /// How the op uses the tensor of access `access`: as all accesses of that tensor together.
    ///
    /// # Panics
    /// If the op has no such access.
    #[must_use]
    pub const fn mode(&self, access: usize) -> Mode {
        self.rows[access].mode
    }

    /// All tensors at once.
    ///
    /// # Panics
    /// If the op does not have `N` accesses, or two of them are of one tensor and one writes; or if
    /// they are on a GPU.
    #[must_use]
    pub fn views<const N: usize>(&mut self) -> [View<'_>; N] {
        assert!(self.on_host, "tensors of a GPU are for its kernels");
        assert_eq!(self.rows.len(), N, "the op has so many accesses");
        for (at, row) in self.rows.iter().enumerate() {
            let shared = |other: &Row| {
                other.pointer == row.pointer && (row.mode.writes() || other.mode.writes())
            };
            assert!(
                !self.rows[..at].iter().any(shared),
                "a tensor that is written has one view: name it once"
            );
        }
        std::array::from_fn(|access| View {
            row: self.rows[access],
            borrow: PhantomData,
        })
    }
}

/// What the application says of an op, for its replayer: two words, such as a function and its
/// data.
pub type Token = [usize; 2];

/// Runs an op again: computes what the op computed, on the tensors that it is given now. The error
/// is a sentence for people.
pub(super) type Replayer = Box<dyn FnMut(Token, &mut Op<'_>) -> Result<(), &'static str> + Send>;

/// One tensor of an open op.
#[derive(Debug)]
pub struct View<'a> {
    row: Row,
    borrow: PhantomData<&'a mut [u8]>,
}

impl<'a> View<'a> {
    /// The tensor's bytes. In mode `Write` they are what the memory held before, without meaning.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the row lies in mapped memory for as long as the op is open, which the runtime's
        // borrow holds, and is initialised (the arena begins as zeroes). Nobody writes it
        // meanwhile: not an engine, by the verified plan; not another view, for `views` gives a
        // tensor that is written out once.
        unsafe { slice::from_raw_parts(self.row.pointer.as_ptr(), self.row.bytes) }
    }

    /// The tensor's bytes, to write.
    ///
    /// # Panics
    /// If the access only reads: copies in the spill tier would become stale unnoticed.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let Row {
            pointer,
            bytes,
            mode,
        } = self.row;
        assert!(mode.writes(), "the op said that it only reads this tensor");
        // SAFETY: as for `bytes`; and nobody reads it either: an out of a written tensor is not
        // released before the op ends, by the verified plan.
        unsafe { slice::from_raw_parts_mut(pointer.as_ptr(), bytes) }
    }

    /// As [`Self::bytes_mut`], for as long as the op is open.
    ///
    /// # Panics
    /// As [`Self::bytes_mut`].
    #[must_use]
    pub fn into_bytes_mut(self) -> &'a mut [u8] {
        assert!(
            self.row.mode.writes(),
            "the op said that it only reads this tensor"
        );
        // SAFETY: as for `bytes_mut`; the view is consumed, so this is the only reference.
        unsafe { slice::from_raw_parts_mut(self.row.pointer.as_ptr(), self.row.bytes) }
    }

    /// As [`Self::bytes`], for as long as the op is open.
    #[must_use]
    pub fn into_bytes(self) -> &'a [u8] {
        // SAFETY: as for `bytes`; the view is consumed, and `views` borrowed the op.
        unsafe { slice::from_raw_parts(self.row.pointer.as_ptr(), self.row.bytes) }
    }
}
