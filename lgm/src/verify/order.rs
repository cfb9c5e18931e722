//! V1–V4: the counts of a program leave no room for a deadlock.

use vtensor::{StepCounts, StepIndex};

use crate::program::{Program, Step};

use super::violation::{At, Rule, Verdict, refuse};

/// One of the two queues, as the counts of a step speak of it.
struct Queue {
    name: &'static str,
    length: i64,
    needed: fn(&StepCounts) -> i64,
    released: fn(&StepCounts) -> i64,
}

fn queues(program: &Program) -> [Queue; 2] {
    [
        Queue {
            name: "outs",
            length: length(program.outs.len()),
            needed: |counts| counts.out_needed,
            released: |counts| counts.out_released,
        },
        Queue {
            name: "ins",
            length: length(program.ins.len()),
            needed: |counts| counts.in_needed,
            released: |counts| counts.in_released,
        },
    ]
}

/// The length of a queue, as counts are.
pub(super) fn length(rows: usize) -> i64 {
    i64::try_from(rows).expect("the bounds of tables are checked first")
}

fn at(step: usize) -> At {
    At::Step(StepIndex::from_index(step))
}

/// Checks V1, V2 and V3, then V4.
pub(super) fn check(program: &Program) -> Verdict {
    let queues = queues(program);
    for queue in &queues {
        released(&program.steps, queue)?;
        needed(&program.steps, queue)?;
    }
    after_out(program)?;
    for queue in &queues {
        waits_of_steps(&program.steps, queue)?;
    }
    waits_of_ins(program)?;
    straight_order(program)
}

/// V1: released counts rise from 0 to the length of the queue.
fn released(steps: &[Step], queue: &Queue) -> Verdict {
    let (name, length) = (queue.name, queue.length);
    let mut before = 0;
    for (index, step) in steps.iter().enumerate() {
        let count = (queue.released)(&step.counts);
        if count < before || count > length {
            let message = format!("{count} {name} are released, {before} to {length} may be");
            return refuse(Rule::V1, at(index), message);
        }
        before = count;
    }
    if before != length {
        let message = format!("the last step has released {before} {name} of {length}");
        return refuse(Rule::V1, at(steps.len() - 1), message);
    }
    Ok(())
}

/// V1: needed counts never decrease, over the boundary neither, and reach back less than one
/// iteration. So whoever starts a step knows all commands of the iteration before the last.
fn needed(steps: &[Step], queue: &Queue) -> Verdict {
    let (name, length) = (queue.name, queue.length);
    let floor = if length == 0 { 0 } else { 1 - length };
    let mut before = floor;
    for (index, step) in steps.iter().enumerate() {
        let count = (queue.needed)(&step.counts);
        if count < before || count > length {
            let message = format!("{count} {name} are needed, {before} to {length} may be");
            return refuse(Rule::V1, at(index), message);
        }
        before = count;
    }
    let first = (queue.needed)(&steps[0].counts);
    if first < before - length {
        let message = format!(
            "{first} {name} are needed, but the step before, the last one, needed {}",
            before - length
        );
        return refuse(Rule::V1, at(0), message);
    }
    Ok(())
}

/// V1: the outs that ins wait for never decrease.
fn after_out(program: &Program) -> Verdict {
    let length = length(program.outs.len());
    let mut before = -length;
    for (row, copy) in program.ins.iter().enumerate() {
        if copy.after_out < before || copy.after_out > length {
            let message = format!(
                "it waits for {} outs, {before} to {length} may be",
                copy.after_out
            );
            return refuse(Rule::V1, At::In(row), message);
        }
        before = copy.after_out;
    }
    Ok(())
}

/// V2.
fn waits_of_steps(steps: &[Step], queue: &Queue) -> Verdict {
    let mut released = 0;
    for (index, step) in steps.iter().enumerate() {
        let needed = (queue.needed)(&step.counts);
        if needed > released {
            let message = format!(
                "{needed} {} are needed, {released} were released before",
                queue.name
            );
            return refuse(Rule::V2, at(index), message);
        }
        released = (queue.released)(&step.counts);
    }
    Ok(())
}

