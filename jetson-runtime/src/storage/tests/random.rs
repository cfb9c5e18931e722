//! Random copies, announced and not, of two users of a file at once, whose requests are torn, fail,
//! and end in any order. Every byte is checked against a model that says for each block what
//! reading it may answer.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread;

use super::disks::{Chaos, Memory, Random};
use super::*;

const SEEDS: u64 = 800;
/// So many steps each.
const STEPS: usize = 40;
const BLOCK: usize = 4096;
/// Blocks of the file; each user has half of them.
const BLOCKS: usize = 48;
const COPY_BLOCKS_MAX: usize = 10;
/// Copies that are made up ahead, more than a channel takes on; each has an area of memory.
const AREAS: usize = 10;
const AREA_BYTES: usize = (COPY_BLOCKS_MAX + 1) * BLOCK;

/// What reading a block may answer, and nothing else.
#[derive(Clone)]
struct Block {
    contents: Vec<Vec<u8>>,
    damaged: bool,
    /// Whether it may be one that was never written.
    blank: bool,
}

/// What both users share.
struct World {
    seals: Arc<Seals>,
    file: Where,
    request: usize,
    lent: bool,
    sealers: usize,
    /// One in so many requests fails; 0 for none.
    faults: usize,
}

enum Where {
    Memory(Arc<Mutex<Vec<u8>>>),
    Real(SpillFile, IoPath),
}

/// A user of the file.
struct User<'a> {
    world: &'a World,
    random: Random,
    seed: u64,
    /// Ends before the memory that it may have been lent.
    channel: Option<Channel>,
    memory: Buffers,
    /// Its first block.
    first: usize,
    blocks: Vec<Block>,
    /// Copies that were announced, with the bytes of those to the file.
    ahead: VecDeque<Made>,
    contents: u64,
}

/// A copy that was made up.
struct Made {
    copy: BlockCopy,
    area: usize,
    /// What it writes, in whole blocks.
    content: Vec<u8>,
}

impl Made {
    fn blocks(&self) -> std::ops::Range<usize> {
        let first = self.copy.slot as usize / BLOCK;
        first..first + self.copy.bytes.div_ceil(BLOCK)
    }
}

impl World {
    fn new(random: &mut Random) -> Self {
        let integrity = [Integrity::Encrypt, Integrity::Checksum][random.below(2)];
        let bytes = (BLOCKS * BLOCK) as u64;
        let path = [IoPath::Plain, IoPath::Uring][random.below(2)];
        let real = random.one_in(12);
        let file = match real {
            true => {
                let file = SpillFile::new(&disk(), bytes, false).unwrap();
                file.claim(0, bytes).unwrap();
                Where::Real(file, path)
            }
            false => Where::Memory(Arc::new(Mutex::new(vec![0; BLOCKS * BLOCK]))),
        };
        Self {
            seals: Arc::new(Seals::new(integrity, bytes).unwrap()),
            file,
            request: [1, 2, 3, 4][random.below(4)] * BLOCK,
            lent: random.one_in(2),
            sealers: random.below(4),
            faults: [0, 30, 100][random.below(3)],
        }
    }

    fn channel(&self, memory: NonNull<[u8]>, random: &mut Random) -> Channel {
        let count = 1 + random.below(6);
        let blocks = match self.lent {
            true => Blocks::Lent {
                memory,
                bytes: self.request,
                count,
            },
            false => Blocks::Own(Buffers::new(count, self.request).unwrap()),
        };
        let inner: Box<dyn Disk> = match &self.file {
            Where::Memory(file) => Box::new(Memory {
                file: Arc::clone(file),
                random: random.another(),
                room: 1 + random.below(count),
                flying: Vec::new(),
            }),
            Where::Real(file, path) => {
                let copy = file.file.try_clone().unwrap();
                let parts = BLOCK * (1 + random.below(3));
                match Uring::new(copy, blocks.all(), count) {
                    Ok(uring) if *path == IoPath::Uring => Box::new(uring.in_parts(parts)),
                    // Not wanted, or not allowed here, or too many at the moment.
                    _ => Box::new(Plain::new(&file.file, 1 + random.below(3)).unwrap()),
                }
            }
        };
        let disk = Chaos {
            inner,
            random: random.another(),
            one_in: self.faults,
            doomed: [None; 64],
            ended: Vec::new(),
        };
        let sealer = Sealer::new(&self.seals, self.sealers).unwrap();
        Channel::on(Box::new(disk), blocks, sealer, (BLOCKS * BLOCK) as u64)
    }
}

