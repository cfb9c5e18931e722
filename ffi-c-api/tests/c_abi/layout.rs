//! Sizes and offsets of the structs, as Rust, C and the committed list have them.
//!
//! A member is added at the end: it adds a line to `abi/layout.txt`, and no offset changes.

use std::fmt::Write;
use std::mem::{offset_of, size_of};
use std::path::Path;

use vtensor_ffi::config::VtConfig;
use vtensor_ffi::content::{VtLostRange, VtTensorState};
use vtensor_ffi::op::{VtAccess, VtOpDesc};
use vtensor_ffi::probe::VtProbeInfo;
use vtensor_ffi::stats::VtStats;
use vtensor_ffi::tensor::VtTensorDesc;

use crate::{compiler, header};

/// The members of a struct with their offsets, and its size, as Rust has them.
macro_rules! layout {
    ($name:literal, $type:ty: $($member:ident),+ $(,)?) => {{
        let mut text = String::new();
        $(writeln!(text, "{}.{} {}", $name, stringify!($member), offset_of!($type, $member))
            .expect("strings can be written");)+
        writeln!(text, "{} {}", $name, size_of::<$type>()).expect("strings can be written");
        text
    }};
}

fn rust() -> String {
    [
        layout!("vt_access", VtAccess: tensor, mode, reserved),
        layout!(
            "vt_config", VtConfig: size, budget_bytes, page_bytes, backend, mechanism, spill,
            warmup_iterations, spill_dir, spill_bytes_max, compute_stream, log, log_user,
            log_level, flags, policy, spill_write_bytes_per_day_max, methods, device,
        ),
        layout!("vt_lost_range", VtLostRange: offset, bytes, content, reserved),
        layout!(
            "vt_op_desc", VtOpDesc: size, name, accesses, access_count, stream, phase, flags,
            replay, user,
        ),
        layout!(
            "vt_probe_info", VtProbeInfo: size, backend, mechanism, spill, cuda, budget_bytes,
            memory_bytes, page_bytes, mappings_max, reasons,
        ),
        layout!(
            "vt_stats", VtStats: size, recorded_iterations, frozen_iterations, aborted_iterations,
            divergences, moved_out_bytes, moved_in_bytes, stall_ns, switches, switch_ns,
            planning_ns, arena_bytes, waiting_bytes, failed_copies, program_bytes,
            program_out_bytes, program_in_bytes, program_compute_ns, program_predicted_ns,
            program_digest, kept_bytes, iteration_peak_bytes, recomputed_bytes, recompute_ns,
        ),
        layout!("vt_tensor_desc", VtTensorDesc: size, bytes, kind, flags, name),
        layout!("vt_tensor_state", VtTensorState: size, content, written, lost_bytes, lost_ranges),
    ]
    .concat()
}

/// A program that prints the layout of every struct of the headers.
fn program() -> String {
    let mut text = "#include <stdio.h>\n#include <vtensor.h>\nint main(void)\n{\n".to_owned();
    for (name, members) in header::read(&header::text()).structs {
        for member in members {
            let member = member
                .rsplit([' ', '*'])
                .next()
                .expect("a member has a name");
            writeln!(
                text,
                "    printf(\"{name}.{member} %u\\n\", (unsigned)offsetof({name}, {member}));"
            )
            .expect("strings can be written");
        }
        writeln!(
            text,
            "    printf(\"{name} %u\\n\", (unsigned)sizeof({name}));"
        )
        .expect("strings can be written");
    }
    text + "    return 0;\n}\n"
}

#[test]
fn layouts_are_as_committed() {
    let path = Path::new(compiler::CRATE).join("abi/layout.txt");
    let committed = std::fs::read_to_string(path).expect("the list of layouts is there");
    let listed = committed.lines().filter(|line| !line.starts_with('#'));
    let listed: String = listed.map(|line| format!("{line}\n")).collect();
    assert_eq!(rust(), listed, "left: Rust, right: abi/layout.txt");
    let source = compiler::scratch("layout.c");
    std::fs::write(&source, program()).unwrap();
    for compiler in compiler::one_of_each() {
        let found = compiler.run(&source, &[]);
        assert_eq!(
            found, listed,
            "left: {}, right: abi/layout.txt",
            compiler.standard
        );
    }
}
