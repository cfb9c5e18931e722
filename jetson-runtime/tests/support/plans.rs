//! Plans made by hand: small programs whose every rule can be followed with a pencil.

mod builder;

use lgm::plan::Plan;
use nix::unistd::{SysconfVar, sysconf};
use vtensor::{Mode, PieceRun, Place, TensorId};

use builder::Builder;

/// The machine's page, the smallest that a plan can be executed with.
pub fn page() -> u64 {
    let page = sysconf(SysconfVar::PAGE_SIZE).expect("the system tells its page");
    u64::try_from(page.expect("it has one")).expect("of a positive size")
}

const fn at(place: Place, offset: u64) -> Place {
    Place {
        window: place.window,
        offset,
    }
}

/// Three tensors of one and a half pages, two frames: two tensors take turns in one frame, and
/// come back across the boundary.
pub fn swap(page: u64) -> Plan {
    let mut b = Builder::new(page, 4);
    let (f0, f1) = (b.window(&[3, 0]), b.window(&[1, 2]));
    let bytes = page + page / 2 + 3;
    let [a, c, d] = ["a", "c", "d"].map(|name| b.tensor(name, bytes, true));
    let (slot_a, slot_d) = (0, 2 * page);
    b.home(a, Some(f0), None);
    b.home(c, Some(f1), None);
    b.home(d, None, Some(slot_d));
    b.op((0, 0), &[(a, Mode::ReadWrite, f0)]);
    b.out(a, f0, slot_a);
    b.op((0, 0), &[(c, Mode::ReadWrite, f1)]);
    b.back(d, f0, slot_d, 1);
    b.op((1, 1), &[(d, Mode::ReadWrite, f0), (c, Mode::Read, f1)]);
    b.out(d, f0, slot_d);
    b.back(a, f0, slot_a, 2);
    b.build()
}

/// A tensor that is only read leaves its frame to a transient without an out, and returns.
pub fn clean_return(page: u64) -> Plan {
    let mut b = Builder::new(page, 4);
    let (f0, f1) = (b.window(&[0, 1]), b.window(&[2, 3]));
    let a = b.tensor("a", 2 * page - 1, true);
    let p = b.tensor("p", 2 * page, true);
    let t = b.tensor("t", page + 512, false);
    b.home(a, Some(f0), Some(0));
    b.home(p, Some(f1), None);
    b.op((0, 0), &[(a, Mode::Read, f0), (p, Mode::ReadWrite, f1)]);
    b.op((0, 0), &[(t, Mode::Write, f0)]);
    b.op((0, 0), &[(t, Mode::Read, f0), (p, Mode::ReadWrite, f1)]);
    b.back(a, f0, 0, 0);
    b.build()
}

/// A persistent tensor whose content is dead at the boundary shares its frame with a transient.
/// Nothing moves.
pub fn dead_at_home(page: u64) -> Plan {
    let mut b = Builder::new(page, 3);
    let (f0, f1) = (b.window(&[0]), b.window(&[1, 2]));
    let g = b.tensor("g", page, true);
    let p = b.tensor("p", page + 1, true);
    let t = b.tensor("t", page / 2, false);
    b.home(g, None, None);
    b.home(p, Some(f1), None);
    b.op((0, 0), &[(g, Mode::Write, f0)]);
    b.op((0, 0), &[(g, Mode::Read, f0), (p, Mode::ReadWrite, f1)]);
    b.op((0, 0), &[(t, Mode::Write, f0)]);
    b.op((0, 0), &[(t, Mode::Read, f0)]);
    b.build()
}

/// One piece of a tensor moves, the others stay: two windows share their pages.
pub fn one_piece(page: u64) -> Plan {
    let mut b = Builder::new(page, 4);
    let (w0, w2, w3) = (b.window(&[0, 1, 2]), b.window(&[0, 3, 2]), b.window(&[3]));
    let a = b.tensor("a", 3 * page - 512, true);
    let t = b.tensor("t", page, false);
    let middle = PieceRun { first: 1, count: 1 };
    b.home(a, Some(w2), None);
    b.op((0, 0), &[(a, Mode::ReadWrite, w2)]);
    b.out_pieces(a, middle, at(w2, page), 0);
    b.op((1, 0), &[(t, Mode::Write, w3)]);
    b.back_pieces(a, middle, (at(w0, page), 0), 1);
    b.op((1, 1), &[(a, Mode::ReadWrite, w0), (t, Mode::Read, w3)]);
    b.out_pieces(a, middle, at(w0, page), 0);
    b.back_pieces(a, middle, (at(w2, page), 0), 2);
    b.build()
}

/// Two small tensors share a page that a third one takes in turn.
pub fn shared_page(page: u64) -> Plan {
    let mut b = Builder::new(page, 1);
    let w = b.window(&[0]);
    let small = b.tensor("small", 500, true);
    let other = b.tensor("other", 700, true);
    let large = b.tensor("large", page, true);
    let (slot_small, slot_other, slot_large) = (0, page, 2 * page);
    b.home(small, Some(w), None);
    b.home(other, Some(at(w, 512)), None);
    b.home(large, None, Some(slot_large));
    let both = [
        (small, Mode::ReadWrite, w),
        (other, Mode::ReadWrite, at(w, 512)),
    ];
    b.op((0, 0), &both);
    b.out(small, w, slot_small);
    b.out(other, at(w, 512), slot_other);
    b.back(large, w, slot_large, 2);
    b.op((2, 1), &[(large, Mode::ReadWrite, w)]);
    b.out(large, w, slot_large);
    b.back(small, w, slot_small, 3);
    b.back(other, at(w, 512), slot_other, 3);
    b.build()
}

