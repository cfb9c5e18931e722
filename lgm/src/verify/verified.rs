//! A plan that holds.

use core::ops::Deref;

use crate::plan::Plan;

use super::{Facts, Violation, verify_plan};

/// A plan whose program was proven against its skeleton. There is no other way to get one, so
/// who holds it may run it. It cannot be changed.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifiedPlan {
    plan: Plan,
    facts: Facts,
}

impl VerifiedPlan {
    /// Proves a plan.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn new(plan: Plan) -> Result<Self, Violation> {
        let facts = verify_plan(&plan)?;
        Ok(Self { plan, facts })
    }

    /// What the proof found out.
    #[must_use]
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The plan, to be changed; it must be proven again.
    #[must_use]
    pub fn into_inner(self) -> Plan {
        self.plan
    }
}

impl Deref for VerifiedPlan {
    type Target = Plan;
    fn deref(&self) -> &Plan {
        &self.plan
    }
}

impl AsRef<Plan> for VerifiedPlan {
    fn as_ref(&self) -> &Plan {
        &self.plan
    }
}
