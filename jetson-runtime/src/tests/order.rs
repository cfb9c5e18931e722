//! Calls out of order: a clear error each, and nothing broken.

use vtensor::{OpIndex, StepIndex, TensorId};

use super::model::Model;
use super::{freeze, plans};
use crate::{Frozen, Options, RuntimeError};

#[derive(Clone, Copy, Debug)]
enum Call {
    IterationBegin,
    StepBegin(u32),
    StepEnd,
    IterationEnd,
    Read,
    Write,
    Quiesce,
}

/// Calls that fail, and what their messages say.
type Wrong<'a> = &'a [(Call, &'a str)];

fn call(frozen: &mut Frozen, call: Call) -> Result<(), RuntimeError> {
    match call {
        Call::IterationBegin => frozen.iteration_begin(),
        Call::StepBegin(op) => frozen.step_begin(OpIndex(op)).map(|_| ()),
        Call::StepEnd => frozen.step_end(),
        Call::IterationEnd => frozen.iteration_end(),
        Call::Read => frozen.read(TensorId(0), 0, &mut [0]),
        Call::Write => frozen.write(TensorId(0), 0, &[]),
        Call::Quiesce => frozen.quiesce(),
    }
}

#[test]
fn calls_out_of_order_change_nothing() {
    use Call::*;
    // Where the application is, the calls that fail there, and what the message must say.
    let table: &[(&[Call], Wrong<'_>)] = &[
        (
            &[],
            &[
                (StepBegin(0), "call iteration_begin first"),
                (StepEnd, "step_end was called outside an iteration"),
                (
                    IterationEnd,
                    "iteration_end was called outside an iteration",
                ),
            ],
        ),
        (
            &[IterationBegin],
            &[
                (IterationBegin, "between two steps"),
                (
                    StepEnd,
                    "step_end was called in an iteration, between two steps",
                ),
                (IterationEnd, "ended before op 0"),
                (
                    StepBegin(1),
                    "step 0 was recorded as op 0, the application began op 1",
                ),
                (StepBegin(99), "the application began op 99"),
                (Read, "finish the iteration first"),
                (Write, "finish the iteration first"),
            ],
        ),
        (
            &[IterationBegin, StepBegin(0)],
            &[
                (IterationBegin, "call step_end first"),
                (StepBegin(1), "call step_end first"),
                (IterationEnd, "call step_end first"),
                (Read, "finish the iteration first"),
            ],
        ),
        (
            &[IterationBegin, StepBegin(0), StepEnd],
            &[
                (
                    StepBegin(0),
                    "step 1 was recorded as op 1, the application began op 0",
                ),
                (IterationEnd, "ended before op 1"),
                (StepEnd, "between two steps"),
            ],
        ),
        (
            &[
                IterationBegin,
                StepBegin(0),
                StepEnd,
                StepBegin(1),
                StepEnd,
                StepBegin(2),
                StepEnd,
            ],
            &[
                (StepBegin(0), "all 3 recorded ops have run"),
                (IterationBegin, "iteration_end after the last step"),
                (Write, "finish the iteration first"),
            ],
        ),
    ];
    let plan = plans::swap(plans::page());
    for (calls, wrong) in table {
        let mut frozen = freeze(&plan, &Options::default()).unwrap();
        for right in *calls {
            call(&mut frozen, *right).unwrap();
        }
        for (wrong, message) in *wrong {
            let error = call(&mut frozen, *wrong).unwrap_err().to_string();
            assert!(error.contains(message), "{calls:?}, {wrong:?}: {error}");
        }
        call(&mut frozen, Quiesce).unwrap();
        // The rest of the iteration runs as if nothing had been.
        let done = calls.iter().filter(|call| matches!(call, StepEnd)).count();
        if calls.is_empty() {
            call(&mut frozen, IterationBegin).unwrap();
        }
        for op in done as u32..3 {
            if !matches!(calls.last(), Some(StepBegin(open)) if *open == op) {
                call(&mut frozen, StepBegin(op)).unwrap();
            }
            call(&mut frozen, StepEnd).unwrap();
        }
        call(&mut frozen, IterationEnd).unwrap();
        Model::new(&plan).check_home(&mut frozen).unwrap();
    }
}

#[test]
fn divergence_names_both_ops() {
    let mut frozen = freeze(&plans::swap(plans::page()), &Options::default()).unwrap();
    frozen.iteration_begin().unwrap();
    let error = frozen.step_begin(OpIndex(2)).unwrap_err();
    let RuntimeError::Diverged {
        step,
        expected,
        given,
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(
        (step, expected, given),
        (StepIndex(0), OpIndex(0), OpIndex(2))
    );
}

#[test]
fn ranges_at_rest_are_checked() {
    let plan = plans::dead_at_home(plans::page());
    let mut frozen = freeze(&plan, &Options::default()).unwrap();
    let [dead, kept, transient] = [TensorId(0), TensorId(1), TensorId(2)];
    let size = frozen.tensor_bytes(kept).unwrap().0;
    for (tensor, offset, bytes, message) in [
        (dead, 0, 1, "holds nothing at byte 0"),
        (dead, 100, 1, "holds nothing at byte 100"),
        (kept, size, 1, "leave tensor 1"),
        (kept, 0, size as usize + 1, "leave tensor 1"),
        (kept, u64::MAX, 2, "leave tensor 1"),
        (transient, 0, 0, "not a persistent tensor"),
        (TensorId(99), 0, 1, "not a persistent tensor"),
    ] {
        let mut buffer = vec![0; bytes];
        let read = frozen
            .read(tensor, offset, &mut buffer)
            .unwrap_err()
            .to_string();
        assert!(read.contains(message), "{read}");
        let write = frozen
            .write(tensor, offset, &buffer)
            .unwrap_err()
            .to_string();
        assert_eq!(read, write);
    }
    frozen.read(kept, size, &mut []).unwrap();
}

#[test]
fn a_write_at_rest_reaches_every_copy() {
    for plan in [
        plans::clean_return(plans::page()),
        plans::swap(plans::page()),
    ] {
        let mut frozen = freeze(&plan, &Options::default()).unwrap();
        let mut model = Model::new(&plan);
        for _ in 0..3 {
            model.iteration(&mut frozen).unwrap();
            for (index, tensor) in plan.skeleton.tensors.iter().enumerate() {
                if !tensor.persistent {
                    continue;
                }
                let id = TensorId::from_index(index);
                model.versions[index] += 1;
                // In two parts, across the boundary of a piece.
                let mut bytes = vec![0; tensor.bytes.0 as usize];
                super::model::fill(id, model.versions[index], 0, &mut bytes);
                let (head, tail) = bytes.split_at(plans::page() as usize - 7);
                frozen.write(id, 0, head).unwrap();
                frozen.write(id, head.len() as u64, tail).unwrap();
            }
            model.check_home(&mut frozen).unwrap();
        }
        // The ops now read what was written, whether it was on the device, in a slot, or clean.
        model.iteration(&mut frozen).unwrap();
    }
}
