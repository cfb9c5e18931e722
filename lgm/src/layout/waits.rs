//! Waits: what each claimant has to wait for because of the pages that it got.
//!
//! In: stays and their pages. Out: for each step and each in, how many outs must be complete,
//! relative to its iteration: whoever takes a page waits for the out that frees it.

use super::stays::{Claimant, KNOWN, Stays};

/// What claimants wait for; [`KNOWN`] for nothing.
pub(crate) struct Waits {
    pub(crate) steps: Vec<i64>,
    pub(crate) ins: Vec<i64>,
}

pub(crate) fn waits(stays: &Stays<'_>, page_of: &[u32], pages: u32) -> Waits {
    let mut waits = Waits {
        steps: vec![KNOWN; stays.graph.steps() as usize],
        ins: vec![KNOWN; stays.schedule.queues.ins.len()],
    };
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
