//! Programs with all the waits that they need, and no others: never a report, always the right
//! bytes, whatever the seed, the jitter and the number of streams.

use cuda_model::Failing;

use crate::api::Api;

const BUFFERS: usize = 12;
const BYTES: usize = 256;

/// A number below `below`.
fn pick(random: &mut oorandom::Rand64, below: usize) -> usize {
    usize::try_from(random.rand_range(0..below as u64)).unwrap()
}

/// Work whose end somebody may have to wait for.
#[derive(Clone, Copy)]
struct Work {
    stream: usize,
    event: usize,
}

/// A random program that orders itself.
struct Program {
    api: Api,
    random: oorandom::Rand64,
    streams: Vec<usize>,
    events: Vec<usize>,
    device: Vec<u64>,
    /// What each buffer should hold.
    content: Vec<[u8; BYTES]>,
    writer: Vec<Option<Work>>,
    readers: Vec<Vec<Work>>,
}

impl Program {
    fn new(profile: &str, seed: u64, streams: usize) -> Self {
        let api = Api::new(profile);
        api.control.jitter(seed, 30_000).unwrap();
        Self {
            streams: (0..streams).map(|_| api.stream().unwrap()).collect(),
            events: Vec::new(),
            device: (0..BUFFERS).map(|_| api.alloc(BYTES).unwrap()).collect(),
            content: vec![[0; BYTES]; BUFFERS],
            writer: vec![None; BUFFERS],
            readers: vec![Vec::new(); BUFFERS],
            random: oorandom::Rand64::new(u128::from(seed)),
            api,
        }
    }

    fn wait_for(&self, stream: usize, work: &[Work]) {
        for work in work.iter().filter(|work| work.stream != stream) {
            self.api.wait(stream, work.event).unwrap();
        }
    }

    /// Ends a piece of work with an event of its own.
    fn recorded(&mut self, stream: usize) -> Work {
        let event = self.api.event().unwrap();
        self.api.record(event, stream).unwrap();
        self.events.push(event);
        Work { stream, event }
    }

    fn step(&mut self) {
        let stream = self.streams[pick(&mut self.random, self.streams.len())];
        let (from, to) = (
            pick(&mut self.random, BUFFERS),
            pick(&mut self.random, BUFFERS),
        );
        let start = pick(&mut self.random, BYTES / 2);
        let bytes = 1 + pick(&mut self.random, BYTES / 2);
        let copies = from != to && pick(&mut self.random, 2) == 0;
        let mut needed: Vec<Work> = self.writer[to].into_iter().collect();
        needed.extend(&self.readers[to]);
        if copies {
            needed.extend(self.writer[from]);
        }
        self.wait_for(stream, &needed);
        let target = self.device[to] + start as u64;
        if copies {
            self.api
                .copy(target, self.device[from] + start as u64, bytes, stream)
                .unwrap();
            let source = self.content[from];
            self.content[to][start..start + bytes].copy_from_slice(&source[start..start + bytes]);
        } else {
            let value = u8::try_from(pick(&mut self.random, 256)).unwrap();
            self.api.set(target, value, bytes, stream).unwrap();
            self.content[to][start..start + bytes].fill(value);
        }
        let work = self.recorded(stream);
        if copies {
            self.readers[from].push(work);
        }
        self.writer[to] = Some(work);
        self.readers[to].clear();
    }

    fn end(mut self) {
        let stream = self.streams[0];
        for buffer in 0..BUFFERS {
            let needed: Vec<Work> = self.writer[buffer].into_iter().collect();
            self.wait_for(stream, &needed);
            let mut found = [0; BYTES];
            let address = self.device[buffer];
            self.api
                .download(found.as_mut_ptr(), address, BYTES, stream)
                .unwrap();
            assert_eq!(found, self.content[buffer], "buffer {buffer}");
        }
        self.api.synchronize().unwrap();
        for event in self.events.drain(..) {
            self.api.destroy_event(event).unwrap();
        }
        for stream in self.streams {
            self.api.destroy_stream(stream).unwrap();
        }
        for address in self.device {
            self.api.free(address).unwrap();
        }
        self.api.end_clean();
    }
}

#[test]
fn ordered_programs_are_never_reported() {
    for seed in 0..12 {
        let profile = ["orin", "thor", "rtx-linux"][usize::try_from(seed).unwrap() % 3];
        let streams = 2 + usize::try_from(seed).unwrap() * 2;
        let mut program = Program::new(profile, seed, streams);
        for buffer in 0..BUFFERS {
            // Fresh memory holds whatever it holds.
            let (address, stream) = (program.device[buffer], program.streams[0]);
            program.api.set(address, 0, BYTES, stream).unwrap();
            program.writer[buffer] = Some(program.recorded(stream));
        }
        for _ in 0..300 {
            program.step();
        }
        program.end();
    }
}

#[test]
fn a_failure_at_any_call_hangs_nothing_and_leaks_nothing() {
    let run = |api: &Api| -> Result<(), i32> {
        let stream = api.stream()?;
        let memory = api.alloc(64);
        let event = api.event();
        let work = || -> Result<(), i32> {
            let (memory, event) = (memory?, event?);
            api.set(memory, 1, 64, stream)?;
            api.record(event, stream)?;
            api.sync_event(event)
        };
        let answer = work();
        let _ = api.sync_stream(stream);
        let _ = memory.map(|memory| api.free(memory));
        let _ = event.map(|event| api.destroy_event(event));
        let _ = api.destroy_stream(stream);
        answer
    };
    for failing in [Failing::Now, Failing::Late, Failing::ForEver] {
        for nth in 1..=10 {
            let api = Api::new("orin");
            api.control.inject("*", nth, failing, 719).unwrap();
            let answer = run(&api);
            let _ = api.release();
            assert_eq!(
                api.control.leaks(),
                [""; 0],
                "{failing:?} at {nth}: {answer:?}"
            );
        }
    }
}

#[test]
fn threads_of_the_host_may_call_at_once() {
    let api = Api::new("thor");
    let context = api.retain().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..6_u8 {
            let api = &api;
            scope.spawn(move || {
                api.set_current(context).unwrap();
                let (stream, event) = (api.stream().unwrap(), api.event().unwrap());
                for round in 0..50 {
                    let memory = api.alloc(BYTES).unwrap();
                    let value = thread * 50 + round % 5;
                    api.set(memory, value, BYTES, stream).unwrap();
                    api.record(event, stream).unwrap();
                    let mut found = [0; BYTES];
                    api.download(found.as_mut_ptr(), memory, BYTES, stream)
                        .unwrap();
                    assert_eq!(found, [value; BYTES]);
                    api.sync_event(event).unwrap();
                    api.free(memory).unwrap();
                }
                api.destroy_event(event).unwrap();
                api.destroy_stream(stream).unwrap();
            });
        }
    });
    api.release().unwrap();
    api.end_clean();
}
