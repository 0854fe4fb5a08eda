//! From a named blocker to a remediation card or to a wait for a person.
//!
//! Pure. Owns the bounds that keep remediation from looping: depth, one blocker each, no duplicate cause, a scope that is part
//! of the origin's. A card that would make the plan faulty is never made.

use std::path::Path;

use serde::Deserialize;

use crate::ids::{Role, TaskId};
use crate::plan::TaskCard;

use super::rules::Refusal;

/// A blocker as an agent or the coordinator names it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Issue {
    /// What is to be done about it, in a few words.
    pub title: String,
    /// What stands in the way.
    pub reason: String,
    /// Who is to remove it; the origin's role if absent.
    #[serde(default)]
    pub role: Option<Role>,
    /// Who reviews that; the origin's reviewer if absent.
    #[serde(default)]
    pub reviewer_role: Option<Role>,
    /// Globs that are part of the origin's scope; all of it if absent.
    #[serde(default)]
    pub scope: Vec<String>,
    /// What holds afterwards.
    #[serde(default)]
    pub outcome: Option<String>,
    /// How to get there.
    #[serde(default)]
    pub steps: Vec<String>,
    /// When it counts as done.
    #[serde(default)]
    pub acceptance: Vec<String>,
    /// How to check it.
    #[serde(default)]
    pub checks: Vec<String>,
    /// Requirement ids.
    #[serde(default)]
    pub requirements: Vec<String>,
    /// Whether only a person can remove it; then no remediation card is made.
    #[serde(default)]
    pub requires_user_input: bool,
}

impl Issue {
    /// Reads an issue as agents write it.
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        let advice = "write one JSON object with `title`, `reason` and optionally `role`, `reviewer_role`, `scope`, `outcome`, \
                      `steps`, `acceptance`, `checks`, `requirements`, `requires_user_input`";
        let issue: Self = serde_json::from_slice(bytes)
            .map_err(|error| Refusal::new(format!("the issue is not readable: {error}"), advice))?;
        for (key, text) in [("title", &issue.title), ("reason", &issue.reason)] {
            if text.trim().is_empty() {
                return Err(Refusal::new(format!("the issue's `{key}` is empty"), advice));
            }
        }
        Ok(issue)
    }
}

/// What is known about the task that is blocked.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    /// Its card.
    pub card: &'a TaskCard,
    /// How many levels of remediation may still be made below it.
    pub levels_left: u32,
    /// Ids that are taken: all remediations ever made of it.
    pub taken: &'a [TaskId],
    /// Causes that are being remediated already, each with the remediation that does: those this task itself descends from.
    pub open_causes: &'a [(TaskId, String)],
}

/// What an escalation comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Escalation {
    /// A remediation task.
    Remediate(Box<TaskCard>),
    /// A wait for a person, and why no remediation was made (none if the issue asked for a person).
    Wait(Option<String>),
}

/// Decides what the blocker `issue` of `origin` comes to; a refusal says what is wrong with the issue itself.
pub fn escalation(origin: Origin<'_>, issue: &Issue) -> Result<Escalation, Refusal> {
    let card = origin.card;
    if issue.requires_user_input {
        return Ok(Escalation::Wait(None));
    }
    check_scope(card, issue)?;
    let cause = normalised(&issue.reason);
    if let Some((remediation, _)) = origin.open_causes.iter().find(|(_, open)| normalised(open) == cause) {
        return Ok(Escalation::Wait(Some(format!("{remediation} already exists for the same cause"))));
    }
    if origin.levels_left == 0 {
        return Ok(Escalation::Wait(Some("remediation may not nest deeper (`max_remediation_depth`)".to_owned())));
    }
    let Some(id) = fresh_id(&card.id, origin.taken) else {
        return Ok(Escalation::Wait(Some("no further remediation id is free".to_owned())));
    };
    let made = remediation_card(card, issue, id);
    // What an agent wrote must not leave a plan behind that nothing can run.
    match TaskCard::parse(Path::new("its card"), made.to_json().as_bytes()) {
        Ok(made) => Ok(Escalation::Remediate(Box::new(made))),
        Err(faults) => {
            let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
            let rule = format!("the issue makes no valid remediation: {}", faults.join("; "));
            Err(Refusal::new(rule, "correct the issue, or leave optional keys out"))
        }
    }
}

fn check_scope(card: &TaskCard, issue: &Issue) -> Result<(), Refusal> {
    for glob in &issue.scope {
        if !is_part_of(glob, &card.scope) {
            return Err(Refusal::new(
                format!(
                    "the remediation's scope {glob:?} is no part of the scope of {} ({})",
                    card.id,
                    card.scope.join(", ")
                ),
                "name a part of it, or ask for a wider scope with \"requires_user_input\": true and the path in the reason",
            ));
        }
    }
    Ok(())
}

