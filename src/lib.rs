//! `runner` carries a plan to completion by starting one fresh agent process after another.

pub mod clock;
pub mod commit;
pub mod fault;
pub mod fs;
pub mod ids;
pub mod project;
pub mod relpath;
pub mod workspace;
