//! Spilling to a small disk of its own: full, killed in the middle, and searched for what is left.
//!
//! Needs root, `mkfs.ext4` and loop devices; elsewhere it is skipped, and says so.
#![allow(clippy::unwrap_used)]

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use jetson_runtime::{
    Access, Config, Integrity, ProgramKey, Runtime, RuntimeError, Spill, StorageOptions, TensorDesc,
};
use vtensor::{Bytes, TensorKind};

const MIB: u64 = 1 << 20;
const SECRET: &[u8; 32] = b"the private data of one user....";
const CHILD: &str = "VTENSOR_TEST_LOOP_CHILD";
const LIMITED: &str = "VTENSOR_TEST_LIMITED_CHILD";

/// A file system in a file, mounted.
struct Disk {
    image: PathBuf,
    mount: PathBuf,
    mounted: bool,
}

impl Disk {
    /// `None` where this cannot be done.
    fn new(name: &str, mib: u64) -> Option<Self> {
        Self::of("ext4", name, mib)
    }

    /// With a file system of this kind.
    fn of(kind: &str, name: &str, mib: u64) -> Option<Self> {
        let base = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&base);
        fs::create_dir_all(&base).unwrap();
        let (image, mount) = (base.join("image"), base.join("mount"));
        fs::create_dir(&mount).unwrap();
        fs::File::create(&image)
            .unwrap()
            .set_len(mib * MIB)
            .unwrap();
        let mut disk = Self {
            image,
            mount,
            mounted: false,
        };
        let image = disk.image.to_str().unwrap();
        let mount = disk.mount.to_str().unwrap();
        // Whoever may not do it is told so by these commands.
        let ready = run(&format!("mkfs.{kind}"), &["-q", "-F", "-m", "0", image])
            && run("mount", &["-o", "loop", image, mount]);
        if !ready {
            println!("SKIPPED: a loop disk needs root, mkfs.ext4 and loop devices");
            return None;
        }
        disk.mounted = true;
        Some(disk)
    }

    fn unmount(&mut self) {
        if std::mem::take(&mut self.mounted) {
            // The kernel ends the requests of a ring a moment after its process.
            let mount = self.mount.to_str().unwrap();
            let gone = (0..50).any(|_| {
                let gone = run("umount", &[mount]);
                if !gone {
                    std::thread::sleep(std::time::Duration::from_millis(100));
                }
                gone
            });
            assert!(gone, "the disk can be taken out");
        }
    }

    /// How often a pattern lies anywhere in the image, free blocks included.
    fn occurrences(&mut self, pattern: &[u8]) -> usize {
        self.unmount();
        let image = fs::read(&self.image).unwrap();
        image
            .windows(pattern.len())
            .filter(|window| window == &pattern)
            .count()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted {
            // Lazily: a test that failed may still use it.
            run("umount", &["-l", self.mount.to_str().unwrap()]);
        }
        let _ = fs::remove_dir_all(self.image.parent().unwrap());
    }
}

