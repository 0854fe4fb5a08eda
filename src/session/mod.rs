//! One process tree: started, supervised, ended, proved gone.
//!
//! ```text
//! launch / tool ─→ spawn ─→ run: wait ─→ Input ─→ supervisor (pure) ─→ Actions ─→ tree ─→ ExecutionResult
//!                             ↑ signals, row_watch, pidfds, deadlines            handle, process_table
//! sweep: what a coordinator that was killed left behind, by what its environment holds
//! ```
//!
//! The only room that starts or signals processes. Never decides what a result means for a task, and never writes state.
//! Linux first: elsewhere there are no pidfds, no folder watch and no subreaper, so events are found by looking a few times a
//! second, only the leader's process group is ended, and a sweep finds nothing.

mod adopting;
mod control;
mod direct;
mod guarded;
mod guardian;
mod handle;
mod identity;
mod keeper;
mod launch;
mod membership;
mod output;
mod pause;
mod process_table;
mod result;
mod row_watch;
mod run;
mod signals;
mod slot;
mod spawn;
mod stage;
mod supervisor;
mod sweep;
mod tail;
mod timekeeper;
mod tool;
mod tree;
mod usage;
mod wait;

pub use crate::agents::{StopSignal, Stream};
pub use guardian::guardian;
pub use identity::{ProcessIdentity, identity, is_alive, is_ancestor};
pub use launch::{Launch, Limits, Watched, run, run_alone};
pub use output::{DrainStatus, LimitAction, OutputBounds, OutputRecord, StreamRecord};
pub use pause::pause;
pub use result::{Ended, ExecutionResult, Exit, Ladder, LeakedProcess, RESULT_SCHEMA, signal_name};
pub use signals::Signals;
pub use stage::{Cause, Owner, Stage, StageRecord};
pub use sweep::{Leftovers, MARK_VARIABLE, Swept, sweep};
pub use tail::tail;
pub use tool::{STDERR_KEPT, STDOUT_KEPT, Tool, ToolError, ToolOutput, run_tool};
pub use usage::Usage;