/// `tensors` tensors take turns in `frames` frames of two scattered pages, one op each. Every
/// tensor leaves and returns once; as many ins as there are frames cross the boundary.
pub fn rotation(page: u64, tensors: usize, frames: usize) -> Plan {
    assert!(
        tensors.is_multiple_of(frames),
        "so that every tensor keeps its frame"
    );
    let mut b = Builder::new(page, 2 * frames as u32);
    let places: Vec<Place> = (0..frames as u32)
        .map(|frame| b.window(&[2 * frames as u32 - 1 - frame, frame]))
        .collect();
    let ids: Vec<TensorId> = (0..tensors)
        .map(|i| {
            b.tensor(
                &format!("layer{i}.weight"),
                page + page / 4 + i as u64,
                true,
            )
        })
        .collect();
    let slot = |i: usize| i as u64 * 2 * page;
    for (i, &id) in ids.iter().enumerate() {
        if i < frames {
            b.home(id, Some(places[i]), None);
        } else {
            b.home(id, None, Some(slot(i)));
        }
    }
    for (i, &id) in ids.iter().enumerate() {
        let place = places[i % frames];
        let needed = i as i64 - frames as i64 + 1;
        b.op((needed, needed), &[(id, Mode::ReadWrite, place)]);
        b.out(id, place, slot(i));
        let next = (i + frames) % tensors;
        b.back(ids[next], place, slot(next), i as i64 + 1);
    }
    b.build()
}

/// As many steps as an iteration may want, without a copy: for what the step path itself costs.
pub fn resident(page: u64, ops: usize) -> Plan {
    let mut b = Builder::new(page, 2);
    let w = b.window(&[0, 1]);
    let [p, q] = ["p", "q"].map(|name| b.tensor(name, page, true));
    b.home(p, Some(w), None);
    b.home(q, Some(at(w, page)), None);
    for _ in 0..ops {
        b.op(
            (0, 0),
            &[(p, Mode::ReadWrite, w), (q, Mode::Read, at(w, page))],
        );
    }
    b.build()
}

/// An op runs again: what it made gives its frame to another tensor meanwhile, and the running
/// statistic that it changes stays as it is, for scratch takes the change. Where the scratch lies,
/// a tensor leaves for it and comes back.
pub fn recomputed(page: u64) -> Plan {
    let mut b = Builder::new(page, 4);
    let [w0, w1, w2, w3] = [0, 1, 2, 3].map(|page| b.window(&[page]));
    let [p, s, q] = ["p", "s", "q"].map(|name| b.tensor(name, page, true));
    let [a, t] = ["a", "t"].map(|name| b.tensor(name, page - 9, false));
    let (again, scratch) = (b.life(a), b.life(s));
    b.home(p, Some(w0), None);
    b.home(s, Some(w1), None);
    b.home(q, Some(w3), None);
    let first = [
        (p, Mode::Read, w0),
        (s, Mode::ReadWrite, w1),
        (a, Mode::Write, w2),
    ];
    b.op((0, 0), &first);
    b.op((0, 0), &[(a, Mode::Read, w2), (q, Mode::ReadWrite, w3)]);
    b.out(q, w3, 0);
    b.op((0, 0), &[(t, Mode::Write, w2), (p, Mode::Read, w0)]);
    b.op((0, 0), &[(t, Mode::ReadWrite, w2)]);
    let second = [
        (p, Mode::Read, w0),
        (scratch, Mode::Write, w3),
        (again, Mode::Write, w2),
        (s, Mode::Read, w1),
    ];
    b.again(0, (1, 0), &second);
    b.back(q, w3, 0, 1);
    b.op((1, 0), &[(again, Mode::Read, w2), (p, Mode::ReadWrite, w0)]);
    b.build()
}

/// The small plans by name.
pub fn all(page: u64) -> Vec<(&'static str, Plan)> {
    vec![
        ("swap", swap(page)),
        ("clean_return", clean_return(page)),
        ("dead_at_home", dead_at_home(page)),
        ("one_piece", one_piece(page)),
        ("shared_page", shared_page(page)),
        ("rotation", rotation(page, 12, 3)),
        ("recomputed", recomputed(page)),
    ]
}

/// Two tensors of `pages` pages take turns in one frame, whose pages are in `windows` windows; the
/// first op of a tensor uses one window after the other.
pub fn aliased(page: u64, pages: u32, windows: usize) -> Plan {
    let mut b = Builder::new(page, pages);
    let list: Vec<u32> = (0..pages).rev().collect();
    let places: Vec<Place> = (0..windows).map(|_| b.window(&list)).collect();
    let bytes = u64::from(pages) * page;
    let [p, q] = ["p", "q"].map(|name| b.tensor(name, bytes, true));
    let frame = places[0];
    b.home(p, Some(frame), None);
    b.home(q, None, Some(bytes));
    b.op((0, 0), &[(p, Mode::ReadWrite, frame)]);
    b.out(p, frame, 0);
    b.back(q, frame, bytes, 1);
    for &place in &places {
        b.op((1, 1), &[(q, Mode::ReadWrite, place)]);
    }
    b.out(q, frame, bytes);
    b.back(p, frame, 0, 2);
    b.build()
}
