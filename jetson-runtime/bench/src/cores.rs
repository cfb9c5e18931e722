//! The same work for many, on all cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The results of `work` for each number below `count`, in order; `done` is called after each.
///
/// # Panics
/// If `work` does.
pub(crate) fn on_all_cores<T: Clone + Send>(
    count: usize,
    work: impl Fn(usize) -> T + Sync,
    done: &(impl Fn() + Sync),
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(vec![None; count]);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads.min(count) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    let result = work(index);
                    let mut results = results.lock().expect("no thread panics while it has it");
                    results[index] = Some(result);
                    drop(results);
                    done();
                }
            });
        }
    });
    let results = results.into_inner().expect("a panic would have ended it");
    let all = results
        .into_iter()
        .map(|result| result.expect("each is done"));
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order() {
        let done = AtomicUsize::new(0);
        let squares = on_all_cores(100, |n| n * n, &|| {
            done.fetch_add(1, Ordering::Relaxed);
        });
        assert!(
            squares
                .iter()
                .enumerate()
                .all(|(n, square)| n * n == *square)
        );
        assert_eq!(done.into_inner(), 100);
        assert!(on_all_cores(0, |n| n, &|| {}).is_empty());
    }
}