fn remediation_card(card: &TaskCard, issue: &Issue, id: TaskId) -> TaskCard {
    let or = |given: &[String], fallback: &[&str]| -> Vec<String> {
        if given.is_empty() { fallback.iter().map(|&text| text.to_owned()).collect() } else { given.to_vec() }
    };
    TaskCard {
        id,
        stage: card.stage.clone(),
        title: issue.title.split_whitespace().collect::<Vec<_>>().join(" "),
        role: issue.role.clone().unwrap_or_else(|| card.role.clone()),
        reviewer_role: issue.reviewer_role.clone().unwrap_or_else(|| card.reviewer_role.clone()),
        scope: if issue.scope.is_empty() { card.scope.clone() } else { issue.scope.clone() },
        inputs: card.inputs.clone(),
        outcome: issue.outcome.clone().unwrap_or_else(|| format!("The blocker of {} is gone.", card.id)),
        steps: or(
            &issue.steps,
            &["Read the blocker report.", "Reproduce the one cause it names.", "Remove that cause and nothing else."],
        ),
        acceptance: or(&issue.acceptance, &["The cause cannot be reproduced any more."]),
        checks: or(&issue.checks, &["Repeat what led to the blocker."]),
        requirements: issue.requirements.clone(),
        depends_on: Vec::new(),
        priority: card.priority,
        verify: Vec::new(),
        origin: Some(card.id.clone()),
    }
}

/// The next free `<ORIGIN>-r<N>`.
fn fresh_id(origin: &TaskId, taken: &[TaskId]) -> Option<TaskId> {
    let prefix = format!("{origin}-r");
    let used = taken.iter().filter_map(|id| id.as_str().strip_prefix(&prefix)?.parse::<u32>().ok());
    format!("{prefix}{}", used.max().unwrap_or(0).checked_add(1)?).parse().ok()
}

/// Whether every path that `glob` matches is certainly matched by one of `scope`. May say no where a yes would be right.
fn is_part_of(glob: &str, scope: &[String]) -> bool {
    scope.iter().any(|whole| whole == glob || covers(whole, glob))
}

/// Whether `whole` matches everything that `part` matches, found by letting `whole` match the text of `part`: its `*` takes
/// any text, also with wildcards in it; its `?` one character or `?`; any other character only itself.
fn covers(whole: &str, part: &str) -> bool {
    if whole.contains('[') {
        return false;
    }
    if part.contains('[') {
        // A class would have to be taken whole; only a final `*` surely does that.
        let prefix = whole.strip_suffix('*').filter(|prefix| !prefix.contains(['*', '?']));
        return prefix.is_some_and(|prefix| part.starts_with(prefix));
    }
    let (whole, part): (Vec<char>, Vec<char>) = (whole.chars().collect(), part.chars().collect());
    let (mut at, mut taken) = (0, 0);
    let mut last_star: Option<(usize, usize)> = None;
    while taken < part.len() {
        match whole.get(at) {
            Some('*') => {
                last_star = Some((at, taken));
                at += 1;
            }
            Some(&c) if c == part[taken] || (c == '?' && part[taken] != '*') => {
                at += 1;
                taken += 1;
            }
            _ => {
                // The last `*` takes one character more.
                let Some((star, from)) = last_star else { return false };
                last_star = Some((star, from + 1));
                (at, taken) = (star + 1, from + 1);
            }
        }
    }
    whole[at..].iter().all(|&c| c == '*')
}

/// A cause with what varies from time to time taken out: case, white space, numbers and ids.
pub fn normalised(reason: &str) -> String {
    let word = |word: &str| -> String {
        let varies = word.len() >= 6 && word.chars().all(|c| c.is_ascii_hexdigit());
        if varies {
            return "#".to_owned();
        }
        let mut out = String::new();
        for c in word.chars() {
            match c {
                '0'..='9' if out.ends_with('#') => {}
                '0'..='9' => out.push('#'),
                c => out.extend(c.to_lowercase()),
            }
        }
        out
    };
    let words = reason.split(|c: char| !c.is_alphanumeric()).filter(|text| !text.is_empty()).map(word);
    let mut words: Vec<String> = words.collect();
    // A number may have come with or without a fraction.
    words.dedup_by(|later, earlier| later == "#" && earlier == "#");
    // Without any word there is nothing to compare but the text itself.
    if words.is_empty() { reason.trim().to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests;
