//! Each wait and each record left out once: the model of the driver reports exactly what is wrong
//! on paper.
//!
//! Limit: loads of the host itself, from pinned memory, cannot be seen by the model.

use std::thread;
use std::time::Duration;

use cuda_model::Control;
use lgm::plan::Plan;
use lgm::verify::VerifiedPlan;
use vtensor::{OpIndex, TensorId};

use super::order::{ITERATIONS, Order};
use super::programs;
use super::seen::at_home_on_device;
use crate::cuda::{Device, Driver, Frozen, Kernels, Mechanism, Options, Tally};
use crate::pattern;
use crate::tests::plans;

/// A plan on a machine with a stream of copies, or one for each direction.
struct Case<'a> {
    plan: &'a Plan,
    duplex: bool,
    control: Control,
    name: String,
}

/// What is special about a run.
#[derive(Clone, Copy, Default)]
struct Run<'a> {
    /// A function, and which of its calls are left out.
    elided: Option<(&'a str, &'a [u64])>,
    /// A tensor that the host reads at the end.
    read: Option<TensorId>,
    /// How long the host does something else before it begins an iteration.
    pause: Duration,
}

impl Case<'_> {
    /// The reports of a run, and how often streams had been waited for before its end.
    fn run(&self, run: Run<'_>) -> (Vec<String>, u64) {
        self.control.reset("rtx-linux").unwrap();
        self.control.granularity(plans::page()).unwrap();
        self.control.strict_events(true).unwrap();
        let device = Device::open(&Driver::open(self.control.path()).unwrap(), 0).unwrap();
        if let Some((function, calls)) = run.elided {
            for nth in calls {
                self.control.elide(function, *nth).unwrap();
            }
        }
        let waits = self.execute(&device, run);
        drop(device);
        (self.control.reports(), waits)
    }

    /// Contents are written and checked. Whether bytes are wrong is not asked.
    fn execute(&self, device: &Device, run: Run<'_>) -> u64 {
        let plan = self.plan;
        let kernels = Kernels::load(device).unwrap();
        let tally = Tally::new(device, 1).unwrap();
        let options = Options {
            duplex: Some(self.duplex),
            ..Options::of(Mechanism::Mapped)
        };
        let verified = VerifiedPlan::new(plan.clone()).unwrap();
        let fill = |tensor: TensorId, offset, bytes: &mut [u8]| {
            pattern::fill(bytes, tensor.0, 0, offset);
        };
        let mut frozen = Frozen::freeze(device, verified, &options, fill).unwrap();
        for _ in 0..ITERATIONS {
            thread::sleep(run.pause);
            frozen.iteration_begin().unwrap();
            for op in 0..plan.skeleton.ops.len() {
                let op = OpIndex::from_index(op);
                frozen.step_begin(op).unwrap();
                for (access, row) in plan.skeleton.accesses_of(op).iter().enumerate() {
                    if row.mode.reads() {
                        frozen
                            .check_content(&kernels, access, (row.tensor, 0), &tally, 0)
                            .unwrap();
                    }
                    if row.mode.writes() {
                        frozen.fill(&kernels, access, (row.tensor, 1)).unwrap();
                    }
                }
                frozen.step_end().unwrap();
            }
            frozen.iteration_end().unwrap();
        }
        let waits = self.control.calls("cuStreamSynchronize").unwrap();
        if let Some(tensor) = run.read {
            let bytes = usize::try_from(frozen.tensor_bytes(tensor).unwrap().0).unwrap();
            frozen.read(tensor, 0, &mut vec![0; bytes]).unwrap();
        }
        frozen.quiesce().unwrap();
        waits
    }

    /// Whether something is reported with calls of a function left out.
    fn reported(&self, function: &str, calls: &[u64], read: Option<TensorId>) -> bool {
        let run = Run {
            elided: Some((function, calls)),
            read,
            ..Run::default()
        };
        !self.run(run).0.is_empty()
    }

    fn streams(&self) -> u64 {
        if self.duplex { 3 } else { 2 }
    }
}

