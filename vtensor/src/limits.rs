//! The largest sizes that are accepted. Readers check them before anything is allocated, so a
//! foreign or hostile file costs bounded memory; planners count on them for their arithmetic.

/// Ops of a trace, and steps of a program.
pub const OPS_MAX: usize = 1 << 20;
/// Tensors of a trace.
pub const TENSORS_MAX: usize = 1 << 20;
/// Accesses, allocations and frees of all ops together, each.
pub const ACCESSES_MAX: usize = 1 << 24;
/// Bytes of one tensor.
pub const TENSOR_BYTES_MAX: u64 = 1 << 43;
/// Bytes of all tensors that live at once, and of everything that one iteration moves.
pub const TOTAL_BYTES_MAX: u64 = 1 << 50;
/// Nanoseconds of one op: half an hour.
pub const OP_NS_MAX: u64 = 1_800_000_000_000;
/// Bytes of a name.
pub const NAME_BYTES_MAX: usize = 4096;
/// Bytes of a trace document once unpacked.
pub const TRACE_BYTES_MAX: u64 = 1 << 30;
/// Bytes of a plan file.
pub const PLAN_BYTES_MAX: u64 = 1 << 28;
/// Pages of an arena.
pub const PAGES_MAX: u64 = 1 << 24;
/// Windows of a layout.
pub const WINDOWS_MAX: usize = 1 << 20;
/// Runs of pages of all windows together.
pub const RUNS_MAX: usize = 1 << 24;
/// Rows that say where pieces are at the boundary of an iteration.
pub const HOMES_MAX: usize = 1 << 23;
/// Copies of one iteration, outs and ins each.
pub const COMMANDS_MAX: usize = 1 << 22;
/// Every tensor starts at a multiple of this many bytes, in every mode, so that libraries choose
/// the same code paths with and without a budget.
pub const TENSOR_ALIGN: u64 = 512;
/// Every slot starts at a multiple of this many bytes: the block of the spill tier.
pub const SLOT_ALIGN: u64 = 4096;

const _: () = assert!(TENSOR_BYTES_MAX <= TOTAL_BYTES_MAX);
const _: () = assert!(
    OP_NS_MAX < u64::MAX / (OPS_MAX as u64) / 8,
    "eight iterations fit in u64"
);
const _: () = assert!(TENSORS_MAX <= u32::MAX as usize && OPS_MAX <= u32::MAX as usize);
const _: () = assert!(
    TENSOR_BYTES_MAX / 4096 <= u32::MAX as u64,
    "pieces are counted in u32"
);
const _: () = assert!(HOMES_MAX >= TENSORS_MAX + COMMANDS_MAX);
const _: () = assert!(SLOT_ALIGN.is_multiple_of(TENSOR_ALIGN));
