//! Random walks through the life of several tasks, by everybody who can ask for a change, beside a plain model of it.
//!
//! The model says which change is allowed and what follows; rules, ready order and outlook have to agree at every step.

mod model;

use std::collections::{BTreeMap, BTreeSet};

use model::{DEEDS, Deed, Model};
use proptest::prelude::*;

use crate::ids::{AgentId, TaskId};
use crate::plan::{Plan, Work};

use super::desk::{Caller, actor, created};
use super::proof::Token;
use super::ready::{Board, Part, outlook, ready};
use super::remediation::{self, Escalation, Issue, Origin};
use super::row::{Action, Row, Status};
use super::rules::{self, Actor, Blocker, Refusal, Step};
use super::samples::{agent, card, claim_of, plan, stage};

const WHO: [&str; 8] = ["auto-a", "auto-b", "auto-c", "auto-d", "auto-e", "ann", "bob", "coordinator"];
const DEPTH: u32 = 2;

/// The table of the task's life: which action leads from where to where.
const TABLE: [(Action, Status, Status); 26] = {
    use Status::{Blocked, Done, InProgress, Review, Todo};
    [
        (Action::Create, Todo, Todo),
        (Action::Claim, Todo, InProgress),
        (Action::Review, Review, Review),
        (Action::Submit, InProgress, Review),
        (Action::Approve, Review, Done),
        (Action::Reject, Review, Todo),
        (Action::Escalate, InProgress, Blocked),
        (Action::Escalate, Review, Blocked),
        (Action::Release, InProgress, Todo),
        (Action::Release, Review, Review),
        (Action::Limit, InProgress, Todo),
        (Action::Limit, Review, Review),
        (Action::Retry, InProgress, Todo),
        (Action::Retry, Review, Review),
        (Action::Release, Review, Todo),
        (Action::Answer, Blocked, Todo),
        (Action::Answer, Blocked, Review),
        (Action::Unblock, Blocked, Todo),
        (Action::Unblock, Blocked, Review),
        (Action::Wait, Todo, Blocked),
        (Action::Wait, Review, Blocked),
        // Whatever the session had made of it.
        (Action::Quarantine, InProgress, Blocked),
        (Action::Quarantine, Review, Blocked),
        (Action::Quarantine, Todo, Blocked),
        (Action::Quarantine, Done, Blocked),
        (Action::Quarantine, Blocked, Blocked),
    ]
};

/// Plan, board and model side by side.
struct World {
    plan: Plan,
    board: Board,
    models: BTreeMap<TaskId, Model>,
    /// The row and the model before the last claim of each task.
    before: BTreeMap<TaskId, (Row, Model)>,
    made: usize,
}

impl World {
    fn new() -> Self {
        let cards = [card("S00-001", &[]), card("S00-002", &["S00-001"]), card("S01-001", &[])];
        let plan = plan(&[stage("S00", 1, &[]), stage("S01", 2, &["S00"])], &cards);
        let models = plan.tasks().iter().map(|task| (task.id.clone(), Model::default())).collect();
        Self { plan, board: Board::default(), models, before: BTreeMap::new(), made: 0 }
    }

    /// Tries one deed; rules and model have to agree on whether it is allowed and on what follows.
    fn step(&mut self, task: &TaskId, deed: Deed, who: &str) {
        let card = self.plan.task(task).unwrap().clone();
        let waiting_for = self.board.unfinished(&card.depends_on);
        let model = self.models[task].clone();
        let allowed = model.allows(deed, who, waiting_for.is_empty());
        let row = self.board.row(task).clone();
        let before = self.before.get(task).cloned().unwrap_or_default();
        let open = !self.board.unfinished(&row.blocked_by).is_empty();
        let (issue, planned) = self.escalation(task, deed);
        let reason = issue.reason.clone();
        let step = match deed {
            Deed::Claim => Step::Claim { claim: claim(who, Work::Claim), waiting_for: &waiting_for },
            Deed::Review => Step::Claim { claim: claim(who, Work::Review), waiting_for: &[] },
            Deed::Submit => Step::Submit { evidence: None, no_change: None },
            Deed::Approve => Step::Approve { evidence: None },
            Deed::Reject => Step::Reject { reason, handoff: "h".to_owned() },
            Deed::Stuck | Deed::NeedsPerson => {
                let blocker = match &planned {
                    Escalation::Remediate(made) => Blocker::Task(made.id.clone()),
                    Escalation::Wait(_) => Blocker::Person,
                };
                Step::Escalate { reason, handoff: "h".to_owned(), blocker }
            }
            Deed::Release => Step::Release { note: reason },
            Deed::Limit => Step::Limit { note: reason },
            Deed::Retry => Step::Retry { note: reason },
            Deed::Answer => Step::Answer { handoff: "h".to_owned(), still_blocked: open },
            Deed::Wait => Step::Wait { reason },
            Deed::Quarantine if allowed || who != "coordinator" => {
                Step::Quarantine { before: &before.0, reason, handoff: "h".to_owned() }
            }
            Deed::Settle if allowed => {
                self.board.set(task.clone(), Row { claim: None, ..row });
                return self.follow(task, (deed, who), open);
            }
            // The coordinator only ever does this to a session of its own.
            Deed::Quarantine | Deed::Settle => return,
        };
        let made = apply(task, &row, who, step);
        assert_eq!(made.is_ok(), allowed, "{who} {deed:?} {task}: {made:?}\n{model:?}\n{row:?}");
        let Ok(made) = made else { return };
        if matches!(deed, Deed::Claim | Deed::Review) {
            self.before.insert(task.clone(), (row, model));
        }
        let is_done = made.status == Status::Done;
        self.board.set(task.clone(), made);
        self.follow(task, (deed, who), open);
        if matches!(deed, Deed::Stuck | Deed::NeedsPerson) {
            self.remember(task, planned, who);
        }
        if is_done {
            self.free(card.origin.as_ref());
        }
    }

