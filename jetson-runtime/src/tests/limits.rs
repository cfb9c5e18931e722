//! What the machine refuses: limits of the kernel, directories, disks.

use std::fs;
use std::path::PathBuf;

use lgm::plan::Plan;
use lgm::verify::VerifiedPlan;
use vtensor::{Bytes, PageBytes};

use super::model::Model;
use super::{freeze, plans};
use crate::{MapLimits, Options, Planned, RuntimeError, Spill};

/// An empty directory of a test's own, gone after it.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = super::disk().join(format!("vtensor-test-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn spill(&self) -> Spill {
        Spill::File(self.0.clone())
    }

    fn files(&self) -> usize {
        fs::read_dir(&self.0).unwrap().count()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn refused(plan: &Plan, options: &Options) -> RuntimeError {
    match freeze(plan, options) {
        Ok(_) => panic!("{options:?} should be refused"),
        Err(error) => error,
    }
}

#[test]
fn too_many_mappings_are_refused_before_anything_is_taken() {
    let plan = plans::swap(plans::page());
    let limits = MapLimits {
        mappings_max: Some(100),
        ..MapLimits::default()
    };
    let options = Options {
        limits,
        ..Options::default()
    };
    let verified = VerifiedPlan::new(plan).unwrap();
    let error = Planned::new(verified, options).unwrap_err();
    assert!(
        matches!(error, RuntimeError::Mappings { limit: 100, .. }),
        "{error}"
    );
}

#[test]
fn too_much_virtual_memory_is_refused() {
    let allowed = Bytes(4 * plans::page());
    let plan = plans::swap(plans::page());
    let limits = MapLimits {
        virtual_bytes_max: Some(allowed),
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
                limit,
                ..
            } if limit == allowed
        ),
        "{error}"
    );
}

#[test]
fn a_scale_that_breaks_the_plan_is_refused_with_advice() {
    let options = |page| Options {
        executed_page: Some(PageBytes::new(page).unwrap()),
        ..Options::default()
    };
    let error = refused(&plans::shared_page(2 << 20), &options(4 << 20));
    assert!(matches!(error, RuntimeError::PageSize { .. }), "{error}");

    // Slots are multiples of 4096 bytes, and the scale wants multiples of 8192.
    let mut plan = plans::swap(8192 * plans::page());
    plan.program.spill_bytes.0 += 4096;
    for slot in [
        &mut plan.program.ins[0].slot,
        &mut plan.program.outs[1].slot,
        plan.program.homes[2].slot.as_mut().unwrap(),
    ] {
        *slot += 4096;
    }
    let error = refused(&plan, &options(plans::page()));
    let RuntimeError::Indivisible { page_min, .. } = error else {
        panic!("{error}");
    };
    let mut frozen = freeze(&plan, &options(page_min.0)).unwrap();
    Model::new(&plan).iteration(&mut frozen).unwrap();
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
    let plan = plans::swap(plans::page());
    let directory = Directory::new("foreign");
    let missing = directory.0.join("none");
    let file = directory.0.join("file");
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
    let mut plan = plans::swap(plans::page());
    plan.program.spill_bytes = Bytes(1 << 49);
    let directory = Directory::new("full");
    let spill = directory.spill();
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
    assert_eq!(directory.files(), 0);
    let error = refused(&plan, &Options::default());
    assert!(matches!(error, RuntimeError::Memory { .. }), "{error}");
}

#[test]
fn a_spill_file_has_no_name_while_it_is_used() {
    let plan = plans::rotation(plans::page(), 12, 3);
    let directory = Directory::new("unnamed");
    let spill = directory.spill();
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
        assert_eq!(directory.files(), 0);
    }
    assert!(frozen.usage().unwrap().spill_allocated >= plan.program.spill_bytes);
    drop(frozen);
    assert_eq!(directory.files(), 0);
}

#[test]
fn the_arena_never_holds_more_than_the_budget() {
    let plan = plans::rotation(plans::page(), 12, 3);
    for lazy_page_tables in [false, true] {
        let options = Options {
            lazy_page_tables,
            ..Options::default()
        };
        let mut frozen = freeze(&plan, &options).unwrap();
        let budget = Bytes(6 * plans::page());
        assert_eq!(frozen.arena_bytes(), budget);
        let mut model = Model::new(&plan);
        for _ in 0..20 {
            assert_eq!(frozen.usage().unwrap().arena_allocated, budget);
            model.iteration(&mut frozen).unwrap();
        }
        assert_eq!(frozen.usage().unwrap().arena_allocated, budget);
    }
}
