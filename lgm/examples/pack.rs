//! Packs a set of blocks from a file, and says how high the packing is.
//!
//! ```text
//! cargo run --release -p lgm --example pack -- A.1048576.csv B.1048576.csv --work 1e9
//! ```
//!
//! In: CSV files with a header and the columns `id`, `lower`, `upper` (both times; the latter is
//! the first without the block) and `size`, as the public MiniMalloc set has them. The capacity is
//! `--capacity N`, or the number before `.csv` in the name, or the most bytes that live at once.
//! `--work N` bounds the search: blocks looked at (a few 10^7 take a second). Exit status 1 if a
//! set does not fit its capacity.

use std::env;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use lgm::packing::{Block, Effort, load, pack};

fn main() -> ExitCode {
    match run(env::args().skip(1)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut args: impl Iterator<Item = String>) -> Result<bool, String> {
    let mut paths = Vec::new();
    let mut capacity = None;
    let mut work = 1_000_000_000;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--capacity" => capacity = Some(number(&arg, args.next())?),
            "--work" => work = number(&arg, args.next())?,
            _ if arg.starts_with('-') => return Err(format!("there is no option {arg}")),
            _ => paths.push(arg),
        }
    }
    if paths.is_empty() {
        return Err("give CSV files with the columns id, lower, upper and size".into());
    }
    println!(
        "{:<24}{:>7}{:>12}{:>12}{:>12}{:>11}{:>9}",
        "file", "blocks", "load", "capacity", "height", "overhead", "seconds"
    );
    let mut all_fit = true;
    for path in &paths {
        let path = Path::new(path);
        let blocks = read(path)?;
        let load = load(&blocks);
        let capacity = capacity.or_else(|| in_name(path)).unwrap_or(load);
        let effort = Effort {
            orders: work / 20,
            search: work,
        };
        let start = Instant::now();
        let packing = pack(&blocks, capacity, effort);
        let over = packing.height as f64 / capacity.max(1) as f64 - 1.0;
        println!(
            "{:<24}{:>7}{load:>12}{capacity:>12}{:>12}{:>9.2} %{:>9.2}",
            path.file_name().unwrap_or_default().to_string_lossy(),
            blocks.len(),
            packing.height,
            over * 100.0,
            start.elapsed().as_secs_f64()
        );
        all_fit &= packing.height <= capacity;
    }
    Ok(all_fit)
}

/// A count, written as an integer or as `2e9`.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn number(option: &str, given: Option<String>) -> Result<u64, String> {
    let given = given.ok_or_else(|| format!("{option} takes a number"))?;
    let number: f64 = given
        .parse()
        .map_err(|_| format!("{option} takes a number, not `{given}`"))?;
    if (0.0..1e18).contains(&number) {
        Ok(number as u64)
    } else {
        Err(format!(
            "{option} takes a number from 0 to 10^18, not {given}"
        ))
    }
}

/// The capacity in a name such as `A.1048576.csv`.
fn in_name(path: &Path) -> Option<u64> {
    let stem = path.file_stem()?.to_str()?;
    stem.rsplit('.').next()?.parse().ok()
}

fn read(path: &Path) -> Result<Vec<Block>, String> {
    let name = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = |wanted: &str| {
        let at = header.iter().position(|found| found.trim() == wanted);
        at.ok_or_else(|| format!("{name} has no column {wanted}: {}", header.join(",")))
    };
    let (lower, upper, size) = (column("lower")?, column("upper")?, column("size")?);
    let mut blocks = Vec::new();
    for (row, line) in lines
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let fields: Vec<&str> = line.split(',').collect();
        let field = |at: usize| {
            let number = fields.get(at).and_then(|field| field.trim().parse().ok());
            number.ok_or_else(|| format!("{name}, line {}: no number in `{line}`", row + 2))
        };
        let time = |at: usize| {
            u32::try_from(field(at)?)
                .map_err(|_| format!("{name}, line {}: a time above 2^32", row + 2))
        };
        let (start, end) = (time(lower)?, time(upper)?);
        if end <= start || field(size)? > 1 << 50 {
            return Err(format!(
                "{name}, line {}: a block ends after it begins, and has at most 2^50 bytes: \
                 `{line}`",
                row + 2
            ));
        }
        blocks.push(Block::once(field(size)?, start, end));
    }
    Ok(blocks)
}
