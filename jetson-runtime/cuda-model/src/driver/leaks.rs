//! What was not given back.
//!
//! Something whose release was tried and refused on cue, or on a lost device, is excused: the
//! program did what it could.

use super::Driver;

/// Where this is set, reports are printed when a context ends: for programs that no test steers.
const REPORTS_VARIABLE: &str = "CUDA_MODEL_REPORTS";

impl Driver {
    /// One line for each thing that the program holds.
    pub(crate) fn leaks(&self) -> String {
        let mut lines = self.leaks_of_context();
        if self.context.retained() > 0 {
            let times = self.context.retained();
            lines.push(format!("context: retained {times} times"));
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
        lines.sort();
        lines.into_iter().map(|line| line + "\n").collect()
    }

    /// What goes with the context, one line each.
    fn leaks_of_context(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (address, block) in &self.blocks {
            let (kind, bytes) = (block.kind, block.bytes);
            let text = format!("{kind:?} memory: {bytes} bytes at {address:#x}");
            self.leaked(&mut lines, *address, text);
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
        lines
    }

    fn leaked(&self, lines: &mut Vec<String>, key: u64, text: String) {
        if !self.excused.contains(&key) {
            lines.push(text);
        }
    }

    /// The context is gone, and all that it held with it.
    pub(super) fn abandon(&mut self) {
        let mut leaks = self.leaks_of_context();
        leaks.sort();
        for leak in leaks {
            self.reports.add("leak", leak);
        }
        if std::env::var_os(REPORTS_VARIABLE).is_some() {
            eprint!("{}", self.reports.told());
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
