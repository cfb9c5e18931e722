//! Need: what an op needs at the least, and why there is no plan.

use vtensor::{Bytes, PageBytes};

use super::op_bytes;
use crate::demand::op_pages;
use crate::graph::Graph;
use crate::policy::Policy;
use crate::pool::Pool;
use crate::skeleton::Skeleton;

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The skeleton is not sound.
    #[error("the iteration cannot be planned: {0}")]
    Skeleton(String),
    /// The policy moves whole tensors to other addresses, and some may not change theirs.
    #[error(
        "policy `{policy}` gives tensors another address each time, but {count} may not change \
         theirs. Use `vtensor`, or another policy on pages"
    )]
    Fixed {
        /// The policy.
        policy: &'static str,
        /// How many tensors have fixed addresses.
        count: usize,
    },
    /// An op does not fit.
    #[error("{need}; the budget is {budget}. Give at least {}{}", need.all(), need.or_smaller())]
    OpTooLarge {
        /// What the op needs.
        need: Need,
        /// The budget.
        budget: Bytes,
    },
    /// Running ops again alone does not make do with the budget.
    #[error(
        "running ops again alone needs {least} and what rounding to pages takes, the budget is \
         {budget}. Let the rest move: methods `both`"
    )]
    NotByRecompute {
        /// Bytes live at the worst step when as much as can be is given up.
        least: Bytes,
        /// The budget.
        budget: Bytes,
    },
    /// Every op fits, but the policy finds no schedule, or its layout does not fit.
    #[error(
        "policy `{policy}` finds no plan for {budget}, though the largest op fits: {need}. Give \
         more memory, or try another policy{}", need.or_smaller()
    )]
    NoSchedule {
        /// The policy.
        policy: &'static str,
        /// What the largest op needs.
        need: Need,
        /// The budget.
        budget: Bytes,
    },
}

/// What an op needs, as the layout packs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Which op.
    pub op: u32,
    /// Its name.
    pub name: String,
    /// The bytes that it touches.
    pub touches: Bytes,
    /// The pages that these take.
    pub pages: u64,
    /// Pages of the pool, which is always there.
    pub pool_pages: u64,
    /// The page size, or the unit of a contiguous arena.
    pub page: PageBytes,
    /// Whether tensors lie in a contiguous arena, where the page size is all the same.
    pub contiguous: bool,
}

impl Need {
    /// What the op that needs the most pages needs.
    pub(super) fn largest(
        skeleton: &Skeleton,
        graph: &Graph<'_>,
        pool: &Pool,
        policy: Policy,
    ) -> Self {
        let needed = op_pages(graph);
        let largest = (0..needed.len()).max_by_key(|&op| (needed[op], core::cmp::Reverse(op)));
        let op = largest.expect("a checked skeleton has an op");
        Self {
            op: u32::try_from(op).expect("limits: at most 2^20 ops"),
            name: skeleton.ops[op].name.clone(),
            touches: op_bytes(skeleton, op),
            pages: u64::try_from(needed[op]).expect("pages are not negative"),
            pool_pages: u64::from(pool.pages(graph.page)),
            page: graph.page,
            contiguous: policy.is_contiguous(),
        }
    }

    /// Advice that helps tensors on pages only.
    const fn or_smaller(&self) -> &'static str {
        if self.contiguous {
            ""
        } else {
            ", or try smaller pages"
        }
    }

    /// The pages that it needs together with the pool.
    pub(super) fn all_pages(&self) -> u64 {
        self.pages + self.pool_pages
    }

    /// The smallest budget that the op fits into, in words.
    fn all(&self) -> String {
        let bytes = Bytes(self.all_pages().saturating_mul(self.page.get()));
        format!("{bytes} ({} bytes)", bytes.0)
    }
}

impl core::fmt::Display for Need {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self {
            op,
            name,
            touches,
            pages,
            pool_pages,
            page,
            contiguous,
        } = self;
        let all = self.all();
        if *contiguous {
            let touched = Bytes(pages * page.get());
            let small = Bytes(pool_pages * page.get());
            return write!(
                f,
                "op {op} `{name}` touches {touches}, which take {touched} together with {small} of \
                 small tensors: {all}"
            );
        }
        write!(
            f,
            "op {op} `{name}` touches {touches}, which take {pages} pages of {} together with \
             {pool_pages} pages of small tensors: {all}",
            Bytes(page.get()),
        )
    }
}
