//! What a session prints: followed while it grows, kept within bounds, never in the agent's way.
//!
//! The agent writes into scratch files without a name, so that nothing of them outlives the session; the supervisor reads
//! them, gives their space back (punched holes) and keeps the head and the newest end in a log of its own. A pipe would
//! lose what an agent that exits has not sent yet.

mod log;
mod record;
mod scratch;
mod streams;

pub use record::{DrainStatus, LimitAction, OutputBounds, OutputRecord, StreamRecord};
pub(crate) use streams::{Streams, Tap};
