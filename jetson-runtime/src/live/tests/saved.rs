//! Programs that are saved and loaded, and tensors that are pinned.

use vtensor::{Bytes, TensorKind};

use super::{App, TRAIN, app, config, step, unit};
use crate::error::RuntimeError;
use crate::live::TensorDesc;

fn recorded() -> Vec<u8> {
    let mut app = app(config(116 * unit()));
    for _ in 0..3 {
        app.iteration(TRAIN, |app| step(app, 2));
    }
    app.runtime.save_plan(TRAIN).unwrap()
}

fn refused(app: &mut App, file: &[u8]) -> String {
    app.runtime.load_plan(TRAIN, file).unwrap_err().to_string()
}

#[test]
fn a_loaded_program_is_frozen_from_the_first_iteration_on() {
    let file = recorded();
    let mut app = app(config(116 * unit()));
    app.write(0, 0, 12 * unit());
    app.runtime.load_plan(TRAIN, &file).unwrap();
    for _ in 0..3 {
        app.iteration(TRAIN, |app| step(app, 2));
    }
    app.read_all();
    let stats = app.runtime.stats();
    assert_eq!((stats.recorded_iterations, stats.frozen_iterations), (0, 3));
    assert_eq!(
        app.runtime.save_plan(TRAIN).unwrap(),
        file,
        "and can be saved again"
    );
    let predicted = app.runtime.programs()[0].predicted_ns;
    assert!(predicted.unwrap() > 0);
}

#[test]
fn a_program_that_does_not_fit_is_refused() {
    let file = recorded();
    let mut empty = App::new(config(116 * unit()));
    assert!(refused(&mut empty, &file).contains("create the tensors of the recording"));
    let mut other = App::new(config(116 * unit()));
    for name in ["momentum", "weight", "input", "loss"] {
        other.create_kept(&TensorDesc::new(
            name,
            Bytes(12 * unit() + 40),
            TensorKind::Buffer,
        ));
    }
    assert!(refused(&mut other, &file).contains(&format!(
        "was \"input\" of {} bytes, here it is",
        8 * unit()
    )));
    // A budget that is too small shows when the iteration begins: it runs on demand.
    let mut small = app(config(100 * unit()));
    small.runtime.load_plan(TRAIN, &file).unwrap();
    small.iteration(TRAIN, |app| step(app, 2));
    small.read_all();
    let refusal = small.runtime.programs()[0].refusal.clone();
    assert!(
        refusal
            .unwrap()
            .contains(&format!("the arena has {} to give", Bytes(100 * unit())))
    );
}

#[test]
fn damaged_programs_are_refused() {
    let file = recorded();
    let mut app = app(config(116 * unit()));
    assert!(refused(&mut app, b"hello").contains("it is no program file"));
    assert!(refused(&mut app, b"").contains("it is no program file"));
    for cut in 0..file.len() {
        assert!(
            app.runtime.load_plan(TRAIN, &file[..cut]).is_err(),
            "cut at {cut}"
        );
    }
    let longer = [&file[..], &[0]].concat();
    assert!(refused(&mut app, &longer).contains("1 bytes after its end"));
    let mut accepted = 0;
    for at in 0..file.len() {
        let mut changed = file.clone();
        changed[at] ^= 1 << (at % 8);
        // The plan has a digest; of the score only what changes no access may pass.
        if app.runtime.load_plan(TRAIN, &changed).is_ok() {
            accepted += 1;
            app.iteration(TRAIN, |app| step(app, 2));
            app.read_all();
        }
    }
    assert!(accepted < file.len() / 20, "{accepted} of {}", file.len());
}

#[test]
fn pinned_tensors_keep_their_address_and_their_content() {
    let mut app = app(config(160 * unit()));
    app.write(0, 0, 12 * unit());
    let weight = app.kept[0];
    let address = app.runtime.pin(weight).unwrap();
    assert_eq!(app.runtime.pin(weight).unwrap(), address);
    for iteration in 0..6 {
        app.addresses.clear();
        app.iteration(TRAIN, |app| step(app, 2));
        let used = app
            .addresses
            .iter()
            .filter(|at| **at == address.as_ptr() as usize);
        assert_eq!(used.count(), 2, "iteration {iteration}");
        app.write(0, 5, 100);
        app.read_all();
        // SAFETY: the tensor is pinned, and no op is open.
        let bytes = unsafe { std::slice::from_raw_parts(address.as_ptr(), 12 * unit() as usize) };
        assert!(bytes == &app.model[&weight][..bytes.len()]);
    }
    assert!(app.runtime.stats().frozen_iterations > 2);
    let (pages, page) = app.runtime.programs()[0].arena.unwrap();
    assert!(
        u64::from(pages) * page.0 <= (160 - 12) * unit() - 512,
        "the pin is not planned with"
    );
    app.runtime.unpin(weight).unwrap();
    app.runtime.unpin(weight).unwrap();
    app.read_all();
    for _ in 0..3 {
        app.iteration(TRAIN, |app| step(app, 2));
    }
    app.read_all();
}

#[test]
fn pins_take_from_the_budget_and_are_refused_beyond_it() {
    let mut app = app(config(64 * unit()));
    for name in ["one", "two", "three"] {
        app.create_kept(&TensorDesc::new(
            name,
            Bytes(30 * unit()),
            TensorKind::Buffer,
        ));
    }
    let [one, two, three] = [4, 5, 6].map(|at| app.kept[at]);
    let [first, second] = [one, two].map(|tensor| app.runtime.pin(tensor).unwrap());
    assert!(second < first);
    let error = app.runtime.pin(three).unwrap_err();
    assert!(matches!(error, RuntimeError::PinTooLarge { .. }), "{error}");
    app.runtime.unpin(one).unwrap();
    assert_eq!(app.runtime.pin(three).unwrap(), first, "the gap is used");
    app.destroy_kept(5);
    app.read_all();
    app.runtime.iteration_begin(TRAIN).unwrap();
    assert!(app.runtime.pin(one).is_err() && app.runtime.unpin(three).is_err());
    app.abort();
}