fn run(command: &str, arguments: &[&str]) -> bool {
    let status = Command::new(command)
        .args(arguments)
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// A runtime whose steps spill what they hold, again and again.
struct App {
    runtime: Runtime,
    kept: jetson_runtime::Tensor,
}

impl App {
    fn new(directory: &Path, integrity: Integrity) -> Result<Self, RuntimeError> {
        let mut runtime = Runtime::new(Config {
            budget: Some(Bytes(5 * MIB)),
            spill: Spill::File(directory.into()),
            storage: StorageOptions {
                integrity,
                ..StorageOptions::default()
            },
            link: Some(lgm::profile::Link {
                out_bps: 1e9,
                in_bps: 1e9,
                copy_latency_ns: 10_000,
                duplex: true,
            }),
            ..Config::default()
        })?;
        let desc = TensorDesc::new("kept", Bytes(MIB), TensorKind::Parameter);
        let kept = runtime.create(&desc)?;
        runtime.write(kept, 0, &SECRET.repeat(1 << 15))?;
        Ok(Self { runtime, kept })
    }

    /// Six layers of 1.5 MiB forward, and back.
    fn iteration(&mut self) -> Result<(), RuntimeError> {
        let rt = &mut self.runtime;
        rt.iteration_begin(ProgramKey(1))?;
        let mut layers = vec![self.kept];
        for _ in 0..6 {
            let desc = TensorDesc::new("layer", Bytes(3 * MIB / 2), TensorKind::Activation);
            let layer = rt.create(&desc)?;
            let accesses = [Access::read(layers[layers.len() - 1]), Access::write(layer)];
            rt.op("forward", &accesses, |op| {
                let [from, mut to] = op.views();
                for part in to.bytes_mut().chunks_exact_mut(32) {
                    part.copy_from_slice(&from.bytes()[..32]);
                }
            })?;
            layers.push(layer);
        }
        while layers.len() > 1 {
            let layer = layers.pop().unwrap();
            rt.op("backward", &[Access::read(layer)], |op| {
                let [from] = op.views();
                assert!(from.bytes().chunks_exact(32).all(|part| part == SECRET));
            })?;
            rt.destroy(layer)?;
        }
        rt.iteration_end()
    }
}

#[test]
fn a_full_disk_is_an_error_and_loses_nothing() {
    let Some(disk) = Disk::new("full", 16) else {
        return;
    };
    let filler = disk.mount.join("filler");
    let mut refused = 0;
    for room_mib in 0..12 {
        let free = nix::sys::statvfs::statvfs(&disk.mount).unwrap();
        let free = free.blocks_available() * free.fragment_size();
        let fill = free.saturating_sub(room_mib * MIB);
        let file = fs::File::create(&filler).unwrap();
        let length = i64::try_from(fill).unwrap();
        if length > 0 {
            nix::fcntl::posix_fallocate(&file, 0, length).unwrap();
        }
        match App::new(&disk.mount, Integrity::Encrypt) {
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains("room") || error.to_string().contains("space"));
            }
            Ok(mut app) => {
                for _ in 0..5 {
                    if let Err(error) = app.iteration() {
                        refused += 1;
                        let text = error.to_string();
                        assert!(text.contains("no room") || text.contains("space"), "{text}");
                        app.runtime.iteration_abort().unwrap_or_default();
                        break;
                    }
                }
                let mut back = vec![0; 1 << 20];
                app.runtime.read(app.kept, 0, &mut back).unwrap();
                assert!(back == SECRET.repeat(1 << 15), "with {room_mib} MiB free");
            }
        }
        drop(file);
        fs::remove_file(&filler).unwrap();
    }
    assert!((1..12).contains(&refused), "{refused} of 12 were refused");
}

/// It takes space by writing it, and by no other way.
#[test]
fn an_old_file_system_does_too() {
    let Some(disk) = Disk::of("ext2", "old", 32) else {
        return;
    };
    let mut app = App::new(&disk.mount, Integrity::Encrypt).unwrap();
    for _ in 0..5 {
        app.iteration().unwrap();
    }
    assert!(app.runtime.stats().frozen_iterations > 0);
}