    fn follow(&mut self, task: &TaskId, (deed, who): (Deed, &str), open: bool) {
        let before = self.before.get(task).map(|(_, model)| model.clone());
        self.models.get_mut(task).unwrap().follow(deed, who, (before.as_ref(), open));
    }

    /// What this world's next blocker comes to; each has a cause of its own.
    fn escalation(&mut self, task: &TaskId, deed: Deed) -> (Issue, Escalation) {
        self.made += 1;
        let cause: String = self.made.to_string().bytes().map(|digit| char::from(b'g' + (digit - b'0'))).collect();
        let text = format!("{{\"title\": \"Repair it\", \"reason\": \"cause {cause}\"}}");
        let mut issue = Issue::parse(text.as_bytes()).unwrap();
        issue.requires_user_input = deed == Deed::NeedsPerson;
        let card = self.plan.task(task).unwrap();
        let taken: Vec<_> = self.plan.remediations_of(task).map(|made| made.id.clone()).collect();
        let levels_left = DEPTH.saturating_sub(self.plan.depth(task));
        let planned = remediation::escalation(Origin { card, levels_left, taken: &taken, open_causes: &[] }, &issue);
        (issue, planned.unwrap())
    }

    /// Puts a made remediation into plan, board and model, or notes that a person has to answer.
    fn remember(&mut self, task: &TaskId, planned: Escalation, who: &str) {
        let model = self.models.get_mut(task).unwrap();
        match planned {
            Escalation::Remediate(made) => {
                model.blocker = Some(made.id.clone());
                self.models.insert(made.id.clone(), Model::default());
                self.board.set(made.id.clone(), created(who, "T", "remediates it", None));
                self.plan = self.plan.with(*made).expect("a remediation fits into the plan");
            }
            Escalation::Wait(_) => model.needs_person = true,
        }
    }

    /// Lets the origin of a remediation that is done go on.
    fn free(&mut self, origin: Option<&TaskId>) {
        let Some(origin) = origin else { return };
        let row = self.board.row(origin);
        let model = self.models.get_mut(origin).unwrap();
        let is_freed = model.status == Status::Blocked
            && !model.needs_person
            && model.blocker.as_ref().is_some_and(|blocker| self.board.row(blocker).status == Status::Done);
        if is_freed {
            let row = rules::apply(origin, row, (Actor::Coordinator, "T"), Step::Unblock).unwrap();
            self.board.set(origin.clone(), row);
            model.go_on();
        }
    }

    /// Everything that anybody may do now, as the model has it.
    fn options(&self) -> Vec<(TaskId, Deed, &'static str)> {
        let mut options = Vec::new();
        for (task, model) in &self.models {
            let is_free = self.board.unfinished(&self.plan.task(task).unwrap().depends_on).is_empty();
            for deed in DEEDS {
                let who = WHO.into_iter().filter(|who| model.allows(deed, who, is_free));
                options.extend(who.map(|who| (task.clone(), deed, who)));
            }
        }
        options
    }

    fn check(&self) {
        let ready = ready(&self.plan, &self.board, &Part::Everything);
        let outlook = outlook(&self.plan, &self.board, &Part::Everything);
        assert_eq!(outlook.unsatisfiable, BTreeMap::new());
        for (task, model) in &self.models {
            let row = self.board.row(task);
            check_row(task, row, model);
            let places = [
                row.status == Status::Done,
                ready.iter().any(|item| item.id == *task),
                outlook.external.contains_key(task),
                outlook.waiting.contains_key(task),
            ];
            assert_eq!(places.iter().filter(|is_there| **is_there).count(), 1, "{task} {places:?} {row:?}");
            assert!(self.plan.depth(task) <= DEPTH);
        }
        for item in &ready {
            let claim = claim("auto-new", item.work);
            apply(&item.id, self.board.row(&item.id), "auto-new", Step::Claim { claim, waiting_for: &[] }).unwrap();
        }
    }
}

