//! Share: tensors that begin where another one ends, inside of a page.
//!
//! A tensor that has pages of its own wastes half of its last one. In: a skeleton and a page size.
//! Out: *units*, which are planned as if they were tensors: the pages that only one tensor lies on,
//! and each page that several share. What is planned is a skeleton of units; `emit` makes copies
//! and places of tensors of it again.
//!
//! Guarantees: the parts of a tensor are its bytes, each once, on pages in order; parts on a page
//! do not overlap. A step reads, writes or overwrites a unit as its parts together demand.
//!
//! A shared page is held as long as any of its tensors lives and moves only while all are idle. So
//! tensors are put behind each other (`chains`) whose uses are nearly the same.

mod chains;

use vtensor::{Mode, PageBytes, PieceRun, TensorId};

use crate::count::to_u32;
use crate::skeleton::{Access, Op, Skeleton, Tensor};

/// The smallest piece: what copies are counted in.
const PIECE_MIN: u64 = PageBytes::MIN.get();
/// Tensors in shared pages begin at a multiple of a page over this.
const PIECES_PER_PAGE: u64 = 256;
/// Some bytes of a tensor in a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Whose.
    pub tensor: TensorId,
    /// The offset in the tensor of the first of them.
    pub start: u64,
    /// How many.
    pub bytes: u64,
    /// Where they begin in the first page of the unit.
    pub offset: u64,
}

/// The units of a skeleton. Their numbers are those of the tensors of [`Units::skeleton`].
#[derive(Clone, Debug)]
pub struct Units {
    /// The iteration, in units.
    pub skeleton: Skeleton,
    /// The size of a piece in copies.
    pub piece: PageBytes,
    parts: Vec<Vec<Part>>,
    of_tensor: Vec<Vec<TensorId>>,
    /// For each access of a tensor, those of its units.
    rows_of: Vec<Vec<u32>>,
    /// For each access of a unit, one of a tensor in it.
    row_in: Vec<u32>,
}

/// What sharing needs to know beside the skeleton.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The page size.
    pub page: PageBytes,
    /// Tensors of fewer bytes are not planned on pages.
    pub pool_below: u64,
    /// Bytes that fit; memory is short where more are live.
    pub budget: u64,
    /// The loss that is accepted where a tensor begins behind another, in thousandths of the time
    /// in which memory is short.
    pub loss_max: u64,
}

impl Units {
    /// Each tensor on pages of its own.
    #[must_use]
    pub fn alone(skeleton: &Skeleton, page: PageBytes) -> Self {
        let ids = (0..skeleton.tensors.len()).map(TensorId::from_index);
        let parts = ids.clone().map(|tensor| {
            vec![Part {
                tensor,
                start: 0,
                bytes: skeleton.tensor(tensor).bytes.0,
                offset: 0,
            }]
        });
        let rows = 0..to_u32(skeleton.accesses.len());
        Self {
            skeleton: skeleton.clone(),
            piece: page,
            parts: parts.collect(),
            of_tensor: ids.map(|tensor| vec![tensor]).collect(),
            rows_of: rows.clone().map(|row| vec![row]).collect(),
            row_in: rows.collect(),
        }
    }

    /// Tensors with similar uses share pages.
    #[must_use]
    pub fn shared(skeleton: &Skeleton, terms: Terms) -> Self {
        let piece = (terms.page.get() / PIECES_PER_PAGE).max(PIECE_MIN);
        let piece = PageBytes::new(piece).expect("a page over a power of two, not too small");
        let uses = uses_of(skeleton);
        let chains = chains::chains(skeleton, terms, piece, &uses);
        let mut units = Self {
            skeleton: Skeleton::default(),
            piece,
            parts: Vec::new(),
            of_tensor: vec![Vec::new(); skeleton.tensors.len()],
            rows_of: Vec::new(),
            row_in: Vec::new(),
        };
        for chain in &chains {
            units.add_chain(skeleton, terms, chain);
        }
        units.add_ops(skeleton, &uses);
        units
    }

    /// The parts of a unit, by their offsets.
    #[must_use]
    pub fn parts(&self, unit: TensorId) -> &[Part] {
        &self.parts[unit.index()]
    }

    /// The units of a tensor, in the order of its bytes.
    #[must_use]
    pub fn of(&self, tensor: TensorId) -> &[TensorId] {
        &self.of_tensor[tensor.index()]
    }

    /// The accesses of units that an access of a tensor is.
    #[must_use]
    pub fn rows_of(&self, access: usize) -> &[u32] {
        &self.rows_of[access]
    }

    /// An access of a tensor that an access of a unit is.
    #[must_use]
    pub fn row_in(&self, access: u32) -> usize {
        self.row_in[access as usize] as usize
    }

