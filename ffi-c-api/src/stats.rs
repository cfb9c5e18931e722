//! What a runtime has done: as numbers, and as text for people.

use core::ffi::c_char;
use core::fmt::Write;
use core::mem::size_of;

use jetson_runtime::{ProgramReport, Runtime};

use crate::arguments::not_null;
use crate::extensible::{self, Extensible};
use crate::guard::{failure, guard_status};
use crate::handle::{self, VtRuntime};
use crate::held::Held;
use crate::status::{Status, VT_ERROR_BUFFER};

/// `vt_stats`: numbers since the runtime was created.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct VtStats {
    /// Bytes of this struct.
    pub size: usize,
    /// Iterations that ended, recorded ones.
    pub recorded_iterations: u64,
    /// Iterations that ended, frozen ones.
    pub frozen_iterations: u64,
    /// Iterations that were aborted.
    pub aborted_iterations: u64,
    /// How often an iteration left what was recorded.
    pub divergences: u64,
    /// Bytes that left the arena.
    pub moved_out_bytes: u64,
    /// Bytes that came into the arena.
    pub moved_in_bytes: u64,
    /// How long ops waited for copies.
    pub stall_ns: u64,
    /// How often tensors were carried because another kind of iteration began.
    pub switches: u64,
    /// How long that took.
    pub switch_ns: u64,
    /// How long planning and proving took.
    pub planning_ns: u64,
    /// The size of the arena: no more is ever resident.
    pub arena_bytes: u64,
    /// Bytes of tensors that wait in the spill tier outside of any program now.
    pub waiting_bytes: u64,
    /// Copies of frozen programs that failed.
    pub failed_copies: u64,
    /// The memory that the program of the kind of iteration that began last takes; 0 without one.
    pub program_bytes: u64,
    /// What one of its iterations moves out.
    pub program_out_bytes: u64,
    /// What one of its iterations moves in.
    pub program_in_bytes: u64,
    /// How long its ops computed when they were recorded.
    pub program_compute_ns: u64,
    /// How long an iteration takes, as the cost model sees it.
    pub program_predicted_ns: u64,
    /// The first bytes of its plan's digest, as a big-endian number.
    pub program_digest: u64,
    /// Bytes of tensors that keep their place in the arena.
    pub kept_bytes: u64,
    /// Bytes of tensors at once, at most, in the last recorded iteration of that kind.
    pub iteration_peak_bytes: u64,
    /// Bytes that frozen iterations computed again for ops that read them.
    pub recomputed_bytes: u64,
    /// How long ops took that ran again in frozen iterations.
    pub recompute_ns: u64,
}

// SAFETY: `repr(C)`, the size first; numbers.
unsafe impl Extensible for VtStats {
    const NAME: &'static str = "vt_stats";
    const FIRST_SIZE: usize = 152;
}

impl VtStats {
    fn of(held: &Held) -> Self {
        let done = held.runtime.stats();
        let kind = held.program(held.begun);
        let program = kind.as_ref().filter(|program| program.frozen);
        let digest = program.and_then(|program| program.digest);
        let arena = program.and_then(|program| program.arena);
        let moved = program.and_then(|program| program.moved);
        let [out, r#in] = moved.unwrap_or_default();
        let predicted = program.and_then(|program| program.predicted_ns);
        Self {
            size: size_of::<Self>(),
            recorded_iterations: done.recorded_iterations,
            frozen_iterations: done.frozen_iterations,
            aborted_iterations: done.aborted_iterations,
            divergences: done.divergences,
            moved_out_bytes: done.moved_out.0,
            moved_in_bytes: done.moved_in.0,
            stall_ns: done.stall_ns,
            switches: done.switches,
            switch_ns: done.switch_ns,
            planning_ns: done.planning_ns,
            arena_bytes: held.runtime.arena_bytes().0,
            waiting_bytes: done.garage.0,
            failed_copies: done.failed_copies,
            program_bytes: arena.map_or(0, |(pages, page)| u64::from(pages) * page.0),
            program_out_bytes: out.0,
            program_in_bytes: r#in.0,
            program_compute_ns: program.map_or(0, |program| program.compute_ns),
            program_predicted_ns: predicted.unwrap_or(0),
            program_digest: digest.map_or(0, |digest| {
                let first = digest.first_chunk().expect("a digest has 32 bytes");
                u64::from_be_bytes(*first)
            }),
            kept_bytes: done.pinned.0,
            iteration_peak_bytes: kind.as_ref().map_or(0, |kind| kind.peak.0),
            recomputed_bytes: done.recomputed.0,
            recompute_ns: done.recompute_ns,
        }
    }
}

/// The numbers of a runtime.
///
/// # Safety
/// `out` is NULL or as large as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vt_runtime_stats(runtime: *const VtRuntime, out: *mut VtStats) -> Status {
    guard_status(|| {
        // SAFETY: handed on from this function's caller.
        unsafe { extensible::size(out, "vt_runtime_stats: out") }?;
        let stats = handle::with(runtime, "vt_runtime_stats", |held| Ok(VtStats::of(held)))?;
        // SAFETY: handed on from this function's caller.
        unsafe { extensible::write(out, &stats, "vt_runtime_stats: out") }
    })
}

