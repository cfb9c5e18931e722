//! Divergences: an iteration leaves what was recorded, and its program stops right there (B4).
//!
//! Guarantees: an iteration that goes on does so as a recording, with the same tensors and bytes.

use std::sync::Arc;

use tracing::warn;

use super::place::Place;
use super::recording::Recording;
use super::report::Divergence;
use super::runtime::Runtime;
use super::score::Event;
use super::seats::Seats;
use super::switching::Then;

/// Divergences that are kept in full.
const DIVERGENCES_MAX: usize = 16;

impl Runtime {
    /// Stops the running program: the iteration goes on as a recording, with the same bytes, or is
    /// given up with all its own tensors. Answers what was lost.
    pub(super) fn stop_program(&mut self, then: Then) -> Vec<String> {
        let Place::Replaying(cursor) = self.place else {
            unreachable!("the caller looked");
        };
        let holdings = &mut self.holdings;
        let track = &holdings.tracks[cursor.track];
        let events = track.score.events[..cursor.event].to_vec();
        let durations_ns = track.durations_ns()[..cursor.op].to_vec();
        let program = track.program.as_ref().expect("it runs");
        let mut seats = Seats::default();
        for event in &events {
            match event {
                Event::Create(spec) => {
                    let key = holdings.registry.create_transient(spec.clone());
                    if let Some(seat) = program.seats.get(key) {
                        seats.insert(key, Arc::clone(seat));
                        holdings.heap.seats.insert(key, Arc::clone(seat));
                    }
                    holdings.heap.admit(key, spec);
                }
                Event::Destroy(key) => {
                    holdings.registry.destroy(*key);
                    holdings.heap.forget(*key);
                }
                Event::Op(_) => {}
            }
        }
        let lost = holdings.halt(cursor.track, then);
        let mut recording = Recording::new(cursor.track, false, self.holdings.heap.moved);
        recording.score.events = events;
        recording.durations_ns = durations_ns;
        recording.seats = seats;
        self.place = Place::Recording(recording);
        lost
    }

    /// The iteration leaves what was recorded: it goes on on demand.
    #[cold]
    pub(super) fn diverge(&mut self, found: &dyn Fn() -> String) {
        let Place::Replaying(cursor) = self.place else {
            unreachable!("only a program can be left");
        };
        let track = &self.holdings.tracks[cursor.track];
        let recorded = track.score.events.get(cursor.event);
        let recorded = recorded.map_or_else(|| "its end".into(), ToString::to_string);
        let key = track.key;
        let lost = self.stop_program(Then::GoesOn);
        let stats = &mut self.holdings.stats;
        let divergence = Divergence {
            key,
            iteration: stats.recorded_iterations + stats.frozen_iterations,
            call: cursor.event,
            recorded,
            found: found(),
            lost,
        };
        warn!("{divergence}");
        stats.divergences += 1;
        if self.divergences.len() < DIVERGENCES_MAX {
            self.divergences.push(divergence);
        }
    }
}
