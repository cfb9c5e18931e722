//! Fixed: layouts where addresses may not change. Pages come first, then the times of copies.
//!
//! Pages that are chosen for each stay anew follow from a schedule. A piece with a fixed address
//! has one page, which it shares with the same others in every stay, and a schedule made without
//! that in mind has stays that no pages suit. So stays are first as short as they can be: every
//! copy in arrives on demand. From when on the schedule would have it there is a *wish*, and pages
//! are chosen so that few wishes are denied. Then each copy in begins as early as its pages are
//! free, or as the schedule has it if that is later.

use std::rc::Rc;

use super::preference::Preference;
use super::stays::{AWAY, Claimant, Keep, Stays};
use super::{Effort, Ground, Layout, below, quiet_steps};
use crate::moves::Move;
use crate::queues::Pages;
use crate::schedule::Schedule;

impl<'a> Ground<'a> {
    /// The fastest layout that is found on at most so many pages; `None` if none takes less than
    /// `below_ns`. Pages that it does not need are given back.
    pub(super) fn with_fixed(
        &self,
        schedule: &Rc<Schedule>,
        (pages, below_ns): (u32, u64),
        effort: &mut Effort,
    ) -> Option<Layout<'a>> {
        let mut found = None;
        let mut left = *effort;
        if self.graph.has_movable() {
            // What may move suits a schedule best with pages that follow from it.
            found = self.fastest(schedule, (pages, below_ns), &mut left);
        }
        let spent = effort.0 - left.0;
        if !self.is_good(found.as_ref(), schedule) {
            let below_ns = below(found.as_ref(), below_ns);
            let first = self.pages_first(schedule, (pages, below_ns), effort);
            found = first.or(found);
        }
        effort.0 = effort.0.saturating_sub(spent);
        Some(self.shrunk(found?))
    }

    /// The fastest layout on so many pages, or the first that is good, by pages first. What may
    /// move does not: there is seldom a page for it beside others that must keep theirs.
    pub(super) fn pages_first(
        &self,
        schedule: &Schedule,
        (pages, below_ns): (u32, u64),
        effort: &mut Effort,
    ) -> Option<Layout<'a>> {
        let counted = Pages::of(self.graph);
        let scheduled = |moves| {
            let made = Schedule::new(self.graph, &counted, moves, pages.into(), self.link);
            made.ok().map(Rc::new)
        };
        let late = scheduled(on_demand(&schedule.moves))?;
        let mut best: Option<Layout<'a>> = None;
        for cut in quiet_steps(self.graph, &late) {
            let mut stays = Stays::new(self.graph, &late, (cut, Keep::All));
            wish(&mut stays, &schedule.moves);
            for preference in Preference::ALL {
                if effort.0 == 0 {
                    return best;
                }
                let Some(page_of) = self.coloured(&stays, (pages, preference), effort) else {
                    continue;
                };
                // As wished, where the pages allow that; and whenever they do.
                let soonest = soonest(&stays, &page_of, pages);
                let wished = |(soonest, m): (&Move, &Move)| Move {
                    back: soonest.back.max(m.back),
                    ..*soonest
                };
                let as_wished = soonest.iter().zip(&schedule.moves).map(wished).collect();
                let mut ways = vec![as_wished, soonest];
                ways.dedup();
                for early in ways.into_iter().filter_map(scheduled) {
                    let now = Stays::new(self.graph, &early, (cut, Keep::All));
                    let page_of = same_pages(&stays, &page_of, &now);
                    let below_ns = below(best.as_ref(), below_ns);
                    best = self.timed(&now, page_of, below_ns).or(best);
                }
                if self.is_good(best.as_ref(), schedule) {
                    return best;
                }
            }
        }
        best
    }
}

/// Moves whose copies in arrive when they are needed.
fn on_demand(moves: &[Move]) -> Vec<Move> {
    let late = |m: &Move| Move { back: m.need, ..*m };
    moves.iter().map(late).collect()
}

