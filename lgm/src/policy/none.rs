//! `none`: everything stays. The arena is as large as the peak.

use super::Task;
use crate::queues::Overfull;
use crate::schedule::Schedule;

pub(super) fn schedule(task: Task<'_>) -> Result<Schedule, Overfull> {
    Schedule::new(task.graph, task.pages, Vec::new(), task.capacity, task.link)
}
