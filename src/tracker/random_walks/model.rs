//! The life of a task as the specification tells it, without a row.

use std::collections::BTreeSet;

use crate::ids::TaskId;
use crate::plan::Work;
use crate::tracker::row::Status;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    Claim,
    Review,
    Submit,
    Approve,
    Reject,
    Stuck,
    NeedsPerson,
    Release,
    Answer,
    Wait,
    Quarantine,
    Limit,
    Retry,
    /// The coordinator settles a session that has ended.
    Settle,
}

pub(super) const DEEDS: [Deed; 14] = [
    Deed::Claim,
    Deed::Review,
    Deed::Submit,
    Deed::Approve,
    Deed::Reject,
    Deed::Stuck,
    Deed::NeedsPerson,
    Deed::Release,
    Deed::Answer,
    Deed::Wait,
    Deed::Quarantine,
    Deed::Limit,
    Deed::Retry,
    Deed::Settle,
];

/// One task as the specification tells its life.
#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    pub(super) status: Status,
    /// Who holds it or has not been settled yet, to do what.
    pub(super) holder: Option<(String, Work)>,
    pub(super) worked: BTreeSet<String>,
    from: Status,
    pub(super) needs_person: bool,
    pub(super) blocker: Option<TaskId>,
}

impl Model {
    pub(super) fn is_held(&self) -> bool {
        let reviewed = matches!(self.holder, Some((_, Work::Review)));
        self.status == Status::InProgress || (self.status == Status::Review && reviewed)
    }

    fn is_submit_unsettled(&self) -> bool {
        self.status == Status::Review && matches!(self.holder, Some((_, Work::Claim)))
    }

    pub(super) fn allows(&self, deed: Deed, who: &str, dependencies_done: bool) -> bool {
        let (is_coordinator, is_agent) = (who == "coordinator", who.starts_with("auto-"));
        let is_person = !is_coordinator && !is_agent;
        let holds = self.holder.as_ref().is_some_and(|(name, _)| name == who);
        let held_by_agent = self.holder.as_ref().is_some_and(|(name, _)| name.starts_with("auto-"));
        let is_free = self.holder.is_none();
        let is_new = is_free && !is_coordinator && !self.worked.contains(who);
        match deed {
            Deed::Claim => is_new && self.status == Status::Todo && dependencies_done,
            Deed::Review => is_new && self.status == Status::Review,
            Deed::Submit => holds && self.status == Status::InProgress,
            Deed::Approve | Deed::Reject => {
                self.status == Status::Review && if holds { self.is_held() } else { is_new && is_person }
            }
            Deed::Stuck | Deed::NeedsPerson => self.is_held() && (holds || is_coordinator),
            Deed::Release if self.is_submit_unsettled() => is_coordinator,
            Deed::Release => self.is_held() && (is_coordinator || (is_person && !held_by_agent)),
            Deed::Answer => is_person && is_free && self.status == Status::Blocked && self.needs_person,
            Deed::Wait => is_coordinator && is_free && matches!(self.status, Status::Todo | Status::Review),
            Deed::Quarantine => is_coordinator && held_by_agent,
            Deed::Limit | Deed::Retry => is_coordinator && self.is_held(),
            Deed::Settle => is_coordinator && held_by_agent && !self.is_held(),
        }
    }

    /// What an allowed deed makes of it; `still_blocked` and the remediation come from outside.
    pub(super) fn follow(&mut self, deed: Deed, who: &str, (before, still_blocked): (Option<&Model>, bool)) {
        let manual = self.holder.as_ref().is_some_and(|(name, _)| !name.starts_with("auto-"));
        match deed {
            Deed::Claim | Deed::Review => {
                let work = if deed == Deed::Claim { Work::Claim } else { Work::Review };
                self.holder = Some((who.to_owned(), work));
                self.worked.insert(who.to_owned());
                self.status = if deed == Deed::Claim { Status::InProgress } else { Status::Review };
            }
            Deed::Submit => self.status = Status::Review,
            Deed::Approve => self.status = Status::Done,
            Deed::Reject => self.status = Status::Todo,
            Deed::Stuck | Deed::NeedsPerson => {
                self.from = if self.status == Status::InProgress { Status::Todo } else { Status::Review };
                self.status = Status::Blocked;
            }
            Deed::Limit | Deed::Retry => {
                self.status = if self.status == Status::InProgress { Status::Todo } else { Status::Review };
                self.holder = None;
            }
            Deed::Release => {
                let is_executors = self.status == Status::InProgress || self.is_submit_unsettled();
                self.status = if is_executors { Status::Todo } else { Status::Review };
                self.holder = None;
            }
            Deed::Answer => {
                self.needs_person = false;
                if !still_blocked {
                    self.go_on();
                }
            }
            Deed::Wait => {
                (self.from, self.status, self.needs_person) = (self.status, Status::Blocked, true);
            }
            Deed::Quarantine => {
                let before = before.cloned().unwrap_or_default();
                (self.from, self.status, self.needs_person) = (before.status, Status::Blocked, true);
                (self.holder, self.blocker) = (None, None);
            }
            Deed::Settle => self.holder = None,
        }
        if manual && matches!(deed, Deed::Submit | Deed::Approve | Deed::Reject | Deed::Stuck | Deed::NeedsPerson) {
            self.holder = None;
        }
    }

    pub(super) fn go_on(&mut self) {
        self.status = self.from;
        self.blocker = None;
    }
}