impl<'a> User<'a> {
    fn new(world: &'a World, seed: u64, half: usize) -> Self {
        let blank = Block {
            contents: Vec::new(),
            damaged: true,
            blank: true,
        };
        Self {
            world,
            random: Random::new(2 * seed + half as u64),
            seed,
            channel: None,
            memory: Buffers::new(AREAS, AREA_BYTES).unwrap(),
            first: half * BLOCKS / 2,
            blocks: vec![blank; BLOCKS / 2],
            ahead: VecDeque::new(),
            contents: half as u64,
        }
    }

    fn run(&mut self) {
        for _ in 0..STEPS {
            if self.channel.is_none() || self.random.one_in(15) {
                self.reopen();
            }
            match self.random.below(8) {
                0 if self.ahead.is_empty() => self.forget(),
                1 | 2 if self.ahead.is_empty() && !self.world.lent => self.peek(),
                3 | 4 if self.ahead.is_empty() && !self.world.lent => self.patch(),
                _ => self.copy(),
            }
        }
        // What is still under way ends here.
        self.reopen();
        if !self.world.lent && self.world.faults == 0 {
            for block in 0..self.blocks.len() {
                self.peek_range(block * BLOCK, BLOCK);
            }
        }
    }

    /// Another channel, whatever the one before is at.
    fn reopen(&mut self) {
        self.channel = None;
        self.give_up();
        let memory = self.memory.all();
        self.channel = Some(self.world.channel(memory, &mut self.random));
    }

    /// What was announced and never made may be in the file, or half of it.
    fn give_up(&mut self) {
        for made in std::mem::take(&mut self.ahead) {
            self.tear(&made);
        }
    }

    fn tear(&mut self, made: &Made) {
        if !made.copy.write {
            return;
        }
        for (block, content) in made.blocks().zip(made.content.chunks(BLOCK)) {
            let block = &mut self.blocks[block - self.first];
            block.contents.push(content.to_vec());
            block.damaged = true;
        }
    }

    fn content(&mut self, bytes: usize) -> Vec<u8> {
        self.contents += 2;
        let mut random = Random::new(self.seed ^ self.contents << 32);
        let mut content = vec![0; bytes];
        content.fill_with(|| random.below(256) as u8);
        content
    }

    /// A range of the user's half, and where it begins in the file.
    fn range(&mut self) -> (usize, usize) {
        let blocks = self.random.below(COPY_BLOCKS_MAX + 1);
        let first = self.random.below(self.blocks.len() - blocks + 1);
        let spare = match blocks {
            0 => 0,
            _ => self.random.below(BLOCK) * self.random.below(2),
        };
        (first, blocks * BLOCK - spare)
    }

