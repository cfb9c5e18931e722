//! Arguments about the spill tier, the same for every command that executes.

use clap::builder::RangedI64ValueParser;
use clap::{Args, ValueEnum};
use jetson_runtime::storage::SEALERS_MAX;
use jetson_runtime::{Integrity, IoPath, Spill, StorageOptions};

use crate::value::SpillArg;

/// How requests reach the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IoArg {
    /// `uring` where the kernel allows it, else `plain`
    Auto,
    /// Several requests in flight, by `io_uring`
    Uring,
    /// One at a time, by `pread` and `pwrite`
    Plain,
}

/// Arguments about the spill tier.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct SpillArgs {
    /// Where to put what leaves memory: ram, or file:FOLDER for an unlinked file there
    #[arg(long, value_name = "TIER", default_value_t = SpillArg::Ram)]
    pub spill: SpillArg,
    /// Leave what is in a spill file readable, with checksums only
    #[arg(long)]
    pub no_encrypt: bool,
    /// How to reach a spill file
    #[arg(long, value_name = "PATH", value_enum, default_value_t = IoArg::Auto)]
    pub io: IoArg,
    /// Threads that seal beside each engine, at most 3 [default: as many as it takes to keep up
    /// with the disk, if there are cores for them; none where nothing is measured]
    #[arg(long, value_name = "THREADS", value_parser = sealers())]
    pub sealers: Option<u32>,
    /// Accept a folder whose files are in memory
    #[arg(long)]
    pub memory_backed: bool,
}

/// How many threads may seal.
fn sealers() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(..=i64::from(SEALERS_MAX))
}

impl Default for SpillArgs {
    fn default() -> Self {
        Self {
            spill: SpillArg::Ram,
            no_encrypt: false,
            io: IoArg::Auto,
            sealers: None,
            memory_backed: false,
        }
    }
}

impl SpillArgs {
    /// Where pieces go.
    #[must_use]
    pub fn tier(&self) -> Spill {
        match &self.spill {
            SpillArg::Ram => Spill::Ram,
            SpillArg::File(folder) => Spill::File(folder.clone()),
        }
    }

    /// How a file there is used.
    #[must_use]
    pub fn storage(&self) -> StorageOptions {
        StorageOptions {
            integrity: match self.no_encrypt {
                true => Integrity::Checksum,
                false => Integrity::Encrypt,
            },
            path: match self.io {
                IoArg::Auto => IoPath::Auto,
                IoArg::Uring => IoPath::Uring,
                IoArg::Plain => IoPath::Plain,
            },
            sealers: self.sealers,
            memory_backed: self.memory_backed,
            ..StorageOptions::default()
        }
    }
}
