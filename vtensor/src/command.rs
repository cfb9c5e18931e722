//! Commands: the copies of a program, and the counts that order them.
//!
//! A program has two queues, `outs` and `ins`, each numbered in release order. Counts are relative
//! to the base of an iteration (`n · outs`, `n · ins`) and signed: a negative one speaks of the
//! iteration before.

use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;
use crate::id::{OpIndex, TensorId};
use crate::piece::PieceRun;
use crate::window::Place;

/// What a step of a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StepKind {
    /// An op of the application.
    App(OpIndex),
    /// An op of the application that ran before in this iteration, run again: what it wrote was
    /// given up, and a later step reads it.
    Replay(OpIndex),
}

/// The four integers of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepCounts {
    /// The step starts when this many outs are complete.
    pub out_needed: i64,
    /// The step starts when this many ins are complete.
    pub in_needed: i64,
    /// Outs released once the step is complete, those of earlier steps included.
    pub out_released: i64,
    /// Ins released once the step is complete, those of earlier steps included.
    pub in_released: i64,
}

/// A copy from the device to the spill tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Out {
    /// Whose pieces.
    pub tensor: TensorId,
    /// Which pieces.
    pub pieces: PieceRun,
    /// Their bytes: the run's own, a partial last piece counted as it is.
    pub bytes: Bytes,
    /// Where the first byte is read.
    pub source: Place,
    /// Where it is written: a byte offset in the spill tier.
    pub slot: u64,
}

/// A copy from the spill tier to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct In {
    /// Whose pieces.
    pub tensor: TensorId,
    /// Which pieces.
    pub pieces: PieceRun,
    /// Their bytes: the run's own, a partial last piece counted as it is.
    pub bytes: Bytes,
    /// Where the first byte is written.
    pub destination: Place,
    /// Where it is read: a byte offset in the spill tier.
    pub slot: u64,
    /// The copy starts when this many outs are complete.
    pub after_out: i64,
}
