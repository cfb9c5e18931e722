//! `compare` from outside: keys, exit status, CSV and picture.

mod support;

use std::fs;

use support::{Folder, bench, json, text, trace};

#[test]
fn cells_have_fixed_keys_and_agree_with_plan() {
    let path = trace("squeezenet1_1_b32_sgdm");
    let folder = Folder::new();
    let (csv, svg) = (folder.path("cells.csv"), folder.path("cells.svg"));
    let policies = "lru,vdnn-conv-paged,g10-paged,whole,vtensor";
    let args = [
        "compare",
        &path,
        "--device",
        "agx_orin,rtx3060",
        "--budget",
        "70%,50%",
    ];
    let more = ["--policy", policies, "--csv", &csv, "--plot", &svg];
    let (value, status) = json(&[&args[..], &more].concat());
    assert_eq!(status, Some(0), "{value}");
    let keys: Vec<_> = value.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["cells", "summary"]);
    let cells = value["cells"].as_array().expect("a list");
    let left_out = value["summary"]["skipped"]
        .as_array()
        .expect("a list")
        .len();
    // The planner's own is there three times: it swaps, it runs ops again, it does both.
    assert_eq!(cells.len(), (2 - left_out) * 2 * 7);
    for cell in cells {
        let mut keys: Vec<_> = cell.as_object().expect("an object").keys().collect();
        keys.sort();
        let mut wanted = [
            "trace",
            "device",
            "budget_fraction",
            "budget_bytes",
            "policy",
            "feasible",
            "ratio",
            "bound_ratio",
            "lp_bound_ratio",
            "moved_out_bytes",
            "moved_in_bytes",
            "recompute_s",
            "recomputed_bytes",
            "page_overhead",
            "plan_s",
            "verdict",
        ];
        wanted.sort_unstable();
        assert_eq!(keys, wanted);
        assert_eq!(cell["trace"], "squeezenet1_1_b32_sgdm");
        let feasible = cell["feasible"].as_bool().expect("yes or no");
        assert_eq!(feasible, cell["ratio"].is_number(), "{cell}");
        assert_eq!(feasible, cell["verdict"] == "ok", "{cell}");
        let moves_only = cell["recomputed_bytes"].as_u64() == Some(0);
        if let Some(ratio) = cell["ratio"].as_f64().filter(|_| moves_only) {
            let bound = cell["bound_ratio"].as_f64().expect("a number");
            assert!(ratio >= bound && bound >= 1.0, "{cell}");
            let fluid = cell["lp_bound_ratio"].as_f64().expect("known here");
            assert!(ratio >= fluid && fluid >= 1.0, "{cell}");
        }
    }
    let one = &cells[4];
    assert_eq!(one["policy"], "vtensor");
    let budget = one["budget_bytes"].to_string();
    let args = ["plan", &path, "--device", "agx_orin", "--budget", &budget];
    let (plan, _) = json(&[&args[..], &["--methods", "swap"]].concat());
    for (of_cell, of_plan) in [
        ("ratio", "predicted_ratio"),
        ("bound_ratio", "bound_ratio"),
        ("moved_out_bytes", "moved_out_bytes"),
        ("page_overhead", "page_overhead"),
    ] {
        assert_eq!(one[of_cell], plan[of_plan], "{of_cell}");
    }
    let rows = fs::read_to_string(csv).expect("written");
    assert_eq!(rows.lines().count(), cells.len() + 1);
    let picture = fs::read_to_string(svg).expect("written");
    assert_eq!(picture.matches("<g ").count(), 2, "a panel for each device");
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
}

#[test]
fn budgets_that_no_policy_could_keep_are_left_out_by_name() {
    let path = trace("squeezenet1_1_b32_sgdm");
    let args = [
        "compare",
        &path,
        "--device",
        "agx_orin",
        "--policy",
        "lru,vtensor",
    ];
    let output = bench(&[&args[..], &["--budget", "60%,1%"]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = text(&output.stdout);
    for wanted in [
        "squeezenet1_1_b32_sgdm at 1 %",
        "was left out",
        "time of a step over its time without a limit",
        "best published",
        "agx_orin",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(
        output.stderr.is_empty(),
        "bars are for terminals: {output:?}"
    );
}

#[test]
fn a_baseline_without_a_plan_is_no_failure_but_the_planner_without_one_is() {
    let path = trace("resnet18_b32_sgdm");
    let args = ["compare", &path, "--device", "agx_orin", "--budget", "50%"];
    let (value, status) = json(&[&args[..], &["--policy", "vdnn-conv-paged"]].concat());
    assert_eq!(status, Some(0), "{value}");
    assert_eq!(value["cells"][0]["feasible"], false, "{value}");
    // Pages as large as no op leaves room for.
    let more = ["--policy", "vtensor", "--page-bytes", "256MiB"];
    let (value, status) = json(&[&args[..], &more].concat());
    assert_eq!(
        (status, &value["summary"]["failed"]),
        // Where it swaps, and where it does both.
        (Some(1), &2.into()),
        "{value}"
    );
}

#[test]
fn faults_are_errors() {
    let path = trace("resnet18_b32_sgdm");
    for (args, kind) in [
        (
            ["compare", "nowhere.json", "--device", "agx_orin"],
            "no_trace",
        ),
        (["compare", &path, "--device", "tx1"], "device"),
        (["compare", &path, "--policy", "lru"], "file"),
    ] {
        let more: &[&str] = match kind {
            "file" => &["--csv", "/nowhere/at/all"],
            _ => &[],
        };
        let (value, status) = json(&[&args[..], more].concat());
        assert_eq!((status, &value["error"]["kind"]), (Some(1), &kind.into()));
    }
    let output = bench(&["compare"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
