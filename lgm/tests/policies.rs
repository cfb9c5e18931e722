//! Every policy on real steps: its plans hold, and what it moves is idle meanwhile.
//!
//! That a simple policy finds no plan is allowed; that it finds a wrong one is not.

use std::fs::File;

use lgm::graph::{Granularity, Graph};
use lgm::planner::{self, Methods, PlanError, Request};
use lgm::policy::{Policy, Scheduler, Task, evaluations_max};
use lgm::profile::Profiles;
use lgm::queues::Pages;
use lgm::synthetic::{Shape, training_step};
use lgm::trace::{self, Trace};
use lgm::tricks::Tricks;
use lgm::verify::verify_plan;
use vtensor::{Bytes, PageBytes};

/// A convolutional, a branching, a recurrent and a transformer step.
const TRACES: [&str; 4] = [
    "resnet18_b32_sgdm",
    "squeezenet1_1_b32_sgdm",
    "unet_256_b8_adam",
    "distilbert_s128_b32_adamw",
];
const PERCENT: [u64; 3] = [70, 50, 35];

fn open(name: &str) -> Trace {
    let path = format!("{}/../traces/{name}.json.gz", env!("CARGO_MANIFEST_DIR"));
    trace::read(File::open(path).expect("the repository has its traces")).expect("sound")
}

#[test]
fn plans_hold_or_there_is_none() {
    let mut found = [0_u32; Policy::ALL.len()];
    for (row, name) in TRACES.into_iter().enumerate() {
        let trace = open(name);
        for (column, percent) in PERCENT.into_iter().enumerate() {
            let profiles = Profiles::builtin();
            let all: Vec<_> = profiles.iter().collect();
            // Each trace meets each budget, and each device two of them.
            let profile = all[(row + column) % all.len()];
            let skeleton = trace.skeleton(&profile.name).expect("a known device");
            for (index, policy) in Policy::ALL.into_iter().enumerate() {
                let request = Request {
                    skeleton: &skeleton,
                    profile,
                    budget: Bytes(trace.peak_bytes().0 / 100 * percent),
                    policy,
                    methods: Methods::Swap,
                    page: None,
                    trace_digest: trace.digest(),
                    model: trace.model(),
                };
                let title = format!("{name} {percent} % on {} by {policy}", profile.name);
                match planner::plan(&request) {
                    Ok(planned) => {
                        let verdict = verify_plan(&planned.plan);
                        assert!(verdict.is_ok(), "{title}: {verdict:?}");
                        let page = planned.plan.program.page_bytes.get();
                        let arena = u64::from(planned.plan.program.arena_pages) * page;
                        let within = policy == Policy::None || arena <= request.budget.0;
                        assert!(within, "{title}: an arena of {arena} bytes");
                        found[index] += 1;
                    }
                    Err(
                        PlanError::NoSchedule { .. }
                        | PlanError::OpTooLarge { .. }
                        | PlanError::NotByRecompute { .. },
                    ) => {}
                    Err(error) => panic!("{title}: {error}"),
                }
            }
        }
    }
    for (policy, found) in Policy::ALL.into_iter().zip(found) {
        println!(
            "{policy}: {found} of {} plans",
            TRACES.len() * PERCENT.len()
        );
        assert!(found > 0, "{policy} finds no plan anywhere");
    }
}

/// Checks the moves of every schedule, on a fine page so that many tensors are paged.
fn check_moves(trace: &Trace, device: &str, percent: i64) {
    let skeleton = trace.skeleton(device).expect("a known device");
    let graph = Graph::new(
        &skeleton,
        Granularity {
            page: PageBytes::MIN,
            pool_below: 1,
            park_unused: true,
        },
    );
    let pages = Pages::of(&graph);
    let peak = *pages.live.iter().max().expect("there are ops");
    let profiles = Profiles::builtin();
    let profile = profiles.iter().next().expect("there are devices");
    let task = Task {
        graph: &graph,
        pages: &pages,
        capacity: peak * percent / 100,
        link: &profile.link,
    };
    let steps = graph.steps();
    for policy in Policy::ALL {
        let Ok(schedules) = Scheduler::new(policy, Tricks::default()).schedules(task) else {
            continue;
        };
        assert!(!schedules.is_empty(), "{policy} has none, and no reason");
        let mut last_ns = 0;
        for schedule in schedules {
            assert!(schedule.timeline.iteration_ns >= last_ns, "the best first");
            last_ns = schedule.timeline.iteration_ns;
            assert!(schedule.queues.peak <= task.capacity, "{policy}");
            for m in &schedule.moves {
                assert!(m.leave < m.back && m.back <= m.need, "{policy}: {m:?}");
                let used = (m.leave + 1..m.need)
                    .find(|step| graph.use_at(m.tensor, step % steps).is_some());
                assert_eq!(used, None, "{policy}: {m:?}");
                assert!(graph.use_at(m.tensor, m.need % steps).is_some(), "{policy}");
                let whole = m.pieces.count == graph.node(m.tensor).pieces;
                assert!(whole || !policy.is_published(), "{policy}: {m:?}");
            }
        }
    }
}

#[test]
fn what_moves_is_idle_meanwhile() {
    check_moves(&open("resnet18_b32_sgdm"), "agx_orin", 60);
    for seed in 0..30 {
        let trace = training_step(seed, &Shape::SMALL);
        let device = trace.devices()[0].clone();
        for percent in [90, 75, 60] {
            check_moves(&trace, &device, percent);
        }
    }
}

#[test]
fn every_policy_has_a_name_of_its_own() {
    for policy in Policy::ALL {
        assert_eq!(policy.name().parse(), Ok(policy));
        assert!(evaluations_max(policy) > 0);
    }
    let error = "best".parse::<Policy>().expect_err("no such policy");
    let text = error.to_string();
    for policy in Policy::ALL {
        assert!(text.contains(policy.name()), "{text}");
    }
    assert!(
        text.ends_with("whole-paged, checkpoint, vtensor and portfolio, not `best`"),
        "{text}"
    );
}