    /// The pieces that some bytes of a tensor are; they begin and end with pieces.
    #[must_use]
    pub fn pieces(&self, start: u64, bytes: u64) -> PieceRun {
        let piece = self.piece.get();
        debug_assert!(start.is_multiple_of(piece));
        let count = |bytes: u64| u32::try_from(bytes).expect("limits: pieces are counted in u32");
        PieceRun {
            first: count(start / piece),
            count: count(bytes.div_ceil(piece)),
        }
    }

    /// Cuts a chain into units.
    fn add_chain(&mut self, skeleton: &Skeleton, terms: Terms, chain: &[(TensorId, u64)]) {
        let page = terms.page.get();
        let mut open: Option<(u64, Vec<Part>)> = None;
        for (row, &(tensor, at)) in chain.iter().enumerate() {
            let bytes = skeleton.tensor(tensor).bytes.0;
            let (mut start, last) = (0, (at + bytes - 1) / page);
            // The page that it begins in may be shared with those before.
            if let Some((first, mut parts)) = open.take_if(|(first, _)| *first == at / page) {
                let taken = (page - at % page).min(bytes);
                parts.push(Part {
                    tensor,
                    start,
                    bytes: taken,
                    offset: at % page,
                });
                start += taken;
                if start == bytes {
                    open = Some((first, parts));
                    continue;
                }
                self.add_unit(skeleton, terms, parts);
            } else if let Some((_, parts)) = open.take() {
                self.add_unit(skeleton, terms, parts);
            }
            debug_assert!((at + start).is_multiple_of(page));
            // Pages of its own, up to the one in which others may begin.
            let own = last * page - (at + start);
            let rest = bytes - start - own;
            let part = |start, bytes| Part {
                tensor,
                start,
                bytes,
                offset: 0,
            };
            let shares = chain
                .get(row + 1)
                .is_some_and(|&(_, next)| next / page == last);
            if shares {
                if own > 0 {
                    let parts = vec![part(start, own)];
                    self.add_unit(skeleton, terms, parts);
                }
                open = Some((last, vec![part(start + own, rest)]));
            } else {
                let parts = vec![part(start, own + rest)];
                self.add_unit(skeleton, terms, parts);
            }
        }
        if let Some((_, parts)) = open {
            self.add_unit(skeleton, terms, parts);
        }
    }

    fn add_unit(&mut self, skeleton: &Skeleton, terms: Terms, parts: Vec<Part>) {
        let unit = TensorId::from_index(self.parts.len());
        let first = skeleton.tensor(parts[0].tensor);
        let mut bytes: u64 = parts.iter().map(|part| part.bytes).sum();
        if first.bytes.0 >= terms.pool_below {
            // Whatever has pages has at least as many bytes.
            bytes = bytes.max(terms.pool_below);
        }
        for part in &parts {
            self.of_tensor[part.tensor.index()].push(unit);
        }
        self.skeleton.tensors.push(Tensor {
            name: String::new(),
            bytes: vtensor::Bytes(bytes),
            kind: first.kind,
            persistent: first.persistent,
            fixed: first.fixed,
        });
        self.parts.push(parts);
    }

    /// The ops, with accesses of units.
    fn add_ops(&mut self, skeleton: &Skeleton, uses: &[Vec<(u32, Mode)>]) {
        // The last access of each unit.
        let mut last: Vec<Option<(u32, u32)>> = vec![None; self.parts.len()];
        for (step, op) in (0..).zip(&skeleton.ops) {
            let first_access = to_u32(self.skeleton.accesses.len());
            let rows = op.first_access..op.first_access + op.access_count;
            for row in rows {
                let access = skeleton.accesses[row as usize];
                let units = &self.of_tensor[access.tensor.index()];
                let mut of_units = Vec::with_capacity(units.len());
                for &unit in units {
                    let known = last[unit.index()].filter(|&(at, _)| at == step);
                    let (_, unit_row) = known.unwrap_or_else(|| {
                        let mode = mode_at(&self.parts[unit.index()], skeleton, uses, step);
                        self.skeleton.accesses.push(Access { tensor: unit, mode });
                        self.row_in.push(row);
                        (step, to_u32(self.skeleton.accesses.len()) - 1)
                    });
                    last[unit.index()] = Some((step, unit_row));
                    of_units.push(unit_row);
                }
                self.rows_of.push(of_units);
            }
            self.skeleton.ops.push(Op {
                name: op.name.clone(),
                duration_ns: op.duration_ns,
                first_access,
                access_count: to_u32(self.skeleton.accesses.len()) - first_access,
                replayable: false,
            });
        }
    }
}

