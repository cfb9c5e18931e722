//! What the machine refuses: limits of the kernel, directories, disks.

use std::env;
use std::fs;
use std::path::PathBuf;

use lgm::plan::Plan;
use vtensor::{Bytes, PageBytes};

use super::model::Model;
use super::{freeze, plans};
use crate::window_map::mappings_now;
use crate::{MapLimits, Options, RuntimeError, Spill};

/// An empty directory of this test's own.
fn directory(name: &str) -> PathBuf {
    let path = env::temp_dir().join(format!("vtensor-test-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

fn refused(plan: &Plan, options: &Options) -> RuntimeError {
    match freeze(plan, options) {
        Ok(_) => panic!("{options:?} should be refused"),
        Err(error) => error,
    }
}

#[test]
fn too_many_mappings_are_refused_before_any_is_made() {
    let plan = plans::rotation(plans::PAGE, 400, 200);
    let limit = mappings_now() + 2048 + 200;
    let limits = MapLimits {
        mappings_max: Some(limit),
        ..MapLimits::default()
    };
    let before = mappings_now();
    let error = refused(
        &plan,
        &Options {
            limits,
            ..Options::default()
        },
    );
    let RuntimeError::Mappings {
        needed: 400,
        limit: found,
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(found, limit);
    assert!(error.to_string().contains("larger pages"), "{error}");
    // Other tests run beside this one and map a little.
    assert!(mappings_now() < before + 200);
}

#[test]
fn guards_are_left_out_where_mappings_are_short() {
    let plan = plans::rotation(plans::PAGE, 400, 200);
    let full = freeze(&plan, &Options::default()).unwrap();
    assert_eq!(full.stats().mappings, 400 + 201);
    drop(full);
    let mappings_max = Some(mappings_now() + 2048 + 500);
    let limits = MapLimits {
        mappings_max,
        ..MapLimits::default()
    };
    let mut bare = freeze(
        &plan,
        &Options {
            limits,
            ..Options::default()
        },
    )
    .unwrap();
    assert_eq!(bare.stats().mappings, 400);
    assert_eq!(bare.stats().virtual_bytes, Bytes(400 * 4096));
    Model::new(&plan).iteration(&mut bare).unwrap();
}

#[test]
fn too_much_virtual_memory_is_refused() {
    let plan = plans::swap(plans::PAGE);
    let limits = MapLimits {
        virtual_bytes_max: Some(Bytes(4 * 4096)),
        ..MapLimits::default()
    };
    let error = refused(
        &plan,
        &Options {
            limits,
            ..Options::default()
        },
    );
    assert!(
        matches!(
            error,
            RuntimeError::VirtualMemory {
                limit: Bytes(16384),
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_scale_that_breaks_the_plan_is_refused_with_advice() {
    let mut plan = plans::shared_page(2 << 20);
    let options = |page| Options {
        executed_page: Some(PageBytes::new(page).unwrap()),
        ..Options::default()
    };
    freeze(&plan, &options(4096)).unwrap();
    let error = refused(&plan, &options(4 << 20));
    assert!(matches!(error, RuntimeError::PageSize { .. }), "{error}");
    plan.program.page_bytes = PageBytes::new(4 << 20).unwrap();
    let error = refused(&plan, &options(4096));
    let RuntimeError::Indivisible { page_min, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(page_min.get(), 8192);
}

#[test]
fn an_arena_beyond_memory_is_refused() {
    let mut plan = plans::swap(1 << 30);
    plan.program.arena_pages = 1 << 20;
    let error = refused(&plan, &Options::default());
    assert!(matches!(error, RuntimeError::Memory { .. }), "{error}");
}

#[test]
fn foreign_directories_are_refused() {
    let plan = plans::swap(plans::PAGE);
    let missing = directory("missing").join("none");
    let file = directory("file").join("file");
    fs::write(&file, "").unwrap();
    // A directory in which nobody, not even the administrator, can make files.
    let unwritable = PathBuf::from("/proc/self");
    for path in [missing, file, unwritable] {
        let spill = Spill::File(path.clone());
        let error = refused(
            &plan,
            &Options {
                spill,
                ..Options::default()
            },
        );
        let RuntimeError::SpillFile { directory, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(*directory, path);
        assert!(
            error.to_string().contains("a directory that exists"),
            "{error}"
        );
    }
}

#[test]
fn a_full_disk_is_an_error_at_freeze() {
    let mut plan = plans::swap(plans::PAGE);
    plan.program.spill_bytes = Bytes(1 << 49);
    let path = directory("full");
    let spill = Spill::File(path.clone());
    let error = refused(
        &plan,
        &Options {
            spill,
            ..Options::default()
        },
    );
    let RuntimeError::SpillSpace {
        needed: Bytes(needed),
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(needed, 1 << 49);
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    let error = refused(&plan, &Options::default());
    assert!(matches!(error, RuntimeError::Memory { .. }), "{error}");
}

#[test]
fn a_spill_file_has_no_name_while_it_is_used() {
    let plan = plans::rotation(plans::PAGE, 12, 3);
    let path = directory("unnamed");
    let spill = Spill::File(path.clone());
    let mut frozen = freeze(
        &plan,
        &Options {
            spill,
            ..Options::default()
        },
    )
    .unwrap();
    let mut model = Model::new(&plan);
    for _ in 0..10 {
        model.iteration(&mut frozen).unwrap();
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    }
    assert!(frozen.usage().unwrap().spill_allocated >= plan.program.spill_bytes);
    drop(frozen);
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
}

#[test]
fn the_arena_never_holds_more_than_the_budget() {
    let plan = plans::rotation(plans::PAGE, 12, 3);
    for lazy_page_tables in [false, true] {
        let options = Options {
            lazy_page_tables,
            ..Options::default()
        };
        let mut frozen = freeze(&plan, &options).unwrap();
        let budget = Bytes(6 * 4096);
        assert_eq!(frozen.arena_bytes(), budget);
        let mut model = Model::new(&plan);
        for _ in 0..20 {
            assert_eq!(frozen.usage().unwrap().arena_allocated, budget);
            model.iteration(&mut frozen).unwrap();
        }
        assert_eq!(frozen.usage().unwrap().arena_allocated, budget);
    }
}
