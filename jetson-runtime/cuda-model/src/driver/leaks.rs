//! What was not given back.
//!
//! Something whose release was tried and refused on cue, or on a lost device, is excused: the
//! program did what it could.

use super::Driver;

impl Driver {
    /// One line for each thing that the program holds.
    pub(crate) fn leaks(&self) -> String {
        let mut lines = Vec::new();
        if self.context.retained() > 0 {
            lines.push(format!(
                "context: retained {} times",
                self.context.retained()
            ));
        }
        for (address, block) in &self.blocks {
            let text = format!(
                "{:?} memory: {} bytes at {address:#x}",
                block.kind, block.bytes
            );
            self.leaked(&mut lines, *address, text);
        }
        for (address, reservation) in &self.reservations {
            let text = format!("reservation: {} bytes at {address:#x}", reservation.bytes);
            self.leaked(&mut lines, *address, text);
        }
        for (address, mapping) in self.mappings() {
            let text = format!("mapping: {} bytes at {address:#x}", mapping.bytes);
            self.leaked(&mut lines, address, text);
        }
        for (handle, chunk) in &self.chunks {
            if !chunk.released() {
                let text = format!("physical memory: {} bytes", chunk.bytes());
                self.leaked(&mut lines, *handle, text);
            }
        }
        for (handle, line) in self.own_streams() {
            self.leaked(&mut lines, handle, format!("stream: {}", line.0));
        }
        for handle in self.events.keys() {
            self.leaked(&mut lines, *handle, format!("event: {handle:#x}"));
        }
        for handle in self.modules.keys() {
            self.leaked(&mut lines, *handle, format!("module: {handle:#x}"));
        }
        lines.sort();
        lines.into_iter().map(|line| line + "\n").collect()
    }

    fn leaked(&self, lines: &mut Vec<String>, key: u64, text: String) {
        if !self.excused.contains(&key) {
            lines.push(text);
        }
    }

    /// The context is gone, and all that it held with it.
    pub(super) fn abandon(&mut self) {
        let leaks = self.leaks();
        for leak in leaks.lines() {
            self.reports.add("leak", leak);
        }
        self.drain();
        self.end_streams();
        self.events.clear();
        self.modules.clear();
        self.functions.clear();
        for (address, block) in std::mem::take(&mut self.blocks) {
            self.drop_block(address, block);
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Streams touch memory that is about to go.
        self.drain();
        self.end_streams();
    }
}
