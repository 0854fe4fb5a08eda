//! The rows of all tasks: pure transition rules, pure ready order, remediation, and the durable store.

mod batch;
pub mod breaker;
mod convert;
pub mod desk;
mod escalation;
mod outlook;
pub mod proof;
pub mod ready;
pub mod remediation;
pub mod row;
pub mod rules;
mod step;
pub mod store;

#[cfg(test)]
mod random_walks;
#[cfg(test)]
mod samples;
