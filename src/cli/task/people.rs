//! The verbs that only people use: `claim`, and those that may wait for a run.

use serde_json::json;

use crate::coordinator::failure::Failure;
use crate::coordinator::people::{self, Handled, PersonChange};
use crate::ids::{AgentId, Role, TaskId};
use crate::plan::{Plan, Work};
use crate::tracker::desk::Caller;
use crate::tracker::ready::Gates;
use crate::tracker::row::{Claim, Status};
use crate::tracker::rules::Step;
use crate::tracker::store::Batch;

use super::super::host;
use super::who::refuse_automatic;
use super::{Bench, Said, parse, said};

impl Bench<'_> {
    /// A change that is queued while a run is on.
    pub(super) fn person_change(&self, change: &PersonChange) -> Result<Said, Failure> {
        match people::handle(&self.desk, change, &self.desk.stamp())? {
            Handled::Done(what) => {
                let subject = format!("Apply by hand: {what}");
                Ok(Said::only(json!({ "done": what }), what).recorded(subject, None))
            }
            Handled::Queued(path) => {
                let committed = if self.args.commit { ", and goes into a commit with what comes next" } else { "" };
                let words = format!(
                    "a run is on: this is queued and applied when the current session has ended{committed} ({})",
                    path.display()
                );
                Ok(Said::only(json!({ "queued": path }), words))
            }
        }
    }

    /// Takes a task by hand.
    pub(super) fn claim(&self, id: &str, agent: &str, role: &str) -> Result<Said, Failure> {
        let (task, agent, role): (TaskId, AgentId, Role) = (parse(id)?, parse(agent)?, parse(role)?);
        self.refuse_in_session()?;
        let _no_run_meanwhile = self.refuse_during_run()?;
        refuse_automatic(&agent)?;
        let plan = Plan::load(self.project)?;
        let board = self.desk.store().read(&plan)?;
        let card = self.desk.card(&task)?;
        let work = if board.row(&task).status == Status::Review { Work::Review } else { Work::Claim };
        let wanted = if work == Work::Review { &card.reviewer_role } else { &card.role };
        if role != *wanted {
            return Err(Failure::Usage { what: format!("{task} needs the role {wanted} now, not {role}") });
        }
        let config = host::config_or_default(&host::config_path(self.place, self.project))?;
        let gates = Gates::new(&plan, &board);
        if let Some(stage) = gates.stages(&card).next() {
            return Err(Failure::Usage {
                what: format!("{task} waits for stage {stage}; its tasks have to be done first"),
            });
        }
        let waiting_for = gates.dependencies(&card);
        let claim = Claim {
            agent: agent.clone(),
            work,
            session: 0,
            scope: if work == Work::Claim { card.scope.clone() } else { Vec::new() },
            head: None,
            remediation_left: config.max_remediation_depth.saturating_sub(plan.depth(&task)),
            token_hash: None,
            pid: None,
            boot_id: None,
            start_time: None,
        };
        let caller = Caller { name: agent, token: None };
        let changed = self
            .desk
            .change(&task, &caller, |_| Ok((Step::Claim { claim, waiting_for: &waiting_for }, Batch::default())))?;
        Ok(said(&task, &changed).recorded(format!("Claim {task} by hand"), None))
    }
}