/// How a step uses a unit. It overwrites one if no content of it is needed after.
fn mode_at(parts: &[Part], skeleton: &Skeleton, uses: &[Vec<(u32, Mode)>], step: u32) -> Mode {
    let mut writes = false;
    let mut needed = false;
    for part in parts {
        let uses = &uses[part.tensor.index()];
        let next = uses.partition_point(|&(at, _)| at < step);
        writes |= uses
            .get(next)
            .is_some_and(|&(at, mode)| at == step && mode.writes());
        needed |= match uses.get(next) {
            Some((_, mode)) => mode.reads(),
            None => skeleton.tensor(part.tensor).persistent,
        };
    }
    match (writes, needed) {
        (false, _) => Mode::Read,
        (true, false) => Mode::Write,
        (true, true) => Mode::ReadWrite,
    }
}

fn uses_of(skeleton: &Skeleton) -> Vec<Vec<(u32, Mode)>> {
    let mut uses = vec![Vec::new(); skeleton.tensors.len()];
    for (step, op) in (0..).zip(&skeleton.ops) {
        let first = op.first_access as usize;
        for access in &skeleton.accesses[first..first + op.access_count as usize] {
            uses[access.tensor.index()].push((step, access.mode));
        }
    }
    uses
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;
    use crate::synthetic::{Shape, training_step};

    const PAGE: u64 = 1 << 16;

    fn each(check: impl Fn(&Skeleton, &Units)) {
        for seed in 0..20 {
            println!("seed {seed}");
            let trace = training_step(seed, &Shape::SMALL);
            let skeleton = trace.skeleton(&trace.devices()[0]).expect("its own device");
            let terms = Terms {
                page: PageBytes::new(PAGE).expect("a power of two"),
                pool_below: PAGE / 4,
                budget: trace.peak_bytes().0 / 2,
                loss_max: 100,
            };
            let units = Units::shared(&skeleton, terms);
            units.skeleton.check().expect("units are a sound skeleton");
            check(&skeleton, &units);
        }
    }

    #[test]
    fn parts_are_the_bytes_of_tensors_on_pages_in_order() {
        each(|skeleton, units| {
            for (row, tensor) in skeleton.tensors.iter().enumerate() {
                let id = TensorId::from_index(row);
                let (mut bytes, mut ends_page) = (0, true);
                for &unit in units.of(id) {
                    let mut parts = units.parts(unit).iter().filter(|part| part.tensor == id);
                    let part = parts.next().expect("a part in each of its units");
                    assert_eq!((parts.next(), part.start), (None, bytes));
                    assert!(bytes == 0 || ends_page && part.offset == 0, "{part:?}");
                    bytes += part.bytes;
                    ends_page = (part.offset + part.bytes).is_multiple_of(PAGE);
                }
                assert_eq!(bytes, tensor.bytes.0);
            }
        });
    }

    #[test]
    fn shared_pages_are_single_and_take_no_more_than_unshared_ones() {
        let pages = |skeleton: &Skeleton| {
            let tensors = skeleton.tensors.iter();
            tensors
                .map(|tensor| tensor.bytes.0.div_ceil(PAGE))
                .sum::<u64>()
        };
        let count = Cell::new(0);
        each(|skeleton, units| {
            let shared = (0..units.parts.len()).filter(|&unit| units.parts[unit].len() > 1);
            for unit in shared {
                let ends = units.parts[unit]
                    .iter()
                    .map(|p| (p.offset, p.offset + p.bytes));
                let ends: Vec<_> = ends.collect();
                assert!(
                    ends.windows(2).all(|pair| pair[0].1 <= pair[1].0),
                    "{ends:?}"
                );
                assert!(ends[ends.len() - 1].1 <= PAGE);
                count.set(count.get() + 1);
            }
            assert!(pages(&units.skeleton) <= pages(skeleton));
        });
        assert!(count.get() > 0, "nothing is shared");
    }

    #[test]
    fn a_step_uses_the_units_of_what_it_uses() {
        each(|skeleton, units| {
            for (row, access) in skeleton.accesses.iter().enumerate() {
                for (&unit_row, &unit) in units.rows_of(row).iter().zip(units.of(access.tensor)) {
                    let of_unit = units.skeleton.accesses[unit_row as usize];
                    assert_eq!(of_unit.tensor, unit);
                    assert!(of_unit.mode.writes() >= access.mode.writes());
                    assert!(of_unit.mode.reads() >= access.mode.reads());
                }
            }
        });
    }

    #[test]
    fn alone_every_tensor_is_a_unit() {
        each(|skeleton, _| {
            let page = PageBytes::new(PAGE).expect("a power of two");
            let units = Units::alone(skeleton, page);
            assert_eq!(&units.skeleton, skeleton);
            assert!(units.parts.iter().all(|parts| parts.len() == 1));
        });
    }
}