/// Lets copies in wish for their pages from when on some moves have them.
fn wish(stays: &mut Stays<'_>, moves: &[Move]) {
    let late = Rc::clone(&stays.schedule);
    for stay in &mut stays.all {
        if let Claimant::In(number) = stay.by {
            let row = late.queues.ins[number].row;
            // Not from before the cut: there is no position for that.
            let earlier = late.moves[row].back - moves[row].back;
            stay.wish = stay.claim.saturating_sub(2 * earlier);
        }
    }
}

/// The moves, with copies in that begin as soon as their pages are free.
fn soonest(stays: &Stays<'_>, page_of: &[u32], pages: u32) -> Vec<Move> {
    let mut moves = stays.schedule.moves.clone();
    let ins = &stays.schedule.queues.ins;
    let mut free_steps = vec![u32::MAX; ins.len()];
    // When each page was left, on a line through the circle before and this one.
    let circle = i64::from(stays.positions());
    let mut left = vec![0; pages as usize];
    for (stay, &page) in stays.all.iter().zip(page_of) {
        left[page as usize] = i64::from(stay.until).min(circle) - circle;
    }
    for (stay, &page) in stays.all.iter().zip(page_of) {
        let left = &mut left[page as usize];
        if let Claimant::In(number) = stay.by {
            let positions = u64::try_from(i64::from(stay.claim) - *left).unwrap_or(0);
            let steps = u32::try_from(positions / 2).unwrap_or(u32::MAX);
            free_steps[number] = free_steps[number].min(steps);
        }
        *left = stay.until.into();
    }
    for (queued, free_steps) in ins.iter().zip(free_steps) {
        let m = &mut moves[queued.row];
        m.back = m.back.saturating_sub(free_steps).max(m.leave + 1);
    }
    moves
}

/// For each stay of a schedule whose copies in begin earlier, the page that it had before.
fn same_pages(before: &Stays<'_>, page_of: &[u32], now: &Stays<'_>) -> Vec<u32> {
    let mut pages = vec![None; now.all.len()];
    let accesses = before.accesses.iter().zip(&now.accesses);
    let home = before.home.iter().zip(&now.home);
    for (old, new) in accesses
        .chain(home)
        .flat_map(|(old, new)| old.iter().zip(new))
    {
        if *old != AWAY && *new != AWAY {
            pages[*new as usize] = Some(page_of[*old as usize]);
        }
    }
    // Of a stay that is cut in two, only one part may have a use.
    for (id, stay) in now.all.iter().enumerate() {
        if let Some(head) = stay.head {
            let page = pages[id].or(pages[head as usize]);
            (pages[id], pages[head as usize]) = (page, page);
        }
    }
    let pages = pages.into_iter();
    pages.map(|page| page.expect("a stay has a use")).collect()
}

#[cfg(test)]
mod tests {
    use vtensor::{Bytes, Mode, PageBytes, PieceRun, TensorId, TensorKind};

    use super::*;
    use crate::count::to_u32;
    use crate::graph::{Granularity, Graph};
    use crate::profile::Link;
    use crate::skeleton::{Access, Op, Skeleton, Tensor};
    use crate::tricks::Tricks;

    const PAGE: PageBytes = PageBytes::MIN;
    const LINK: Link = Link {
        out_bps: 1e9,
        in_bps: 1e9,
        copy_latency_ns: 0,
        duplex: true,
    };

    fn granularity() -> Granularity {
        Granularity {
            page: PAGE,
            pool_below: 1,
            park_unused: true,
        }
    }

    /// Six steps: the first and the last read a tensor that stays for good, and the second to the
    /// fourth have another.
    fn skeleton() -> Skeleton {
        let tensor = |persistent| Tensor {
            name: String::new(),
            bytes: Bytes(PAGE.get()),
            kind: TensorKind::Activation,
            persistent,
            fixed: true,
        };
        let mut skeleton = Skeleton {
            tensors: vec![tensor(true), tensor(false)],
            ..Skeleton::default()
        };
        let (read, write) = (Mode::Read, Mode::Write);
        let used = [
            Some((0, read)),
            Some((1, write)),
            None,
            Some((1, read)),
            None,
            Some((0, read)),
        ];
        for access in used {
            skeleton.ops.push(Op {
                name: String::new(),
                duration_ns: 1000,
                first_access: to_u32(skeleton.accesses.len()),
                access_count: access.is_some().into(),
                replayable: false,
            });
            let access = access.map(|(tensor, mode)| Access {
                tensor: TensorId(tensor),
                mode,
            });
            skeleton.accesses.extend(access);
        }
        skeleton
    }