#[test]
fn an_overlay_on_memory_is_memory() {
    let base = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let base = base.join(format!("overlay, on {}", std::process::id()));
    let _ = fs::remove_dir_all(&base);
    let [memory, disk, over] = ["memory", "disk", "over"].map(|name| base.join(name));
    for folder in [&memory, &disk, &over] {
        fs::create_dir_all(folder).unwrap();
    }
    if !run("mount", &["-t", "tmpfs", "none", memory.to_str().unwrap()]) {
        println!("SKIPPED: mounting needs root");
        return;
    }
    let mut tried = Vec::new();
    for layers in [&memory, &disk] {
        let folders = ["lower", "upper", "work"].map(|name| layers.join(name));
        folders
            .iter()
            .for_each(|folder| fs::create_dir_all(folder).unwrap());
        let [lower, upper, work] = folders.map(|path| path.to_str().unwrap().replace(',', "\\,"));
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        let over = over.to_str().unwrap();
        if run("mount", &["-t", "overlay", "none", "-o", &options, over]) {
            tried.push(App::new(Path::new(over), Integrity::Encrypt).err());
            run("umount", &[over]);
        }
    }
    run("umount", &[memory.to_str().unwrap()]);
    fs::remove_dir_all(&base).unwrap();
    let [in_memory, on_disk] = &tried[..] else {
        println!("SKIPPED: there are no overlays here");
        return;
    };
    assert!(matches!(
        in_memory,
        Some(RuntimeError::SpillInMemory { .. })
    ));
    assert!(on_disk.is_none(), "{on_disk:?}");
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_no_signal() {
    let directory = env!("CARGO_TARGET_TMPDIR");
    if env::var_os(LIMITED).is_some() {
        let ended = App::new(Path::new(directory), Integrity::Encrypt)
            .and_then(|mut app| (0..5).try_for_each(|_| app.iteration()));
        println!("it ends: {ended:?}");
        // Whose file has 64 MiB.
        let measured = Runtime::new(Config {
            budget: Some(Bytes(5 * MIB)),
            spill: Spill::File(directory.into()),
            ..Config::default()
        });
        println!("it measures: {:?}", measured.map(|_| ()));
        return;
    }
    // The limit is the process's, so the test runs itself as others. The arena is a file, too.
    for (limit_mib, ends, measures) in [(1, false, false), (50, true, false), (70, true, true)] {
        let child = Command::new("prlimit")
            .arg(format!("--fsize={}", limit_mib * MIB))
            .arg(env::current_exe().unwrap())
            .args(["a_limit_on_the_size_of_files", "--nocapture"])
            .env(LIMITED, "")
            .output();
        let Ok(child) = child else {
            println!("SKIPPED: there is no prlimit here");
            return;
        };
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success(), "{limit_mib} MiB: {}", child.status);
        assert_eq!(said.contains("it ends: Ok"), ends, "{limit_mib}: {said}");
        assert_eq!(
            said.contains("it measures: Ok"),
            measures,
            "{limit_mib}: {said}"
        );
        let refused = usize::from(!ends) + usize::from(!measures);
        assert_eq!(
            said.matches("EFBIG").count(),
            refused,
            "{limit_mib}: {said}"
        );
    }
}

#[test]
fn nothing_is_left_after_a_kill_and_nothing_can_be_read() {
    for (integrity, name) in [
        (Integrity::Encrypt, "sealed"),
        (Integrity::Checksum, "plain"),
    ] {
        let Some(mut disk) = Disk::new(name, 48) else {
            return;
        };
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "the_child_that_is_killed", "--nocapture"])
            .env(CHILD, &disk.mount)
            .env("VTENSOR_TEST_INTEGRITY", name)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // It says so once it runs frozen.
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let frozen = lines
            .map_while(Result::ok)
            .any(|line| line.contains("frozen now"));
        assert!(frozen, "the child runs");
        std::thread::sleep(std::time::Duration::from_millis(50));
        child.kill().unwrap();
        child.wait().unwrap();
        let left = fs::read_dir(&disk.mount).unwrap();
        let names: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["lost+found"], "no file is left");
        let found = disk.occurrences(SECRET);
        match integrity {
            Integrity::Encrypt => assert_eq!(found, 0, "sealed bytes tell nothing"),
            // The search would find it.
            Integrity::Checksum => assert!(found > 1000, "{found}"),
        }
    }
}

#[test]
fn the_child_that_is_killed() {
    // The test above runs it, as a process of its own.
    let Ok(directory) = env::var(CHILD) else {
        return;
    };
    let integrity = match env::var("VTENSOR_TEST_INTEGRITY").as_deref() {
        Ok("sealed") => Integrity::Encrypt,
        _ => Integrity::Checksum,
    };
    let mut app = App::new(Path::new(&directory), integrity).unwrap();
    loop {
        app.iteration().unwrap();
        if app.runtime.stats().frozen_iterations == 2 {
            println!("frozen now");
        }
    }
}
