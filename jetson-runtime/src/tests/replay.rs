//! Every byte of every op, over many iterations, on every tier.

use vtensor::PageBytes;

use super::model::Model;
use super::{freeze, in_time, plans};
use crate::{Options, Spill};

fn tiers() -> [Spill; 2] {
    [Spill::Ram, Spill::File(super::disk())]
}

#[test]
fn a_thousand_iterations_keep_every_byte() {
    in_time(|| {
        for (name, plan) in plans::all(plans::page()) {
            for (spill, duplex) in tiers()
                .into_iter()
                .flat_map(|t| [(t.clone(), true), (t, false)])
            {
                let options = Options {
                    spill: spill.clone(),
                    duplex: Some(duplex),
                    ..Options::default()
                };
                let mut frozen = freeze(&plan, &options).unwrap();
                let mut model = Model::new(&plan);
                for _ in 0..1000 {
                    model.iteration(&mut frozen).unwrap();
                }
                let kept = model.check_home(&mut frozen).unwrap();
                assert!(kept > 0, "{name}");
                let stats = frozen.stats();
                assert_eq!(stats.iterations, 1000);
                assert_eq!(
                    stats.moved_out.0,
                    1000 * plan.program.moved_out().0,
                    "{name}"
                );
                assert_eq!(stats.moved_in.0, 1000 * plan.program.moved_in().0, "{name}");
            }
        }
    });
}

#[test]
fn a_smaller_scale_keeps_every_byte() {
    in_time(|| {
        for page in [2, 8, 32].map(|pages| pages * plans::page()) {
            for (name, plan) in plans::all(page) {
                let options = Options {
                    executed_page: Some(PageBytes::new(plans::page()).unwrap()),
                    ..Options::default()
                };
                let mut frozen = freeze(&plan, &options).unwrap();
                assert_eq!(
                    frozen.arena_bytes().0,
                    u64::from(plan.program.arena_pages) * plans::page()
                );
                let mut model = Model::new(&plan);
                for _ in 0..50 {
                    model.iteration(&mut frozen).unwrap();
                    model.check_home(&mut frozen).unwrap();
                }
                let ratio = page / plans::page();
                let moved = frozen.stats().moved_out.0 * ratio;
                let copies = plan.program.outs.len() as u64;
                let planned = 50 * plan.program.moved_out().0;
                assert!(
                    (planned..=planned + 50 * copies * ratio).contains(&moved),
                    "{name}"
                );
            }
        }
    });
}