    /// Makes up a copy that may be made beside those ahead.
    fn make_up(&mut self) -> Option<Made> {
        let area = (0..AREAS).find(|area| self.ahead.iter().all(|made| made.area != *area))?;
        let (first, bytes) = self.range();
        let write = self.random.one_in(2);
        let odd = match self.world.lent {
            true => 0,
            false => self.random.below(BLOCK),
        };
        let mut made = Made {
            copy: BlockCopy {
                write,
                slot: ((self.first + first) * BLOCK) as u64,
                // SAFETY: an area has a block more than any copy.
                memory: unsafe { self.memory.pointer(area).add(odd) },
                bytes,
            },
            area,
            content: Vec::new(),
        };
        let range = made.blocks();
        let apart = |other: &Made| {
            let both_read = !write && !other.copy.write;
            let others = other.blocks();
            both_read || range.end <= others.start || others.end <= range.start
        };
        if !self.ahead.iter().all(apart) {
            return None;
        }
        let area = self.memory.slice(area, AREA_BYTES);
        area.fill(0xee);
        if write {
            let content = self.content(bytes);
            self.memory.slice(made.area, AREA_BYTES)[odd..odd + bytes].copy_from_slice(&content);
            made.content = content;
            made.content.resize(bytes.next_multiple_of(BLOCK), 0);
        }
        Some(made)
    }

    /// Announces some copies and makes the first.
    fn copy(&mut self) {
        for _ in 0..self.random.below(AREAS) {
            let Some(made) = self.make_up() else {
                continue;
            };
            let channel = self.channel.as_mut().unwrap();
            // SAFETY: the area is the copy's own until it was made or given up, and the user's half
            // of the file nobody else's; copies ahead of each other have nothing in common.
            if unsafe { channel.announce(made.copy) } {
                self.ahead.push_back(made);
            } else {
                assert!(self.ahead.len() >= 8, "there is room for a few");
            }
        }
        let announced = self.ahead.pop_front();
        let Some(made) = announced.or_else(|| self.make_up()) else {
            return;
        };
        let channel = self.channel.as_mut().unwrap();
        let BlockCopy {
            slot,
            memory,
            bytes,
            ..
        } = made.copy;
        let result = match made.copy.write {
            // SAFETY: as above.
            true => unsafe { channel.write(slot, memory, bytes) },
            // SAFETY: as above.
            false => unsafe { channel.read(slot, memory, bytes) },
        };
        let odd = memory.addr().get() - self.memory.pointer(made.area).addr().get();
        let area = self.memory.slice(made.area, AREA_BYTES).to_vec();
        let end = match self.world.lent {
            true => bytes.next_multiple_of(BLOCK),
            false => odd + bytes,
        };
        let outside = area[..odd].iter().chain(&area[end..]);
        assert!(outside.copied().all(|byte| byte == 0xee), "nothing else");
        if made.copy.write && !self.world.lent {
            assert!(area[odd..end] == made.content[..bytes], "a source stays");
        }
        match result {
            Ok(()) if made.copy.write => self.written(&made),
            Ok(()) => self.seen(made.blocks().start * BLOCK, &area[odd..odd + bytes]),
            Err(error) => {
                assert!(error.offset < bytes as u64, "{error:?}");
                assert!(error.offset.is_multiple_of(BLOCK as u64), "{error:?}");
                self.failed(slot, error, !made.copy.write);
                self.tear(&made);
                self.give_up();
            }
        }
    }

    fn written(&mut self, made: &Made) {
        for (block, content) in made.blocks().zip(made.content.chunks(BLOCK)) {
            self.blocks[block - self.first] = Block {
                contents: vec![content.to_vec()],
                damaged: false,
                blank: false,
            };
        }
    }

    /// Bytes that were read, from byte `at` of the file on.
    fn seen(&mut self, at: usize, bytes: &[u8]) {
        let mut at = at - self.first * BLOCK;
        let mut rest = bytes;
        while !rest.is_empty() {
            let inside = at % BLOCK;
            let (part, others) = rest.split_at(rest.len().min(BLOCK - inside));
            let block = &mut self.blocks[at / BLOCK];
            let fits = |content: &Vec<u8>| content[inside..inside + part.len()] == *part;
            block.contents.retain(fits);
            assert!(!block.contents.is_empty(), "block {} is sound", at / BLOCK);
            (block.damaged, block.blank) = (false, false);
            (at, rest) = (at + part.len(), others);
        }
    }

