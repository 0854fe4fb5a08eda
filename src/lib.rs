//! `runner` carries a plan to completion by starting one fresh agent process after another.

pub mod clock;
pub mod config;
pub mod fault;
pub mod fs;
pub mod ids;
pub mod plan;
pub mod project;
pub mod prompt;
pub mod relpath;
pub mod strict;
