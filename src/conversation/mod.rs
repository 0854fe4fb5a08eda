//! Conversations over several sessions: what was said so far, how to go on from there, and how a caller carries one branch on.
//!
//! A session is a fresh process. To continue one is to start another whose prompt is the history, then the new words. Pure:
//! starts nothing, reads nothing and keeps nothing; docs/conversation.md says which rule comes from where.

mod coordinate;
mod exchange;
mod history;
pub mod prepared;

pub use coordinate::{Completed, Coordination, Execute, Halted, Next, Outcome, Request, Turn, coordinate};
pub use exchange::{Exchange, ExchangeDetails, Message, Speaker};