    /// A copy of bytes from `slot` on has failed.
    fn failed(&mut self, slot: u64, error: TransferError, reads: bool) {
        if error.errno != Errno::EBADMSG {
            return assert!(self.world.faults > 0, "{error:?}");
        }
        assert!(reads, "what is written is not opened");
        let block = (slot + error.offset) as usize / BLOCK - self.first;
        let block = &mut self.blocks[block];
        assert!(block.damaged, "{error:?}");
        block.contents.clear();
    }

    fn peek(&mut self) {
        let (first, bytes) = self.range();
        let skip = self.random.below(bytes.min(BLOCK) + 1);
        self.peek_range(first * BLOCK + skip, bytes - skip);
    }

    fn peek_range(&mut self, at: usize, bytes: usize) {
        let at = self.first * BLOCK + at;
        let mut part = vec![0; bytes];
        let target = NonNull::from(part.as_mut_slice()).cast();
        // SAFETY: the target is a borrowed buffer, the user's half of the file nobody else's.
        let peeked = unsafe {
            self.channel
                .as_mut()
                .unwrap()
                .peek(at as u64, target, bytes)
        };
        match peeked {
            Ok(()) => self.seen(at, &part),
            Err(error) => self.failed(at as u64, error, true),
        }
    }

    fn patch(&mut self) {
        let (first, bytes) = self.range();
        let skip = self.random.below(bytes.min(BLOCK) + 1);
        let (at, bytes) = (first * BLOCK + skip, bytes - skip);
        let new = self.content(bytes);
        let source = NonNull::from(new.as_slice()).cast();
        let slot = (self.first * BLOCK + at) as u64;
        // SAFETY: the source is a borrowed buffer, the user's half of the file nobody else's.
        let patched = unsafe { self.channel.as_mut().unwrap().patch(slot, source, bytes) };
        let touched = at / BLOCK..(at + bytes).div_ceil(BLOCK);
        if let Err(TransferError { errno, .. }) = patched {
            let ends = [touched.start, touched.end - 1];
            let unread = ends.iter().any(|block| self.blocks[*block].damaged);
            let why = match errno {
                Errno::EBADMSG => unread,
                _ => self.world.faults > 0,
            };
            assert!(why, "{patched:?}");
        }
        for row in touched.take_while(|_| bytes > 0) {
            let (from, to) = (at.max(row * BLOCK), (at + bytes).min((row + 1) * BLOCK));
            let block = &mut self.blocks[row];
            let mut now = block.contents.clone();
            if block.blank || to - from == BLOCK {
                now.push(vec![0; BLOCK]);
            }
            for content in &mut now {
                content[from - row * BLOCK..to - row * BLOCK]
                    .copy_from_slice(&new[from - at..to - at]);
            }
            if patched.is_ok() {
                block.contents = now;
                (block.damaged, block.blank) = (false, false);
            } else {
                block.contents.extend(now);
                block.damaged = true;
            }
        }
    }

    fn forget(&mut self) {
        let (first, bytes) = self.range();
        let skip = self.random.below(bytes.min(BLOCK) + 1);
        let (at, bytes) = (first * BLOCK + skip, bytes - skip);
        let start = (self.first * BLOCK + at) as u64;
        self.world.seals.forget(start, bytes as u64).unwrap();
        for block in at.div_ceil(BLOCK)..(at + bytes) / BLOCK {
            let block = &mut self.blocks[block];
            block.contents.clear();
            (block.damaged, block.blank) = (true, true);
        }
    }
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("seed {}", self.seed);
        }
    }
}

#[test]
fn random_copies_bring_what_was_written_or_say_that_they_cannot() {
    for seed in 0..SEEDS {
        let world = World::new(&mut Random::new(seed));
        thread::scope(|scope| {
            for half in 0..2 {
                let world = &world;
                scope.spawn(move || User::new(world, seed, half).run());
            }
        });
    }
}
