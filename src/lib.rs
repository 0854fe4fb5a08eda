//! `runner` carries a plan to completion by starting one fresh agent process after another, and believes processes, files and
//! its own checks, never prose.
//!
//! The modules in the order in which data flows through them; an arrow never points back:
//!
//! ```text
//! ids relpath fs lock clock project          names, paths, the file door, kernel locks, the clock, places
//! tokens budget                              figures, and what may be used
//!   └─ strict → agents → config              what agents print and need, configuration
//!        → plan → tracker                    cards, rows and their rules
//!        └─ prompt → session → workspace     one bounded prompt, one process tree, the tree it changes
//!             └─ verdict → commit → evidence what it comes to, the commit, the record
//!                  └─ observe → report       facts, and the only writer to standard output and error
//!                  └─ conversation           what was said over several sessions, and how to go on from there
//!                       └─ coordinator → cli the loop, and the command line
//! ```

#[cfg(not(unix))]
compile_error!("runner needs process groups, signals and file modes of a Unix system: use Linux, macOS or WSL");

pub mod agents;
pub mod budget;
pub mod cli;
pub mod clock;
pub mod commit;
pub mod config;
pub mod conversation;
pub mod coordinator;
pub mod evidence;
pub mod fault;
pub mod fs;
pub mod ids;
pub mod lock;
pub mod observe;
pub mod outcome;
pub mod plan;
pub mod project;
pub mod prompt;
pub mod relpath;
pub mod report;
pub mod sample;
pub mod session;
pub mod strict;
pub mod tokens;
pub mod tracker;
pub mod verdict;
pub mod workspace;
