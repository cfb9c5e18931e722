//! Virtual memory against a naive page table: random maps, unmaps, grants and accesses.

use crate::api::Api;

const SLOTS: usize = 6;
const PAGES: usize = 4;

/// What the program should see: each slot shows a page or nothing, with an access; each page
/// holds one value.
struct Naive {
    slots: [Option<(usize, i32)>; SLOTS],
    values: [u8; PAGES],
    released: [bool; PAGES],
}

impl Naive {
    fn free(&self, page: usize) -> bool {
        self.released[page] && !self.slots.iter().flatten().any(|(shown, _)| *shown == page)
    }

    fn all_mapped(&self, from: usize, count: usize) -> bool {
        count > 0
            && from + count <= SLOTS
            && self.slots[from..from + count].iter().all(Option::is_some)
    }
}

fn pick(random: &mut oorandom::Rand64, below: usize) -> usize {
    usize::try_from(random.rand_range(0..below as u64)).unwrap()
}

fn run(seed: u64) {
    let api = Api::new("rtx-linux");
    let random = &mut oorandom::Rand64::new(u128::from(seed));
    let page = 4096;
    api.control.granularity(page as u64).unwrap();
    let window = api.reserve(SLOTS * page).unwrap();
    let at = |slot: usize| window + (slot * page) as u64;
    let handles = [(); PAGES].map(|()| api.create(page).unwrap());
    let mut naive = Naive {
        slots: [None; SLOTS],
        values: [0; PAGES],
        released: [false; PAGES],
    };
    for step in 0..200 {
        let name = format!("seed {seed}, step {step}");
        let (slot, count) = (pick(random, SLOTS), pick(random, 3));
        let shown = pick(random, PAGES);
        match pick(random, 8) {
            0 | 1 => {
                let works = naive.slots[slot].is_none() && !naive.released[shown];
                let found = api.map(at(slot), page, handles[shown]);
                assert_eq!(found.is_ok(), works, "{name}: map");
                if works {
                    naive.slots[slot] = Some((shown, 0));
                }
            }
            2 => {
                let works = naive.all_mapped(slot, count);
                let found = api.unmap(at(slot), count * page);
                assert_eq!(found.is_ok(), works, "{name}: unmap {slot}+{count}");
                if works {
                    naive.slots[slot..slot + count].fill(None);
                }
            }
            3 | 4 => {
                let works = naive.all_mapped(slot, count);
                let flags = [0, 1, 3, 3][pick(random, 4)];
                let found = api.allow(at(slot), count * page, flags);
                assert_eq!(found.is_ok(), works, "{name}: grant {slot}+{count}");
                if works {
                    let range = slot..slot + count;
                    naive.slots[range]
                        .iter_mut()
                        .flatten()
                        .for_each(|slot| slot.1 = flags);
                }
            }
            5 => {
                let writable = |slot: &Option<_>| slot.is_some_and(|(_, access)| access == 3);
                let count = count.min(SLOTS - slot);
                let works = naive.slots[slot..slot + count].iter().all(writable);
                let value = u8::try_from(pick(random, 256)).unwrap();
                let found = api.set(at(slot), value, count * page, 0);
                assert_eq!(found.is_ok(), works, "{name}: set {slot}+{count}");
                api.synchronize().unwrap();
                for (shown, _) in naive.slots[slot..slot + count].iter().flatten() {
                    if works {
                        naive.values[*shown] = value;
                    }
                }
            }
            6 => {
                let mut byte = [0];
                let found = api.download_now(byte.as_mut_ptr(), at(slot) + 7, 1);
                let readable = naive.slots[slot].filter(|(_, access)| *access != 0);
                assert_eq!(found.is_ok(), readable.is_some(), "{name}: get {slot}");
                if let Some((shown, _)) = readable {
                    assert_eq!(byte[0], naive.values[shown], "{name}: page {shown}");
                }
            }
            _ if step > 150 => {
                let found = api.release_page(handles[shown]);
                assert_eq!(found.is_ok(), !naive.released[shown], "{name}: release");
                naive.released[shown] = true;
            }
            _ => {}
        }
        let (free, total) = api.memory_info().unwrap();
        let held = (0..PAGES).filter(|page| !naive.free(*page)).count();
        assert_eq!(total - free, held * page, "{name}");
    }
}

#[test]
fn it_agrees_with_a_naive_page_table() {
    for seed in 0..60 {
        run(seed);
    }
}