/// V3.
fn waits_of_ins(program: &Program) -> Verdict {
    let mut rows = program.ins.iter().enumerate();
    let mut done = 0;
    for step in &program.steps {
        let counts = &step.counts;
        while done < counts.in_released {
            done += 1;
            let Some((row, copy)) = rows.next() else {
                break;
            };
            if copy.after_out > counts.out_released {
                let message = format!(
                    "it waits for {} outs, {} are released with it or before",
                    copy.after_out, counts.out_released
                );
                return refuse(Rule::V3, At::In(row), message);
            }
        }
    }
    Ok(())
}

/// V4, without the reasoning behind it: walks the order that the proof goes by (a step, the outs
/// that it releases, the ins that it releases) and sees whether each wait is met by what came
/// before. This is also the order of the one queue of E4, so it holds for one engine and for two.
fn straight_order(program: &Program) -> Verdict {
    let (mut outs, mut ins) = (0, 0);
    for (index, step) in program.steps.iter().enumerate() {
        let counts = &step.counts;
        if counts.out_needed > outs || counts.in_needed > ins {
            let message = format!(
                "it waits for {} outs and {} ins, when {outs} and {ins} can be complete",
                counts.out_needed, counts.in_needed
            );
            return refuse(Rule::V4, at(index), message);
        }
        outs = outs.max(counts.out_released);
        while ins < counts.in_released {
            let Some((row, copy)) = usize::try_from(ins)
                .ok()
                .and_then(|row| Some((row, program.ins.get(row)?)))
            else {
                return refuse(Rule::V4, at(index), "it releases ins that there are not");
            };
            if copy.after_out > outs {
                let message = format!(
                    "it waits for {} outs, when {outs} can be complete",
                    copy.after_out
                );
                return refuse(Rule::V4, At::In(row), message);
            }
            ins += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use vtensor::{
        Bytes, In, OpIndex, Out, PageBytes, PieceRun, Place, StepKind, TensorId, WindowId,
    };

    /// Two steps; the first releases an out and an in that waits for it, the second needs the in.
    fn program() -> Program {
        let place = Place {
            window: WindowId(0),
            offset: 0,
        };
        let pieces = PieceRun { first: 0, count: 1 };
        let step = |op, in_needed| Step {
            kind: StepKind::App(OpIndex(op)),
            counts: StepCounts {
                out_needed: 0,
                in_needed,
                out_released: 1,
                in_released: 1,
            },
            first_place: 0,
        };
        Program {
            page_bytes: PageBytes::MIN,
            piece_bytes: PageBytes::MIN,
            arena_pages: 1,
            spill_bytes: Bytes(4096),
            steps: vec![step(0, 0), step(1, 1)],
            places: vec![],
            outs: vec![Out {
                tensor: TensorId(0),
                pieces,
                bytes: Bytes(4096),
                source: place,
                slot: 0,
            }],
            ins: vec![In {
                tensor: TensorId(0),
                pieces,
                bytes: Bytes(4096),
                destination: place,
                slot: 0,
                after_out: 1,
            }],
            windows: vec![],
            runs: vec![],
            homes: vec![],
        }
    }

    fn rule(verdict: Verdict) -> Option<Rule> {
        verdict.err().map(|violation| violation.rule)
    }

    #[test]
    fn the_straight_order_sees_a_deadlock_by_itself() {
        assert_eq!(rule(straight_order(&program())), None);
        let mut late_in = program();
        late_in.steps[0].counts.in_released = 0;
        assert_eq!(rule(straight_order(&late_in)), Some(Rule::V4));
        assert_eq!(rule(check(&late_in)), Some(Rule::V2));
        let mut late_out = program();
        late_out.steps[0].counts.out_released = 0;
        assert_eq!(rule(straight_order(&late_out)), Some(Rule::V4));
        assert_eq!(rule(check(&late_out)), Some(Rule::V3));
    }
}