fn claim(who: &str, work: Work) -> super::row::Claim {
    let hash = Token::from_text(who).hash();
    claim_of(who, work, who.starts_with("auto-").then_some(hash.as_str()))
}

/// The step as `who` asks for it: agents with their own secret, people without one.
fn apply(task: &TaskId, row: &Row, who: &str, step: Step<'_>) -> Result<Row, Refusal> {
    let name: AgentId = agent(who);
    if who == "coordinator" {
        return rules::apply(task, row, (Actor::Coordinator, "T"), step);
    }
    if name.is_automatic() && matches!(step, Step::Claim { .. }) {
        return rules::apply(task, row, (Actor::Session(&name), "T"), step);
    }
    let token = name.is_automatic().then(|| Token::from_text(who));
    let caller = Caller { name, token };
    let who = actor(task, row, &caller).map_err(|error| Refusal::new(error.to_string(), "none"))?;
    rules::apply(task, row, (who, "T"), step)
}

fn check_row(task: &TaskId, row: &Row, model: &Model) {
    assert_eq!(rules::faults(row), Vec::<String>::new(), "{task}: {row:?}");
    assert_eq!(row.status, model.status, "{task}");
    assert_eq!(row.external_wait, model.needs_person && model.status == Status::Blocked, "{task}");
    assert_eq!(row.blocked_by, Vec::from_iter(model.blocker.clone()), "{task}");
    let holder = row.claim.as_ref().map(|claim| (claim.agent.to_string(), claim.work));
    assert_eq!(holder, model.holder, "{task}");
    assert_eq!(row.agents.iter().map(ToString::to_string).collect::<BTreeSet<_>>(), model.worked, "{task}");
    let mut status = Status::Todo;
    for (place, event) in row.events.iter().enumerate() {
        assert!(TABLE.contains(&(event.action, event.from, event.to)), "{task}: {event:?}");
        assert_eq!((event.seq, event.from), (place as u64 + 1, status), "{task}: the events tell one story");
        status = event.to;
    }
    assert_eq!(status, row.status, "{task}: the events explain the row");
    for (place, event) in row.events.iter().enumerate() {
        let is_verdict = matches!(event.action, Action::Approve | Action::Reject);
        let mut earlier = row.events[..place].iter().filter(|earlier| earlier.action == Action::Claim);
        assert!(
            !is_verdict || earlier.all(|claim| claim.agent != event.agent),
            "{task}: {} judged itself",
            event.agent
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn no_walk_leaves_the_table_or_the_model(
        walk in proptest::collection::vec((0..64_usize, 0..DEEDS.len(), 0..WHO.len()), 1..80)
    ) {
        let mut world = World::new();
        for (task, deed, who) in walk {
            let tasks: Vec<TaskId> = world.models.keys().cloned().collect();
            world.step(&tasks[task % tasks.len()], DEEDS[deed], WHO[who]);
            world.check();
        }
    }
}

/// xorshift64: a walk is the same on every machine.
struct Random(u64);

impl Random {
    fn choose<'t, T>(&mut self, options: &'t [T]) -> Option<&'t T> {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        options.get(usize::try_from(self.0 >> 8).unwrap() % options.len().max(1))
    }
}

/// Random deeds are mostly refused; this walk prefers those that are allowed and so comes to every corner.
#[test]
fn walks_of_allowed_deeds_reach_every_line_of_the_table() {
    let mut seen: Vec<(Action, Status, Status)> = Vec::new();
    for seed in 1..=256_u64 {
        let mut world = World::new();
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for _ in 0..120 {
            let options = world.options();
            // The deed first, so that the rare ones get their turn.
            let deeds: Vec<Deed> = DEEDS.into_iter().filter(|deed| options.iter().any(|o| o.1 == *deed)).collect();
            let Some(&deed) = random.choose(&deeds) else { break };
            let options: Vec<_> = options.into_iter().filter(|option| option.1 == deed).collect();
            let Some((task, deed, who)) = random.choose(&options) else { break };
            world.step(task, *deed, who);
            world.check();
        }
        seen.extend(world.board.rows().flat_map(|(_, row)| &row.events).map(|e| (e.action, e.from, e.to)));
    }
    let missed: Vec<_> = TABLE.iter().filter(|line| !seen.contains(line)).collect();
    assert!(missed.is_empty(), "{missed:?}");
}
