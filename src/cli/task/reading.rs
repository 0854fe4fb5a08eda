//! The verbs that only read: `show`, `list`, `next`.

use std::path::Path;

use serde_json::{Value, json};

use crate::coordinator::failure::Failure;
use crate::coordinator::prepare::action;
use crate::fs;
use crate::plan::Plan;
use crate::tracker::ready::{self, Part};

use super::{Bench, Said};

impl Bench<'_> {
    pub(super) fn show(&self, id: Option<&str>) -> Result<Said, Failure> {
        let task = self.task(id)?;
        let card = self.desk.card(&task)?;
        let row = self.desk.store().read_row(&card.stage, &task)?;
        let value = json!({
            "card": serde_json::from_str::<Value>(&card.to_json()).unwrap_or_default(), "row": row,
        });
        if let Some(prompt) = self
            .host
            .variable("RUNNER_PROMPT_FILE")
            .filter(|_| self.environment("RUNNER_TASK_ID") == Some(task.to_string()))
        {
            let text = fs::read(Path::new(prompt))?;
            return Ok(Said::only(value, String::from_utf8_lossy(&text).into_owned()));
        }
        let words = format!("{}\n{}", card.to_json(), row.to_json());
        Ok(Said::only(value, words))
    }

    pub(super) fn list(&self) -> Result<Said, Failure> {
        let plan = Plan::load(self.project)?;
        let board = self.desk.store().read(&plan)?;
        let outlook = ready::outlook(&plan, &board, &Part::Everything);
        let mut lines = Vec::new();
        let mut values = Vec::new();
        for card in plan.tasks() {
            let row = board.row(&card.id);
            let why =
                [&outlook.external, &outlook.unsatisfiable, &outlook.waiting].iter().find_map(|map| map.get(&card.id));
            let first = why.and_then(|why| why.lines().next()).unwrap_or_default();
            lines.push(format!(
                "{:<14} {:<12} {}{}",
                card.id.as_str(),
                row.status.as_str(),
                card.title,
                if first.is_empty() { String::new() } else { format!("  [{first}]") }
            ));
            values.push(json!({
                "id": card.id, "status": row.status, "title": card.title, "external_wait": row.external_wait, "waits": why,
            }));
        }
        Ok(Said::only(json!({ "tasks": values, "revision": board.revision() }), lines.join("\n")))
    }

    pub(super) fn next(&self) -> Result<Said, Failure> {
        let plan = Plan::load(self.project)?;
        let board = self.desk.store().read(&plan)?;
        match ready::ready(&plan, &board, &Part::Everything).first() {
            Some(next) => {
                let words = format!("{} ({}, {})", next.id, action(next.work), next.role);
                Ok(Said::only(json!({ "next": next }), words))
            }
            None => Ok(Said::only(json!({ "next": null }), "nothing is ready".to_owned())),
        }
    }
}
