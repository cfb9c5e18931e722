//! Creation: tensors begin and end, outside of iterations and inside.
//!
//! Guarantees: what is refused leaves nothing behind. In a frozen iteration a creation or
//! destruction that was recorded next costs one comparison.

use std::sync::Arc;

use vtensor::limits;

use super::place::Place;
use super::runtime::Runtime;
use super::score::{Event, Spec};
use super::tensor::{Key, Tensor, TensorDesc};
use super::track::Track;
use crate::error::RuntimeError;

impl Runtime {
    /// Creates a tensor: outside of iterations one that lasts until it is destroyed; inside, one of
    /// the iteration. The latter must be created in the same order each time and destroyed before
    /// the iteration ends; what is left then becomes persistent (as lazily made optimizer state).
    /// A persistent tensor reads as zeroes until it is written.
    ///
    /// # Errors
    /// If it has no bytes or too many, or an op is open; if it is to stay in the arena for good,
    /// [`Config::keep`], and there is no room for it.
    ///
    /// [`Config::keep`]: super::Config::keep
    pub fn create(&mut self, desc: &TensorDesc<'_>) -> Result<Tensor, RuntimeError> {
        let advice = match desc.bytes.0 {
            0 => Some("a tensor has bytes"),
            bytes if bytes > limits::TENSOR_BYTES_MAX => Some("at most 2^43 are supported"),
            _ if desc.name.len() > limits::NAME_BYTES_MAX => Some("take a shorter name"),
            _ => None,
        };
        if let Some(advice) = advice {
            return Err(RuntimeError::TensorDesc {
                bytes: desc.bytes.0,
                name_bytes: desc.name.len(),
                advice,
            });
        }
        if !matches!(self.place, Place::Rest) {
            return self.create_transient(desc);
        }
        let spec = Spec::new(desc);
        let key = self.holdings.registry.create(spec.clone());
        let seated = self.holdings.seat(key, &spec);
        self.holdings.heap.admit(key, &spec);
        if let Err(error) = seated.and_then(|()| self.holdings.keep(key)) {
            self.holdings.heap.forget(key);
            self.holdings.heap.seats.remove(key);
            self.holdings.registry.destroy(key);
            return Err(error);
        }
        Ok(key.handle(0))
    }

    /// Destroys a tensor. Programs that use it are forgotten.
    ///
    /// # Errors
    /// If there is no such tensor, an op is open, or a persistent one is destroyed inside an
    /// iteration.
    pub fn destroy(&mut self, tensor: Tensor) -> Result<(), RuntimeError> {
        if !matches!(self.place, Place::Rest) {
            return self.destroy_inside(tensor);
        }
        let key = self.holdings.registry.resolve(tensor)?;
        let uses = |track: &Track| {
            let program = track.program.as_ref();
            program.is_some_and(|program| program.id(key).is_some())
                || track.score.persistent().contains(&key)
        };
        let holdings = &mut self.holdings;
        let active = holdings.active.map(|active| &holdings.tracks[active]);
        if active.is_some_and(uses) {
            holdings.vacate()?;
        }
        for track in holdings.tracks.iter_mut().filter(|track| uses(track)) {
            track.forget();
        }
        holdings.discard_pin(key)?;
        holdings.heap.forget(key);
        holdings.heap.seats.remove(key);
        holdings.registry.destroy(key);
        Ok(())
    }

    /// Creates a tensor of the iteration.
    fn create_transient(&mut self, desc: &TensorDesc<'_>) -> Result<Tensor, RuntimeError> {
        self.end_touch()?;
        if let Place::Replaying(cursor) = &mut self.place {
            let events = &self.holdings.tracks[cursor.track].score.events;
            let next = events.get(cursor.event);
            if !cursor.open && matches!(next, Some(Event::Create(spec)) if spec.is(desc)) {
                let key = Key::transient(cursor.created);
                cursor.event += 1;
                cursor.created += 1;
                return Ok(key.handle(self.holdings.registry.serial));
            }
            self.place.between("create")?;
            self.diverge(&|| Event::Create(Spec::new(desc)).to_string());
        }
        self.place.between("create")?;
        let spec = Spec::new(desc);
        let key = self.holdings.registry.create_transient(spec.clone());
        if let Err(error) = self.holdings.seat(key, &spec) {
            self.holdings.registry.destroy_newest();
            return Err(error);
        }
        self.holdings.heap.admit(key, &spec);
        if let Place::Recording(recording) = &mut self.place {
            if let Some(seat) = self.holdings.heap.seats.get(key) {
                recording.seats.insert(key, Arc::clone(seat));
            }
            recording.score.events.push(Event::Create(spec));
        }
        Ok(key.handle(self.holdings.registry.serial))
    }

    /// Destroys a tensor of the iteration.
    fn destroy_inside(&mut self, tensor: Tensor) -> Result<(), RuntimeError> {
        self.end_touch()?;
        if let Place::Replaying(cursor) = self.place {
            let events = &self.holdings.tracks[cursor.track].score.events;
            let next = events.get(cursor.event);
            let registry = &self.holdings.registry;
            let same = matches!(next, Some(Event::Destroy(key)) if registry.is(*key, tensor));
            if let (Place::Replaying(cursor), true, false) = (&mut self.place, same, cursor.open) {
                cursor.event += 1;
                return Ok(());
            }
            self.place.between("destroy")?;
            self.holdings.check_destroy(cursor, tensor)?;
            self.diverge(&|| format!("destruction of {tensor:?}"));
        }
        self.place.between("destroy")?;
        let key = self.holdings.registry.resolve(tensor)?;
        self.holdings.check_passing(key)?;
        self.holdings.registry.destroy(key);
        self.holdings.heap.forget(key);
        if let Place::Recording(recording) = &mut self.place {
            recording.score.events.push(Event::Destroy(key));
        }
        Ok(())
    }
}
