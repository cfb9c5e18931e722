//! Tricks: what the planner does beyond the simplest that works, each of which can be left out.
//!
//! So that it can be measured what each is worth; the numbers are in `ARCHITECTURE.md`. Without any
//! of them there is still a sound plan, but a slower one, or none where memory is tight.

/// Which tricks the planner uses; by default all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tricks {
    /// Tensors share pages (`share`).
    pub share: bool,
    /// Several ways to share pages are tried (`planner/ground`).
    pub grounds: bool,
    /// Select as if there were less memory, so that copies in find room (`policy/search`).
    pub headroom: bool,
    /// Copies in are not released long before they are needed (`policy/leads`).
    pub leads: bool,
    /// Good schedules are changed where they wait (`policy/local`).
    pub local: bool,
    /// Copies of different sizes are tried (`policy/search`).
    pub sizes: bool,
    /// Pages go to those that wait for what frees them anyway (`layout/colouring`).
    pub known: bool,
    /// Whole tensors in a contiguous arena, if the budget is few pages (`planner/portfolio`).
    pub packed: bool,
    /// `portfolio` looks at what published policies choose (`planner/portfolio`).
    pub seeds: bool,
    /// Several layouts of a schedule are compared (`layout`).
    pub layouts: bool,
}

impl Default for Tricks {
    fn default() -> Self {
        Self {
            share: true,
            grounds: true,
            headroom: true,
            leads: true,
            local: true,
            sizes: true,
            known: true,
            packed: true,
            seeds: true,
            layouts: true,
        }
    }
}

impl Tricks {
    /// The names of all tricks, as the fields have them.
    pub const NAMES: [&str; 10] = [
        "share", "grounds", "headroom", "leads", "local", "sizes", "known", "packed", "seeds",
        "layouts",
    ];

    /// All but one, by its name; `None` if there is no such trick.
    #[must_use]
    pub fn without(name: &str) -> Option<Self> {
        let mut tricks = Self::default();
        let trick = match name {
            "share" => &mut tricks.share,
            "grounds" => &mut tricks.grounds,
            "headroom" => &mut tricks.headroom,
            "leads" => &mut tricks.leads,
            "local" => &mut tricks.local,
            "sizes" => &mut tricks.sizes,
            "known" => &mut tricks.known,
            "packed" => &mut tricks.packed,
            "seeds" => &mut tricks.seeds,
            "layouts" => &mut tricks.layouts,
            _ => return None,
        };
        *trick = false;
        Some(tricks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trick_can_be_left_out_alone() {
        let debug = format!("{:?}", Tricks::default());
        let names = debug
            .split(['{', ',', '}'])
            .filter_map(|field| field.split_once(':'));
        let mut seen = vec![Tricks::default()];
        let names: Vec<&str> = names.map(|(name, _)| name.trim()).collect();
        assert_eq!(names, Tricks::NAMES);
        for name in names {
            let without = Tricks::without(name).expect("each field has a name");
            assert!(!seen.contains(&without), "{name}");
            seen.push(without);
        }
        assert_eq!(Tricks::without("none of them"), None);
    }
}