/// What a runtime is, has and does, as text.
///
/// # Safety
/// `bytes` is NULL or may be read and written; `text` is NULL or has room for `*bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vt_report(
    runtime: *const VtRuntime,
    text: *mut c_char,
    bytes: *mut usize,
) -> Status {
    guard_status(|| {
        not_null(bytes, "vt_report: bytes")?;
        let report = handle::with(runtime, "vt_report", |held| Ok(report(&held.runtime)))?;
        let needed = report.len() + 1;
        // SAFETY: not NULL, checked above; the caller hands a size that may be read.
        let room = unsafe { bytes.read() };
        // SAFETY: as above, and it may be written: how much is needed is an answer, too.
        unsafe { bytes.write(needed) };
        if text.is_null() {
            return Ok(());
        }
        if room < needed {
            return Err(failure(
                VT_ERROR_BUFFER,
                format_args!("vt_report: the report has {needed} bytes, there is room for {room}"),
            ));
        }
        // SAFETY: the caller has room for `room` bytes, which are enough; the report is ours.
        unsafe {
            report
                .as_ptr()
                .copy_to_nonoverlapping(text.cast(), report.len())
        };
        let end = text.wrapping_add(report.len());
        // SAFETY: as above; the report is one byte shorter than what is needed.
        unsafe { end.write(0) };
        Ok(())
    })
}

fn report(runtime: &Runtime) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_report(&mut text, runtime);
    // The text becomes a C string; names are the application's.
    text.replace('\0', "?")
}

fn write_report(text: &mut String, runtime: &Runtime) -> std::fmt::Result {
    let stats = runtime.stats();
    writeln!(text, "arena        {}", runtime.arena_bytes())?;
    match runtime.usage() {
        Ok(usage) => writeln!(
            text,
            "memory       {} of the arena, {} of the spill tier; the process {} (PSS)",
            usage.arena_allocated, usage.spill_allocated, usage.pss
        )?,
        Err(error) => writeln!(text, "memory       unknown: {error}")?,
    }
    writeln!(
        text,
        "iterations   {} frozen, {} recorded, {} aborted, {} left their recording",
        stats.frozen_iterations,
        stats.recorded_iterations,
        stats.aborted_iterations,
        stats.divergences
    )?;
    writeln!(
        text,
        "moved        {} out, {} in; ops waited {} for it",
        stats.moved_out,
        stats.moved_in,
        Time(stats.stall_ns)
    )?;
    if stats.recomputed.0 > 0 {
        writeln!(
            text,
            "recomputed   {} in {}",
            stats.recomputed,
            Time(stats.recompute_ns)
        )?;
    }
    writeln!(
        text,
        "besides      {} of planning, {} switches between kinds of iterations in {}",
        Time(stats.planning_ns),
        stats.switches,
        Time(stats.switch_ns)
    )?;
    for program in runtime.programs() {
        write_program(text, &program)?;
    }
    for divergence in runtime.divergences() {
        writeln!(text, "divergence   {divergence}")?;
    }
    Ok(())
}

fn write_program(text: &mut String, program: &ProgramReport) -> std::fmt::Result {
    for op in &program.excluded {
        writeln!(
            text,
            "key {:<8} op {op:?} left other bits when it ran again",
            program.key
        )?;
    }
    write!(text, "key {:<8} ", program.key)?;
    if let (Some((pages, page)), Some([out, r#in])) = (program.arena, program.moved) {
        writeln!(
            text,
            "frozen by policy {}: {pages} pages of {page}, {out} out and {in} in an iteration; \
             computes {}, predicted {}",
            program.policy.as_deref().unwrap_or("unknown"),
            Time(program.compute_ns),
            Time(program.predicted_ns.unwrap_or(0)),
            in = r#in
        )
    } else if let Some(refusal) = &program.refusal {
        writeln!(text, "on demand, since no program could be made: {refusal}")
    } else {
        writeln!(
            text,
            "recording, {} equal iterations so far",
            program.repeats
        )
    }
}

/// Nanoseconds, for people.
struct Time(u64);

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ns = self.0;
        match ns {
            0..10_000 => write!(f, "{ns} ns"),
            10_000..10_000_000 => write!(f, "{} us", ns / 1000),
            10_000_000..10_000_000_000 => write!(f, "{} ms", ns / 1_000_000),
            _ => write!(f, "{} s", ns / 1_000_000_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_well() {
        let times = [0, 9_999, 10_000, 12_000_000, 61_000_000_000].map(|ns| Time(ns).to_string());
        assert_eq!(times, ["0 ns", "9999 ns", "10 us", "12 ms", "61 s"]);
    }
}
