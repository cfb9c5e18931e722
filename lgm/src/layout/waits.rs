//! Waits: what each claimant has to wait for because of the pages that it got.
//!
//! In: stays and their pages. Out: for each step and each in, how many outs must be complete,
//! relative to its iteration: whoever takes a page waits for the out that frees it, and whoever
//! takes or overwrites what has left waits for its own out. Counts never decrease.

use super::stays::{Claimant, KNOWN, Stays};

/// What claimants wait for.
pub(crate) struct Waits {
    pub(crate) steps: Vec<i64>,
    pub(crate) ins: Vec<i64>,
}

pub(super) fn waits(stays: &Stays<'_>, page_of: &[u32], pages: u32) -> Waits {
    let mut waits = own_outs(stays);
    // Stays are in the order of their claims, so each page's occupants come in order.
    let mut label: Vec<Option<i64>> = vec![None; pages as usize];
    let mut first: Vec<Option<Claimant>> = vec![None; pages as usize];
    for (stay, &page) in stays.all.iter().zip(page_of) {
        match label[page as usize] {
            Some(label) => waits.wait(stays, stay.by, label),
            // Free since before the circle began: known at its end only.
            None if stay.by != Claimant::Head => first[page as usize] = Some(stay.by),
            None => {}
        }
        label[page as usize] = Some(stay.label);
    }
    for (by, label) in first.into_iter().zip(label) {
        if let (Some(by), Some(label)) = (by, label) {
            waits.wait(stays, by, label.saturating_sub(stays.outs()));
        }
    }
    never_decrease(&mut waits.steps, stays.outs());
    never_decrease(&mut waits.ins, stays.outs());
    waits
}

/// Ins come behind their own outs, and so do steps that overwrite what is on its way out.
fn own_outs(stays: &Stays<'_>) -> Waits {
    let (moves, queues) = (&stays.schedule.moves, &stays.schedule.queues);
    let period = stays.graph.steps();
    let ins = queues.ins.iter();
    let ins = ins.map(|queued| stays.own_out(queued.row, moves[queued.row].release() / period));
    let mut waits = Waits {
        steps: vec![KNOWN; period as usize],
        ins: ins.collect(),
    };
    for (row, m) in moves.iter().enumerate().filter(|(_, m)| !m.read) {
        let wait = &mut waits.steps[(m.need % period) as usize];
        *wait = (*wait).max(stays.own_out(row, m.need / period));
    }
    waits
}

impl Waits {
    /// Makes a claimant wait for the out with a label, counted on the opened circle.
    fn wait(&mut self, stays: &Stays<'_>, by: Claimant, label: i64) {
        if label == KNOWN {
            return;
        }
        let (step, wait) = match by {
            Claimant::Head => return,
            Claimant::Step(step) => (step, &mut self.steps[step as usize]),
            Claimant::In(number) => (
                stays.schedule.queues.ins[number].release,
                &mut self.ins[number],
            ),
        };
        *wait = (*wait).max(label + 1 - stays.base(step));
    }
}

/// Starting in order, each knows what those before it waited for, in the iteration before too.
fn never_decrease(waits: &mut [i64], outs: i64) {
    let most = waits.iter().copied().max().unwrap_or(KNOWN);
    let floor = if outs == 0 { 0 } else { 1 - outs };
    let mut count = most.saturating_sub(outs).max(floor);
    for wait in waits {
        count = count.max(*wait);
        *wait = count;
    }
}
