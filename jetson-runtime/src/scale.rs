//! From the planned size to the executed size.
//!
//! In: the page of the plan and the page to execute with. Out: the numbers of the plan divided by
//! their ratio r, a power of two. Planning happens at full size, so a plan and its proof do not
//! depend on the machine that replays it; execution may be smaller.
//!
//! Guarantees: offsets and slots divide exactly or are refused; the bytes of a run round up, which
//! cannot run into a neighbour because every neighbour starts at a multiple of r. With r = 1
//! nothing changes. Limit: with r > 1 tensors are aligned to 512 / r bytes only.

use nix::unistd::{SysconfVar, sysconf};
use vtensor::PageBytes;

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
    planned: PageBytes,
    shift: u32,
}

impl Scale {
    /// The scale that turns pages of `planned` bytes into pages of `executed` bytes.
    pub(crate) fn new(planned: PageBytes, executed: PageBytes) -> Result<Self, RuntimeError> {
        let system = system_page();
        if executed > planned || executed.get() < system {
            return Err(RuntimeError::PageSize {
                planned: planned.get(),
                executed: executed.get(),
                system,
            });
        }
        Ok(Self {
            executed,
            planned,
            shift: planned.get().trailing_zeros() - executed.get().trailing_zeros(),
        })
    }

    /// The executed page.
    pub(crate) const fn page(self) -> PageBytes {
        self.executed
    }

    /// Planned page over executed page.
    pub(crate) const fn ratio(self) -> u64 {
        1 << self.shift
    }

    /// An offset, which must divide.
    pub(crate) fn offset(self, what: &'static str, planned: u64) -> Result<u64, RuntimeError> {
        let executed = planned >> self.shift;
        if executed << self.shift == planned {
            return Ok(executed);
        }
        let divisor = 1_u64 << planned.trailing_zeros();
        Err(RuntimeError::Indivisible {
            what,
            offset: planned,
            ratio: self.ratio(),
            page_min: PageBytes::new(self.planned.get() / divisor)
                .expect("the quotient lies between the executed and the planned page"),
        })
    }

    /// An amount of bytes, rounded up.
    pub(crate) const fn bytes(self, planned: u64) -> u64 {
        planned.div_ceil(self.ratio())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(bytes: u64) -> PageBytes {
        PageBytes::new(bytes).unwrap()
    }

    #[test]
    fn offsets_divide_and_bytes_round_up() {
        let scale = Scale::new(page(2 << 20), page(4096)).unwrap();
        assert_eq!(scale.ratio(), 512);
        assert_eq!(scale.offset("window", 1536).unwrap(), 3);
        assert_eq!(scale.offset("window", 5 << 21).unwrap(), 5 << 12);
        for (planned, executed) in [(0, 0), (1, 1), (512, 1), (513, 2), ((2 << 20) + 1, 4097)] {
            assert_eq!(scale.bytes(planned), executed);
        }
    }

    #[test]
    fn the_advice_for_an_indivisible_offset_works() {
        let planned = page(4 << 20);
        let error = Scale::new(planned, page(4096)).unwrap().offset("w", 512);
        let Err(RuntimeError::Indivisible {
            page_min,
            ratio: 1024,
            ..
        }) = error
        else {
            panic!("{error:?}");
        };
        assert_eq!(
            Scale::new(planned, page_min)
                .unwrap()
                .offset("w", 512)
                .unwrap(),
            1
        );
    }

    #[test]
    fn pages_between_system_and_plan_only() {
        let planned = page(1 << 16);
        assert!(Scale::new(planned, planned).is_ok());
        for executed in [1 << 17, system_page() / 2] {
            if let Ok(executed) = PageBytes::new(executed) {
                let scale = Scale::new(planned, executed);
                assert!(
                    matches!(scale, Err(RuntimeError::PageSize { .. })),
                    "{executed:?}"
                );
            }
        }
    }
}
