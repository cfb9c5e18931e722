//! Numbers with a meaning. Each id counts from 0 inside the table that it indexes.

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash,
            Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The id of row `row` of a table.
            ///
            /// # Panics
            /// If the table has more than `u32::MAX` rows; readers refuse such tables.
            #[must_use]
            pub const fn from_index(row: usize) -> Self {
                assert!(row <= u32::MAX as usize, "tables hold at most 2^32 rows");
                #[allow(clippy::cast_possible_truncation)]
                Self(row as u32)
            }

            /// The row of a table.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id!(
    /// A tensor of a skeleton.
    TensorId
);
id!(
    /// An op of the application's iteration.
    OpIndex
);
id!(
    /// A step of a program. Steps are not ops: a program may have steps of its own.
    StepIndex
);
id!(
    /// A window of a layout.
    WindowId
);
id!(
    /// A page of the arena.
    PageIndex
);