/// Every program with both kinds of streams; how many things left out were needed, and how many
/// were not.
fn everywhere(part: impl Fn(&Case<'_>, &Order, &mut [u32; 2])) -> [u32; 2] {
    let mut count = [0; 2];
    for (name, plan) in programs() {
        for duplex in [true, false] {
            let case = Case {
                plan: &plan,
                duplex,
                control: Control::new("rtx-linux").unwrap(),
                name: format!("{name}, duplex {duplex}"),
            };
            let (reports, _) = case.run(Run::default());
            assert_eq!(reports, Vec::<String>::new(), "{}", case.name);
            part(&case, &Order::of(&plan, duplex), &mut count);
        }
    }
    count
}

#[test]
fn the_model_misses_every_wait_that_is_needed_and_no_other() {
    let [needed, spare] = everywhere(|case, order, count| {
        let name = &case.name;
        let waits = case.control.calls("cuStreamWaitEvent").unwrap();
        assert_eq!(waits, order.waits.len() as u64, "{name}");
        for (nth, wait) in (1..).zip(0..order.waits.len()) {
            let reported = case.reported("cuStreamWaitEvent", &[nth], None);
            let races = order.races(|index, _| index == wait);
            assert_eq!(reported, !races.is_empty(), "{name}, wait {nth}: {races:?}");
            count[usize::from(!reported)] += 1;
        }
    });
    // The others keep a copy from starting before its step is over, which no byte depends on.
    println!("{needed} waits are needed for the bytes, {spare} only for the schedule");
    assert!(needed > spare, "{needed} needed, {spare} spare");
}

#[test]
fn the_model_misses_every_record_that_is_waited_for() {
    let [needed, spare] = everywhere(|case, order, count| {
        let name = &case.name;
        let records = case.control.calls("cuEventRecord").unwrap();
        assert_eq!(records, order.records.len() as u64, "{name}");
        for (nth, (index, record)) in (1..).zip(order.records.iter().enumerate()) {
            let reported = case.reported("cuEventRecord", &[nth], None);
            let races = order.races(|_, wait| wait.record == index);
            let first = record.iteration <= 2;
            let waited = match record.end_of {
                // The host waits for it, two iterations later.
                Some(_) => record.iteration + 2 <= ITERATIONS,
                None => order.waits.iter().any(|wait| wait.record == index),
            };
            // A wait for an event without a record is told; with an older one it does nothing.
            let wanted = if first { waited } else { !races.is_empty() };
            assert_eq!(reported, wanted, "{name}, record {nth}: {races:?}");
            assert!(reported || races.is_empty(), "{name}, record {nth}");
            count[usize::from(!reported)] += 1;
        }
    });
    println!(
        "{needed} records are needed, {spare} are of the last iterations, or for the schedule"
    );
    assert!(needed > spare, "{needed} needed, {spare} spare");
}

#[test]
fn the_model_misses_every_wait_of_the_host_before_events_are_used_again() {
    let [needed, spare] = everywhere(|case, order, count| {
        let all = (ITERATIONS - 2) * case.streams();
        for nth in 1..=all {
            let (before, stream) = ((nth - 1) / case.streams(), (nth - 1) % case.streams());
            let stream = usize::try_from(stream).unwrap();
            // Each wait must be over at its first look, so that looks are counted as waits are.
            let mut pauses = [1, 4, 16, 64, 256, 1024]
                .map(Duration::from_millis)
                .into_iter();
            let reports = loop {
                let run = Run {
                    elided: Some(("cuEventQuery", &[nth])),
                    pause: pauses.next().expect("a second is enough"),
                    ..Run::default()
                };
                let (reports, _) = case.run(run);
                if case.control.calls("cuEventQuery").unwrap() == all {
                    break reports;
                }
            };
            let wanted = order.end_matters(before + 3, stream);
            let name = &case.name;
            assert_eq!(
                !reports.is_empty(),
                wanted,
                "{name}, wait {nth}: {reports:?}"
            );
            count[usize::from(!wanted)] += 1;
        }
    });
    println!("{needed} waits of the host tell it something, {spare} what others tell");
    assert!(needed > 0, "{needed} needed, {spare} spare");
}

#[test]
fn the_model_misses_every_wait_of_the_host_for_what_it_reads_and_gives_back() {
    let [needed, spare] = everywhere(|case, order, count| {
        let (_, before) = case.run(Run::default());
        let name = &case.name;
        for stream in 0..case.streams() {
            let index = usize::try_from(stream).unwrap();
            let nth = before + stream + 1;
            for tensor in at_home_on_device(case.plan).into_iter().take(4) {
                let reported = case.reported("cuStreamSynchronize", &[nth], Some(tensor));
                let wanted = order.is_written(case.plan, tensor, index);
                assert_eq!(reported, wanted, "{name}: stream {stream}, tensor {tensor}");
                count[usize::from(!reported)] += 1;
            }
            // Two waits stand between the last work and the end of its memory: each is enough.
            let last = nth + case.streams();
            for (calls, wanted) in [
                (&[nth][..], false),
                (&[last], false),
                (&[nth, last], order.rest_matters(index)),
            ] {
                let reported = case.reported("cuStreamSynchronize", calls, None);
                assert_eq!(reported, wanted, "{name}: stream {stream}, {calls:?}");
                count[usize::from(!reported)] += 1;
            }
        }
    });
    println!("{needed} waits at rest are needed, {spare} are made again or tell nothing new");
    assert!(needed > 0, "{needed} needed, {spare} spare");
}
