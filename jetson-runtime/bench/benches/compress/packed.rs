//! A batch without its zeros: a bit for each number, and the numbers whose bits are not all 0.
//!
//! In: a batch. Out: the same batch, to the bit. No branch depends on the numbers, so that speed
//! does not either; a last block that is not full is filled up.

/// Numbers that share a word of bits.
const BLOCK: usize = 64;

/// A batch without its zeros.
#[derive(Debug)]
pub(crate) struct Packed {
    masks: Vec<u64>,
    /// What is not zero, and room beyond it: a block is written in full.
    numbers: Vec<f32>,
    count: usize,
}

impl Packed {
    /// Room for a batch of so many numbers.
    pub(crate) fn new(floats: usize) -> Self {
        let blocks = floats.div_ceil(BLOCK);
        Self {
            masks: vec![0; blocks],
            numbers: vec![0.0; (blocks + 1) * BLOCK],
            count: 0,
        }
    }

    /// Packs a batch.
    pub(crate) fn pack(&mut self, batch: &[f32]) {
        let (blocks, rest) = batch.as_chunks::<BLOCK>();
        self.count = 0;
        for (row, block) in blocks.iter().enumerate() {
            self.pack_block(row, block);
        }
        if !rest.is_empty() {
            let mut block = [0.0; BLOCK];
            block[..rest.len()].copy_from_slice(rest);
            self.pack_block(blocks.len(), &block);
        }
    }

    fn pack_block(&mut self, row: usize, block: &[f32; BLOCK]) {
        let room = self.numbers[self.count..].first_chunk_mut::<BLOCK>();
        let room = room.expect("a block more than the batch has");
        let (mut mask, mut used) = (0, 0);
        for (lane, x) in block.iter().enumerate() {
            let there = x.to_bits() != 0;
            mask |= u64::from(there) << lane;
            // Below 64 at each lane; the remainder only spares a check.
            room[used % BLOCK] = *x;
            used += usize::from(there);
        }
        self.masks[row] = mask;
        self.count += used;
    }

    /// Writes the batch that was packed.
    pub(crate) fn unpack(&self, batch: &mut [f32]) {
        let (blocks, rest) = batch.as_chunks_mut::<BLOCK>();
        let mut from = 0;
        for (block, mask) in blocks.iter_mut().zip(&self.masks) {
            from += self.unpack_block(from, *mask, block);
        }
        if !rest.is_empty() {
            let mut block = [0.0; BLOCK];
            self.unpack_block(from, self.masks[blocks.len()], &mut block);
            rest.copy_from_slice(&block[..rest.len()]);
        }
    }

    fn unpack_block(&self, from: usize, mask: u64, block: &mut [f32; BLOCK]) -> usize {
        let numbers = self.numbers[from..].first_chunk::<BLOCK>();
        let numbers = numbers.expect("a block more than the batch has");
        let mut used = 0;
        for (lane, x) in block.iter_mut().enumerate() {
            let there = (mask >> lane) & 1;
            // All bits or none: a choice would become a branch.
            let bits = numbers[used % BLOCK].to_bits() & 0_u32.wrapping_sub(there as u32);
            *x = f32::from_bits(bits);
            used += there as usize;
        }
        used
    }

    /// The bytes that would move.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.masks) + self.count * size_of::<f32>()
    }
}
