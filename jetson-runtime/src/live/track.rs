//! A track: what is known of one kind of iteration.

use std::collections::BTreeSet;

use lgm::verify::VerifiedPlan;
use vtensor::Bytes;

use super::program::Program;
use super::program_file::Loaded;
use super::score::Score;
use super::seats::Seats;
use super::tensor::ProgramKey;

/// Recorded durations that are kept.
const SAMPLES_MAX: usize = 9;
/// Durations are kept to this many significant bits: what is below is noise.
const SIGNIFICANT_BITS: u32 = 7;

/// One kind of iteration.
pub(super) struct Track {
    pub(super) key: ProgramKey,
    /// What it did last.
    pub(super) score: Score,
    /// The durations of the ops in the last iterations that were equal, in nanoseconds.
    samples: Vec<Vec<u64>>,
    /// Equal iterations in a row.
    pub(super) repeats: u32,
    pub(super) program: Option<Program>,
    /// Addresses of the iteration's own tensors that keep theirs, as they were last.
    pub(super) seats: Seats,
    /// A plan that was loaded for the score.
    pub(super) loaded: Option<VerifiedPlan>,
    /// Ops that may not run again although the application said so, by number.
    pub(super) once: BTreeSet<usize>,
    /// Whether what may run again was checked ([`Config::check_replays`]).
    ///
    /// [`Config::check_replays`]: super::Config::check_replays
    pub(super) checked: bool,
    /// Why there is no program, although the iterations are equal.
    pub(super) refusal: Option<String>,
    /// What the last iteration on demand took.
    pub(super) on_demand: OnDemand,
}

/// What an iteration on demand took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OnDemand {
    /// Bytes that went to the spill tier.
    pub(super) written: Bytes,
    /// The time of its ops and copies.
    pub(super) ns: u64,
}

impl Track {
    pub(super) fn new(key: ProgramKey) -> Self {
        Self {
            key,
            score: Score {
                events: Vec::new(),
                kept: Vec::new(),
            },
            once: BTreeSet::new(),
            checked: false,
            samples: Vec::new(),
            repeats: 0,
            program: None,
            seats: Seats::default(),
            loaded: None,
            refusal: None,
            on_demand: OnDemand::default(),
        }
    }

    /// Takes a recorded iteration in.
    pub(super) fn note(&mut self, score: Score, durations_ns: Vec<u64>) {
        if self.repeats == 0 || score != self.score {
            self.forget();
            self.score = score;
        }
        self.repeats = self.repeats.saturating_add(1);
        if self.samples.len() == SAMPLES_MAX {
            self.samples.remove(0);
        }
        self.samples.push(durations_ns);
    }

    /// Takes a loaded program in, as if it had been recorded.
    pub(super) fn load(&mut self, loaded: Loaded, repeats: u32) {
        self.forget();
        self.score = loaded.score;
        self.samples.push(loaded.durations_ns);
        self.loaded = Some(loaded.plan);
        self.once = loaded.once;
        self.repeats = repeats;
    }

    /// Takes the findings of a check in: ops that did not leave the same bits again.
    pub(super) fn note_check(&mut self, once: BTreeSet<usize>) {
        self.once.extend(once);
        self.checked = true;
    }

    /// The names of ops that are declared to run again and may not.
    pub(super) fn excluded(&self) -> Vec<String> {
        let ops = self.score.ops().enumerate();
        let excluded = ops.filter(|(number, op)| op.replayable && self.once.contains(number));
        excluded.map(|(_, op)| op.name.to_string()).collect()
    }

    /// Forgets what was recorded, and the program.
    pub(super) fn forget(&mut self) {
        *self = Self::new(self.key);
    }

    /// The median duration of each op, quantised.
    pub(super) fn durations_ns(&self) -> Vec<u64> {
        let ops = self.samples.first().map_or(0, Vec::len);
        let median = |op: usize| {
            let mut times: Vec<u64> = self.samples.iter().map(|sample| sample[op]).collect();
            times.sort_unstable();
            quantised(times[(times.len() - 1) / 2])
        };
        (0..ops).map(median).collect()
    }
}

/// Rounds to a few significant bits.
const fn quantised(ns: u64) -> u64 {
    let bits = u64::BITS - ns.leading_zeros();
    if bits <= SIGNIFICANT_BITS {
        return ns;
    }
    let shift = bits - SIGNIFICANT_BITS;
    ((ns >> (shift - 1)).div_ceil(2)) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_quantised_medians() {
        assert_eq!(
            [0, 1, 127, 128, 129, 1001].map(quantised),
            [0, 1, 127, 128, 130, 1000]
        );
        let mut track = Track::new(ProgramKey(1));
        for ns in [1000, 90, 100, 5000] {
            track.note(Score::default(), vec![ns]);
        }
        assert_eq!((track.durations_ns(), track.repeats), (vec![100], 4));
        for _ in 0..20 {
            track.note(Score::default(), vec![7]);
        }
        assert_eq!(track.durations_ns(), [7], "old samples are forgotten");
    }
}
