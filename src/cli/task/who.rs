//! Who asks: a session's agent, a person by name, or the user at a terminal.

use std::io::IsTerminal;

use crate::coordinator::failure::Failure;
use crate::coordinator::holder;
use crate::ids::AgentId;
use crate::lock::Lock;
use crate::tracker::desk::Caller;
use crate::tracker::proof::Token;

use super::super::host;
use super::{Bench, parse};

impl Bench<'_> {
    /// Who asks: the person named, the session's agent, or the user at a terminal.
    pub(super) fn caller(&self) -> Result<(Caller, Option<Lock>), Failure> {
        if self.args.person.is_none()
            && let Some(agent) = self.environment("RUNNER_AGENT_ID")
        {
            let token = self.environment("RUNNER_TOKEN").map(|text| Token::from_text(&text));
            return Ok((Caller { name: parse(&agent)?, token }, None));
        }
        let name = self.person()?;
        let no_run_meanwhile = self.refuse_during_run()?;
        Ok((Caller { name, token: None }, Some(no_run_meanwhile)))
    }

    /// The person who acts: `--as`, else the user at a terminal. A session's agent is no person.
    pub(super) fn person(&self) -> Result<AgentId, Failure> {
        self.refuse_in_session()?;
        let name = match &self.args.person {
            Some(name) => name.clone(),
            None if std::io::stdin().is_terminal() => self.environment("USER").unwrap_or_else(|| "person".to_owned()),
            None => {
                return Err(Failure::Usage {
                    what: "say who acts with --as NAME: this is neither a session nor a terminal".to_owned(),
                });
            }
        };
        let name: AgentId = parse(&name)?;
        refuse_automatic(&name)?;
        Ok(name)
    }

    pub(super) fn refuse_in_session(&self) -> Result<(), Failure> {
        let below_a_run = matches!(holder::keep_away(self.project)?, Err(about) if holder::is_above_us(&about));
        if host::is_in_session(self.host) || below_a_run {
            let what = "a session acts only as its own agent, and this is a person's verb: end with submit, approve, reject or \
                        escalate";
            return Err(Failure::Usage { what: what.to_owned() });
        }
        Ok(())
    }

    /// The person who answers or adds: as [`Self::person`], and where nobody says who, simply a person.
    pub(super) fn somebody(&self) -> Result<AgentId, Failure> {
        self.refuse_in_session()?;
        if self.args.person.is_some() {
            return self.person();
        }
        let user = self.environment("USER").and_then(|user| user.parse().ok());
        let user = user.filter(|name: &AgentId| !name.is_automatic());
        user.map_or_else(|| parse("person"), Ok)
    }

    /// Keeps runs away while a person's verb is carried out; refuses while one is on.
    pub(super) fn refuse_during_run(&self) -> Result<Lock, Failure> {
        holder::keep_away(self.project)?.map_err(|holder| Failure::RunIsOn { holder })
    }
}

/// Refuses a name that only the coordinator gives.
pub(super) fn refuse_automatic(name: &AgentId) -> Result<(), Failure> {
    if name.is_automatic() {
        return Err(Failure::Usage {
            what: format!("{name} is a name of the coordinator's agents; choose one that does not begin with auto-"),
        });
    }
    Ok(())
}
