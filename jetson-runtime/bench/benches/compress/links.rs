//! Links: what each way takes on some of them.

use lgm::profile::Profiles;
use vtensor_bench::trace_file;

use crate::costs::Costs;
use crate::plans;

/// Prints what each way takes on links. `host` is what was measured here.
pub(crate) fn print(host: Costs) {
    println!(
        "\nns for each byte, of compute (c) and of the link, out and in (l); and how many ns of\n\
         the link each ns of compute saves. On Jetsons compute is a trace's, not measured"
    );
    println!(
        "{:<24}{:>10}{:>18}{:>12}{:>20}",
        "", "as it is l", "packed c, l", "again c", "saved packed, again"
    );
    let row = |name: &str, costs: Costs, [out_bps, in_bps]: [f64; 2]| {
        let link = 1e9 / out_bps + 1e9 / in_bps;
        let packing = costs.pack + costs.unpack;
        println!(
            "{name:<24}{link:>10.3}{packing:>10.4}{:>8.3}{:>12.4}{:>10.1}{:>10.1}",
            link * costs.left,
            costs.again,
            link * (1.0 - costs.left) / packing,
            link / costs.again
        );
    };
    row("host, file, sealed", host, [2.5e9, 1.1e9]);
    row("host, throttled", host, [0.25e9, 0.25e9]);
    let trace = plans::path("resnet18_b32_sgdm");
    let trace = trace_file::open(trace.as_ref()).expect("a trace of the repository");
    for device in plans::DEVICES {
        let profiles = Profiles::builtin();
        let link = profiles.get(device).expect("built in").link;
        let costs = Costs::of_device(&trace, device, host.left);
        row(device, costs, [link.out_bps, link.in_bps]);
    }
}
