//! From the planned size to the executed size.
//!
//! In: the page of the plan and the page to execute with. Out: the numbers of the plan divided by
//! their ratio r, a power of two. Planning happens at full size, so a plan and its proof do not
//! depend on the machine that replays it; execution may be smaller.
//!
//! Guarantees: offsets and slots divide exactly or are refused; the bytes of a run round up, which
//! cannot run into a neighbour because every neighbour starts at a multiple of r. With r = 1
//! nothing changes. Limit: with r > 1 tensors are aligned to 512 / r bytes only.

use lgm::program::Program;
use nix::unistd::{SysconfVar, sysconf};
use vtensor::{Bytes, PageBytes, Place};

use crate::error::RuntimeError;

const _: () = assert!(usize::BITS == 64, "tensors are larger than 4 GiB");

/// A size as the machine counts it. Exact: the runtime is for 64-bit machines.
#[allow(clippy::cast_possible_truncation)]
pub(crate) const fn to_usize(number: u64) -> usize {
    number as usize
}

/// The size of the system's page.
pub(crate) fn system_page() -> u64 {
    match sysconf(SysconfVar::PAGE_SIZE) {
        Ok(Some(bytes)) => u64::try_from(bytes).expect("the system's page has a positive size"),
        _ => 4096,
    }
}

/// The ratio between planned and executed sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    executed: PageBytes,
    shift: u32,
}

impl Scale {
    /// The scale that executes a program, with its pages shrunk to `executed` bytes.
    pub(crate) fn of(program: &Program, executed: PageBytes) -> Result<Self, RuntimeError> {
        let planned = program.page_bytes;
        let scale = Self::between(planned, executed)?;
        let any = offsets(program).fold(0, |any, offset| any | offset);
        if any & (scale.ratio() - 1) != 0 {
            // Below the ratio, hence below the planned page over the smallest one.
            let divisor = 1 << any.trailing_zeros();
            return Err(RuntimeError::Indivisible {
                divisor,
                ratio: scale.ratio(),
                page_min: Bytes(planned.get() / divisor),
            });
        }
        Ok(scale)
    }

    fn between(planned: PageBytes, executed: PageBytes) -> Result<Self, RuntimeError> {
        let system = system_page();
        if executed > planned || executed.get() < system {
            return Err(RuntimeError::PageSize {
                planned: planned.get(),
                executed: executed.get(),
                system,
            });
        }
        let shift = planned.get().trailing_zeros() - executed.get().trailing_zeros();
        Ok(Self { executed, shift })
    }

    /// The executed page.
    pub(crate) const fn page(self) -> PageBytes {
        self.executed
    }

    /// Planned page over executed page.
    pub(crate) const fn ratio(self) -> u64 {
        1 << self.shift
    }

    /// An offset of the program.
    ///
    /// # Panics
    /// If it does not divide, which [`Self::of`] has ruled out.
    pub(crate) const fn offset(self, planned: u64) -> u64 {
        let executed = planned >> self.shift;
        assert!(
            executed << self.shift == planned,
            "the scale fits the program"
        );
        executed
    }

    /// A place of the program, with its offset as executed.
    pub(crate) const fn place(self, planned: Place) -> Place {
        Place {
            window: planned.window,
            offset: self.offset(planned.offset),
        }
    }

    /// An amount of bytes, rounded up.
    pub(crate) const fn bytes(self, planned: u64) -> u64 {
        planned.div_ceil(self.ratio())
    }
}

/// Every offset in a program: in windows, and in the spill tier.
fn offsets(program: &Program) -> impl Iterator<Item = u64> {
    let places = program.places.iter().map(|place| place.offset);
    let outs = program
        .outs
        .iter()
        .flat_map(|out| [out.source.offset, out.slot]);
    let ins = program
        .ins
        .iter()
        .flat_map(|r#in| [r#in.destination.offset, r#in.slot]);
    let homes = program.homes.iter();
    let homes = homes.flat_map(|home| [home.place.map(|place| place.offset), home.slot]);
    places.chain(outs).chain(ins).chain(homes.flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(bytes: u64) -> PageBytes {
        PageBytes::new(bytes).unwrap()
    }

    #[test]
    fn offsets_divide_and_bytes_round_up() {
        let scale = Scale::between(page(32 << 20), page(64 << 10)).unwrap();
        assert_eq!(scale.ratio(), 512);
        assert_eq!(scale.offset(1536), 3);
        assert_eq!(scale.offset(5 << 21), 5 << 12);
        for (planned, executed) in [(0, 0), (1, 1), (512, 1), (513, 2), ((2 << 20) + 1, 4097)] {
            assert_eq!(scale.bytes(planned), executed);
        }
    }

    #[test]
    #[should_panic(expected = "the scale fits the program")]
    fn an_indivisible_offset_is_a_bug() {
        let scale = Scale::between(page(64 << 20), page(64 << 10)).unwrap();
        let _ = scale.offset(512);
    }

    #[test]
    fn pages_between_system_and_plan_only() {
        let planned = page(1 << 16);
        assert!(Scale::between(planned, planned).is_ok());
        for executed in [1 << 17, system_page() / 2] {
            if let Ok(executed) = PageBytes::new(executed) {
                let scale = Scale::between(planned, executed);
                assert!(
                    matches!(scale, Err(RuntimeError::PageSize { .. })),
                    "{scale:?}"
                );
            }
        }
    }
}
