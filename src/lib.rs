//! `runner` carries a plan to completion by starting one fresh agent process after another.

pub mod clock;
pub mod fault;
pub mod fs;
pub mod ids;
pub mod lock;
pub mod plan;
pub mod project;
pub mod relpath;
pub mod sample;
pub mod tracker;
