//! The tree a session works in: what is in it, what changed, and whether that was allowed.
//!
//! Owns the walk of the work tree, the frozen ignore rules, the comparison and the watch over what sessions must not touch.
//! Never runs a program, never opens the git repository, and writes only when told to put guarded files back.

mod change;
mod content;
mod diff;
mod folder;
mod glob;
mod ground;
mod guard;
mod ignore_rules;
pub mod lease;
mod links;
mod put_back;
mod scan;
mod scope;
mod snapshot;
mod tracked;
mod walk;

#[cfg(test)]
mod tests;

pub use change::{Change, ChangeKind, Changes, Finding, FindingKind};
pub use glob::Glob;
pub use guard::{Area, Guard, GuardError, Guarded, GuardedPath, Tampering};
pub use put_back::Kept;
pub use scope::{Scope, Violation, Why, violations};
pub use snapshot::{Options, Snapshot, SnapshotError, Snapshotter};
pub use tracked::{IndexStat, Tracked, TrackedFiles};