    /// Hands out the graph, the moves if what leaves behind the first step returns from some step
    /// on, and the stays if it returns on demand.
    fn check(check: impl FnOnce(&Graph<'_>, &dyn Fn(u32) -> Vec<Move>, Stays<'_>)) {
        let skeleton = skeleton();
        skeleton.check().expect("a sound example");
        let graph = Graph::new(&skeleton, granularity());
        let moves = |back| {
            vec![Move {
                tensor: TensorId(0),
                pieces: PieceRun { first: 0, count: 1 },
                bytes: Bytes(PAGE.get()),
                leave: 0,
                back,
                need: 5,
                out: false,
                read: true,
            }]
        };
        let stays = stays(&graph, moves(5));
        check(&graph, &moves, stays);
    }

    fn stays<'a>(graph: &'a Graph<'a>, moves: Vec<Move>) -> Stays<'a> {
        let made = Schedule::new(graph, &Pages::of(graph), moves, 2, &LINK);
        Stays::new(graph, &Rc::new(made.expect("two pages do")), (0, Keep::All))
    }

    #[test]
    fn a_copy_on_demand_wishes_for_its_page_from_when_the_schedule_has_it() {
        check(|_, moves, mut stays| {
            let claims: Vec<_> = stays
                .all
                .iter()
                .map(|stay| (stay.claim, stay.wish))
                .collect();
            assert_eq!(claims, [(0, 0), (2, 2), (9, 9)]);
            wish(&mut stays, &moves(2));
            let claims: Vec<_> = stays
                .all
                .iter()
                .map(|stay| (stay.claim, stay.wish))
                .collect();
            assert_eq!(claims, [(0, 0), (2, 2), (9, 3)]);
        });
    }

    #[test]
    fn copies_begin_as_soon_as_their_pages_are_free() {
        check(|_, moves, stays| {
            // Behind the other tensor, and behind its own leave.
            assert_eq!(soonest(&stays, &[0, 0, 0], 1), moves(4));
            assert_eq!(soonest(&stays, &[0, 1, 0], 2), moves(1));
        });
    }

    #[test]
    fn stays_that_begin_earlier_have_the_pages_that_they_had() {
        check(|graph, moves, late| {
            let early = stays(graph, moves(1));
            let of_tensor = |stays: &Stays<'_>| stays.kept.clone();
            assert_eq!(of_tensor(&late), [vec![0, 2], vec![1]]);
            assert_eq!(of_tensor(&early), [vec![0, 1], vec![2]]);
            assert_eq!(same_pages(&late, &[3, 1, 3], &early), [3, 3, 1]);
        });
    }

    #[test]
    fn in_place_each_piece_has_one_page_though_none_must() {
        check(|_, moves, _| {
            let mut skeleton = skeleton();
            skeleton.tensors.iter_mut().for_each(|t| t.fixed = false);
            let graph = Graph::new(&skeleton, granularity());
            let ground = Ground {
                graph: &graph,
                link: &LINK,
                tricks: Tricks::default(),
            };
            let pages = Pages::of(&graph);
            let schedule = Schedule::new(&graph, &pages, moves(2), 2, &LINK).expect("two do");
            let mut effort = Effort(1_000_000);
            let within = (2, u64::MAX);
            let found = super::super::layout_in_place(ground, &schedule, within, &mut effort);
            let found = found.expect("each tensor has a page");
            for stays in &found.stays.kept {
                let mut pages: Vec<u32> =
                    stays.iter().map(|&s| found.page_of[s as usize]).collect();
                pages.dedup();
                assert_eq!(pages.len(), 1);
            }
        });
    }
}
