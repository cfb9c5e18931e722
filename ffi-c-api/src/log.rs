//! What the library has to say, to the application's own callback.
//!
//! In: `tracing` events of the crates below. Out: one call of the callback for each, with a level
//! and a line of text.
//!
//! Guarantees: an event goes to the callback of the runtime whose call it happens in, on the thread
//! of that call; nothing is said while a frozen program runs as recorded. Without a callback
//! nothing is formatted.
//!
//! How: one dispatcher for the process, set when the first runtime with a callback is created, and
//! for each thread the sink of the call that it is in. So a call costs one write to thread-local
//! memory, which a dispatcher for each call would not.
//!
//! Limits: if the process has a global `tracing` dispatcher already (a Rust program that links this
//! crate), that one stays, and callbacks hear nothing.

use core::cell::Cell;
use core::ffi::{CStr, c_char, c_void};
use core::fmt::{self, Write};
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

/// `vt_log_fn`: level, source and message are valid during the call.
pub type VtLogFn = unsafe extern "C" fn(
    user: *mut c_void,
    level: u32,
    source: *const c_char,
    message: *const c_char,
);

/// Something failed that the application cannot repair.
pub const VT_LOG_ERROR: u32 = 1;
/// Something is slower or other than it should be.
pub const VT_LOG_WARN: u32 = 2;
/// What was chosen.
pub const VT_LOG_INFO: u32 = 3;
/// Details.
pub const VT_LOG_DEBUG: u32 = 4;
/// All details.
pub const VT_LOG_TRACE: u32 = 5;

/// Where a runtime's events go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sink {
    pub(crate) callback: VtLogFn,
    pub(crate) user: *mut c_void,
    /// The most talkative level that is wanted.
    pub(crate) level: u32,
}

// SAFETY: the header says that callback and user pointer are used from whichever thread calls.
unsafe impl Send for Sink {}

thread_local! {
    /// The sink of the call that this thread is in.
    static CURRENT: Cell<Option<Sink>> = const { Cell::new(None) };
}

/// Routes this thread's events to a sink until it is dropped.
pub(crate) struct Scope {
    before: Option<Sink>,
}

impl Scope {
    /// Begins a call of a runtime with this sink.
    pub(crate) fn new(sink: Option<Sink>) -> Self {
        Self {
            before: CURRENT.replace(sink),
        }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

/// Makes sure that events are heard.
pub(crate) fn listen() {
    static LISTENING: Once = Once::new();
    // It fails if the process has a dispatcher already; see the limits above.
    LISTENING.call_once(|| {
        drop(tracing::dispatcher::set_global_default(Dispatch::new(
            Router,
        )))
    });
}

/// The dispatcher's end: it looks for the sink of the thread.
struct Router;

impl Router {
    fn number(level: Level) -> u32 {
        match level {
            Level::ERROR => VT_LOG_ERROR,
            Level::WARN => VT_LOG_WARN,
            Level::INFO => VT_LOG_INFO,
            Level::DEBUG => VT_LOG_DEBUG,
            _ => VT_LOG_TRACE,
        }
    }
}

impl Subscriber for Router {
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }

    /// Never decided once for all: the sink is another in each call.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let level = Self::number(*metadata.level());
        metadata.is_event() && CURRENT.get().is_some_and(|sink| level <= sink.level)
    }

    fn event(&self, event: &Event<'_>) {
        let Some(sink) = CURRENT.get() else {
            return;
        };
        let mut line = Line::default();
        event.record(&mut line);
        let source = terminated(event.metadata().target().to_owned());
        let message = terminated(line.message + &line.fields);
        let level = Self::number(*event.metadata().level());
        // The callback may call the library again, and for another runtime: that is no event of
        // this one.
        let _silent = Scope::new(None);
        // SAFETY: the application gave a function of this type; the texts outlive the call.
        unsafe { (sink.callback)(sink.user, level, text(&source), text(&message)) };
    }

    // Spans are not used below; a dispatcher has to answer for them all the same.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// A text with a final NUL, and none before it.
fn terminated(text: String) -> Vec<u8> {
    let mut bytes = text.into_bytes();
    bytes
        .iter_mut()
        .filter(|byte| **byte == 0)
        .for_each(|byte| *byte = b'?');
    bytes.push(0);
    bytes
}

fn text(bytes: &[u8]) -> *const c_char {
    CStr::from_bytes_with_nul(bytes).map_or(c"".as_ptr(), CStr::as_ptr)
}

/// An event's message, then its other fields.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Line {
    fn add(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        // Writing to a string does not fail; a value that fails to format itself is left out.
        let _ = match field.name() {
            "message" => self.message.write_fmt(value),
            name => write!(self.fields, "; {name}: {value}"),
        };
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format_args!("{value:?}"));
    }
}
