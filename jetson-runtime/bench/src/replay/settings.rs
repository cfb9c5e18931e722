//! How to execute a plan, and at which size.

use std::num::NonZeroU32;

use jetson_runtime::{Options, Spill, StorageOptions, Throttle};
use lgm::plan::Plan;
use nix::unistd::{SysconfVar, sysconf};
use vtensor::{Bytes, PageBytes, limits};

use crate::watch::{ENGINES, SLACK_BYTES};

/// What the seal of a block of a spill file takes in memory: the number of its write, and its tag.
const SEAL_BYTES: u64 = 24;

/// How to execute a plan.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where pieces go.
    pub spill: Spill,
    /// How a spill file is used. At a smaller scale it goes through the page cache, unsealed: its
    /// pieces are smaller than any block.
    pub storage: StorageOptions,
    /// Training steps.
    pub steps: NonZeroU32,
    /// Executed size over planned size, above 0 and at most 1; see [`Executed::page_of`].
    pub scale: f64,
    /// Whether each op takes at least its duration, and each copy its time on the link.
    pub paced: bool,
    /// What these times are multiplied by.
    pub time_scale: f64,
    /// Whether copies take that time although the ops do not.
    pub throttled: bool,
    /// Whether to check what the process holds. It must do nothing else meanwhile.
    pub watch_process: bool,
    /// Whether page tables are filled as pages are used, not before: for a few quick steps.
    pub lazy_page_tables: bool,
}

impl Settings {
    /// Three steps in RAM at the smallest size, as fast as they go.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            spill: Spill::Ram,
            storage: StorageOptions::default(),
            steps: const { NonZeroU32::new(3).expect("3 is not 0") },
            scale: f64::MIN_POSITIVE,
            paced: false,
            time_scale: 1.0,
            throttled: false,
            watch_process: false,
            lazy_page_tables: true,
        }
    }

    /// What the process may hold beside arena and spill tier, which has so many bytes. A spill file
    /// has buffers for the engines and for reading and writing between iterations, and seals.
    pub(super) fn slack(&self, spill: Bytes) -> u64 {
        let beside = match self.spill {
            Spill::File(_) => {
                let seals = spill.0.div_ceil(limits::SLOT_ALIGN) * SEAL_BYTES;
                (ENGINES + 1) * self.storage.buffer_bytes() + seals
            }
            Spill::Ram => 0,
        };
        SLACK_BYTES + beside
    }

    pub(super) fn options(&self, plan: &Plan) -> Options {
        let paced = self.paced || self.throttled;
        Options {
            executed_page: Some(Executed::page_of(plan.program.page_bytes, self.scale)),
            spill: self.spill.clone(),
            storage: self.storage,
            throttle: paced.then(|| Throttle::of(&plan.profile.link, self.time_scale)),
            lazy_page_tables: self.lazy_page_tables,
            ..Options::default()
        }
    }
}

/// The size at which a plan is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Executed {
    /// Of a page.
    pub page: PageBytes,
    /// Of the arena.
    pub arena: Bytes,
    /// Of the spill tier.
    pub spill: Bytes,
}

impl Executed {
    /// The page that executes a planned page at a scale: page × scale, rounded down to a power of
    /// two, but at least the system's page, and large enough that tensors aligned to 512 bytes in
    /// the plan are still apart.
    #[must_use]
    pub fn page_of(planned: PageBytes, scale: f64) -> PageBytes {
        let least = system_page().max(planned.get() / limits::TENSOR_ALIGN);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let wanted = (planned.get() as f64 * scale) as u64;
        let wanted = wanted.max(1);
        let power = 1 << (u64::BITS - 1 - wanted.leading_zeros());
        // A system's page above the planned one is refused by the runtime, with the reason.
        PageBytes::new(least.max(power).min(planned.get())).unwrap_or(planned)
    }
}

fn system_page() -> u64 {
    match sysconf(SysconfVar::PAGE_SIZE) {
        Ok(Some(bytes)) => u64::try_from(bytes).unwrap_or(PageBytes::MIN.get()),
        _ => PageBytes::MIN.get(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_shrink_to_the_systems_page_and_no_further() {
        let page = |planned: u64, scale| {
            let planned = PageBytes::new(planned).expect("a page");
            Executed::page_of(planned, scale).get()
        };
        let least = system_page();
        assert_eq!(page(2 << 20, 1.0), 2 << 20);
        assert_eq!(page(2 << 20, 1.0 / 16.0), 128 << 10);
        assert_eq!(page(2 << 20, 0.3), 512 << 10, "rounded down");
        assert_eq!(page(2 << 20, 1e-9), least);
        assert_eq!(page(2 << 20, f64::MIN_POSITIVE), least);
        assert_eq!(page(16 << 20, 1e-9), (32 << 10).max(least));
        assert_eq!(page(least, 1e-9), least);
    }
}
