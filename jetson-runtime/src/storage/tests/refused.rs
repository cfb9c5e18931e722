//! What the machine does not give: a ring whose requests the kernel does not take any more, and
//! more memory than there is.

use std::thread;

use nix::libc;

use super::*;
use crate::error::RuntimeError;
use crate::tests::in_time;

/// Lets the kernel refuse this thread to send requests to any ring; whether it does.
fn forbid_requests() -> bool {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let number = libc::SYS_io_uring_enter as u32;
    let line = |code: u32, k, jt| libc::sock_filter {
        code: code as u16,
        jt,
        jf: 0,
        k,
    };
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    // The number of the call, which is what a filter sees first.
    let mut filter = [
        line(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        libc::sock_filter {
            jf: 1,
            ..line(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, number, 0)
        },
        line(libc::BPF_RET | libc::BPF_K, refuse, 0),
        line(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: it takes numbers only.
    let ready = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } == 0;
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: the program is live and as long as it says. It is for this thread, which ends soon.
    ready && unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) } == 0
}

/// Runs in a thread that may not send requests, if there is such a thing.
fn forbidden<T: Send>(body: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let thread = scope.spawn(|| forbid_requests().then(body));
        let result = thread.join().unwrap();
        if result.is_none() {
            println!("SKIPPED: the kernel does not filter calls here");
        }
        result
    })
}

#[test]
fn a_sandbox_that_forbids_requests_is_noticed_when_a_file_is_opened() {
    in_time(|| {
        let options = options(Integrity::Encrypt, IoPath::Auto);
        let (file, seals) = file(&options);
        forbidden(|| {
            let mut channel = Channel::new(&file, &seals, &options).unwrap();
            assert_eq!(channel.path(), "pread/pwrite");
            let plain = pattern(1, 50_000);
            write(&mut channel, 0, &plain).unwrap();
            assert!(read(&mut channel, 0, plain.len()).unwrap() == plain);
            let ring = StorageOptions {
                path: IoPath::Uring,
                ..options
            };
            let refused = Channel::new(&file, &seals, &ring).map(|_| ()).unwrap_err();
            assert!(matches!(refused, RuntimeError::System { .. }), "{refused}");
        });
    });
}

#[test]
fn buffers_that_the_machine_has_no_memory_for_are_refused() {
    let large = StorageOptions {
        request_bytes: Some(u32::MAX),
        depth: 64,
        ..options(Integrity::Encrypt, IoPath::Auto)
    };
    let (file, seals) = file(&large);
    let refused = Channel::new(&file, &seals, &large).map(|_| ()).unwrap_err();
    assert!(matches!(refused, RuntimeError::Memory { .. }), "{refused}");
}

#[test]
fn requests_that_are_not_taken_any_more_fail_and_those_under_way_end() {
    in_time(|| {
        let options = options(Integrity::Checksum, IoPath::Uring);
        let (file, _) = file(&options);
        let buffers = Buffers::new(4, REQUEST as usize).unwrap();
        let copy = file.file.try_clone().unwrap();
        let mut uring = match Uring::new(copy, buffers.all(), buffers.count()) {
            Ok(uring) => uring,
            Err(errno) => return println!("SKIPPED: io_uring is not allowed here: {errno}"),
        };
        let request = |buffer| Request {
            write: true,
            buffer,
            start: buffers.pointer(buffer),
            bytes: REQUEST as usize,
            offset: buffer as u64 * u64::from(REQUEST),
        };
        for buffer in 0..2 {
            // SAFETY: each has its buffer, which outlives the ring.
            unsafe { uring.start(request(buffer)) };
        }
        forbidden(|| {
            for buffer in 2..4 {
                // SAFETY: as above.
                unsafe { uring.start(request(buffer)) };
            }
            let mut ended: Vec<Ended> = (0..4).map(|_| uring.finish()).collect();
            ended.sort_unstable_by_key(|ended| ended.buffer);
            let results = ended.iter().map(|ended| ended.result);
            let refused = Err(Errno::EPERM);
            assert!(results.eq([Ok(()), Ok(()), refused, refused]), "{ended:?}");
            // And so does what comes later, however often.
            for turn in 0..20 {
                // SAFETY: as above.
                unsafe { uring.start(request(turn % 4)) };
                assert_eq!(uring.finish().result, refused);
            }
        });
        drop(uring);
    });
}
