//! The kernels that the model knows by name, and what they do to memory.
//!
//! In: a name and the parameters of a launch, each a 64-bit number. Out: which addresses the
//! kernel reads and writes, and the work itself for the thread of a stream.
//!
//! Limits: a kernel is executed by its meaning, not by its code; how a launch is cut into blocks
//! and threads does not matter here. Source: the kernels' own CUDA C, which this repeats.

mod pattern;

use std::fmt;

use crate::check::Mode;
use crate::memory::bytes;
use crate::space::Place;

/// A kernel by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    Fill,
    Check,
    Spin,
}

/// Addresses that a launch uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touch {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) mode: Mode,
}

/// Which content a range of a tensor should have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content {
    pub(crate) tensor: u64,
    pub(crate) version: u64,
    /// Of the first byte, in the tensor.
    pub(crate) offset: u64,
}

/// A kernel with its parameters, ready to run.
pub(crate) enum Launch {
    Fill {
        to: Vec<Place>,
        content: Content,
    },
    Check {
        from: Vec<Place>,
        content: Content,
        count: Place,
    },
    Spin {
        nanoseconds: u64,
    },
}

impl Kernel {
    /// The kernel of that name, if the model knows it.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "vt_fill" => Some(Self::Fill),
            "vt_check" => Some(Self::Check),
            "vt_spin" => Some(Self::Spin),
            _ => None,
        }
    }

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Fill => "vt_fill",
            Self::Check => "vt_check",
            Self::Spin => "vt_spin",
        }
    }

    /// How many 64-bit parameters it takes.
    pub(crate) const fn parameters(self) -> usize {
        match self {
            Self::Fill => 5,
            Self::Check => 6,
            Self::Spin => 1,
        }
    }

    /// What a launch with these parameters touches.
    pub(crate) fn touches(self, parameters: &[u64]) -> Vec<Touch> {
        let touch = |address, bytes, mode| Touch {
            address,
            bytes,
            mode,
        };
        match (self, parameters) {
            (Self::Fill, &[to, bytes, ..]) => vec![touch(to, bytes, Mode::Write)],
            (Self::Check, &[from, bytes, _, _, _, count]) => vec![
                touch(from, bytes, Mode::Read),
                touch(count, 8, Mode::Atomic),
            ],
            _ => Vec::new(),
        }
    }

    /// The launch, with the places of what it touches, in the order of [`touches`](Self::touches).
    pub(crate) fn launch(self, parameters: &[u64], mut places: Vec<Vec<Place>>) -> Launch {
        let content = || Content {
            tensor: parameters[2],
            version: parameters[3],
            offset: parameters[4],
        };
        match self {
            Self::Fill => Launch::Fill {
                to: places.swap_remove(0),
                content: content(),
            },
            Self::Check => Launch::Check {
                count: places[1][0],
                from: places.swap_remove(0),
                content: content(),
            },
            Self::Spin => Launch::Spin {
                nanoseconds: parameters[0],
            },
        }
    }
}

impl Launch {
    /// Runs the kernel on the memory of this process; a spin takes no time here.
    pub(crate) fn execute(&self) {
        match self {
            Self::Fill { to, content } => {
                let mut content = *content;
                for place in to {
                    pattern::fill(*place, content);
                    content.offset += place.bytes as u64;
                }
            }
            Self::Check {
                from,
                content,
                count,
            } => {
                let mut content = *content;
                let mut wrong = 0;
                for place in from {
                    wrong += pattern::check(*place, content);
                    content.offset += place.bytes as u64;
                }
                // SAFETY: the driver resolved the 8 bytes, checked that they are aligned and may
                // be written, and keeps them mapped until the stream is done.
                unsafe { bytes::add(count.at, wrong) };
            }
            Self::Spin { .. } => (),
        }
    }
}

impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fill { .. } => Kernel::Fill.name(),
            Self::Check { .. } => Kernel::Check.name(),
            Self::Spin { .. } => Kernel::Spin.name(),
        })
    }
}
