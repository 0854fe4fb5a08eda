//! Whole changes on a real folder: what each writes, and what it leaves alone.

use serde_json::json;

use super::*;
use crate::plan::Work;
use crate::tracker::ready::Board;
use crate::tracker::samples::{agent, card, claim_of, id, stage};

struct Place {
    folder: tempfile::TempDir,
    project: Project,
}

impl Place {
    /// A folder with a plan of one stage and the given cards.
    fn new(cards: &[TaskCard]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: String, text: &str| fs::replace(&folder.path().join(path), text.as_bytes()).unwrap();
        write("planning/stages/S00.json".to_owned(), &serde_json::to_string(&stage("S00", 1, &[])).unwrap());
        for card in cards {
            write(format!("planning/tasks/{}.json", card.id), &card.to_json());
        }
        for role in ["backend", "qa", "common"] {
            write(format!("roles/{role}.md"), "Do it.\n");
        }
        let project = Project::open(folder.path()).unwrap();
        Self { folder, project }
    }

    fn desk(&self) -> Desk<'_> {
        Desk::new(&self.project, Clock::fixed(|| jiff::Timestamp::UNIX_EPOCH))
    }

    fn row(&self, task: &str) -> Row {
        self.desk().store().read_row(&"S00".parse().unwrap(), &id(task)).unwrap()
    }

    fn board(&self) -> Board {
        let plan = Plan::load(&self.project).unwrap();
        self.desk().store().read(&plan).unwrap()
    }

    fn claim(&self, task: &str, (name, work): (&str, Work), token: Option<&Token>) {
        let claim = claim_of(name, work, token.map(Token::hash).as_deref());
        let step = Step::Claim { claim, waiting_for: &[] };
        let desk = self.desk();
        let locked = desk.lock_to_write().unwrap();
        let name = agent(name);
        let who = if token.is_some() { Actor::Session(&name) } else { Actor::Person(&name) };
        let row = rules::apply(&id(task), &self.row(task), (who, "T"), step).unwrap();
        locked.write(&Batch::default().row(&"S00".parse().unwrap(), &id(task), &row)).unwrap();
    }

    fn change(&self, task: &str, caller: &Caller, step: Step<'_>) -> Result<Changed> {
        self.desk().change(&id(task), caller, |_| Ok((step, Batch::default())))
    }
}

fn person(name: &str) -> Caller {
    Caller { name: agent(name), token: None }
}

fn session(name: &str, token: &Token) -> Caller {
    Caller { name: agent(name), token: Some(token.clone()) }
}

fn submit() -> Step<'static> {
    Step::Submit { evidence: None, no_change: None }
}

fn approve() -> Step<'static> {
    Step::Approve { evidence: None }
}

fn issue(reason: &str) -> crate::tracker::remediation::Issue {
    let text = json!({"title": "Repair it", "reason": reason}).to_string();
    crate::tracker::remediation::Issue::parse(text.as_bytes()).unwrap()
}

#[test]
fn a_task_is_done_by_hand_from_claim_to_approval() {
    let place = Place::new(&[card("S00-001", &[])]);
    place.claim("S00-001", ("ann", Work::Claim), None);
    assert!(matches!(place.change("S00-001", &person("bob"), submit()), Err(DeskError::Refused(_))));
    place.change("S00-001", &person("ann"), submit()).unwrap();
    assert!(matches!(place.change("S00-001", &person("ann"), approve()), Err(DeskError::Refused(_))));
    place.claim("S00-001", ("bob", Work::Review), None);
    let changed = place.change("S00-001", &person("bob"), approve()).unwrap();
    assert_eq!((changed.from, changed.row.status), (Status::Review, Status::Done));
    assert_eq!(place.row("S00-001"), changed.row);
}

#[test]
fn a_session_without_its_secret_is_refused_and_with_it_the_row_is_signed() {
    let place = Place::new(&[card("S00-001", &[])]);
    let token = Token::from_random([1; 32]);
    place.claim("S00-001", ("auto-a", Work::Claim), Some(&token));
    let before = place.row("S00-001");
    let other = Token::from_random([2; 32]);
    for caller in [person("auto-a"), session("auto-a", &other), session("auto-b", &token), person("ann")] {
        let refused = place.change("S00-001", &caller, submit());
        assert!(matches!(refused, Err(DeskError::Refused(_))), "{caller:?}: {refused:?}");
        let refused = place.desk().escalate(&id("S00-001"), &caller, &issue("r"));
        assert!(matches!(refused, Err(DeskError::Refused(_))), "{caller:?}: {refused:?}");
    }
    assert_eq!(place.row("S00-001"), before);
    place.change("S00-001", &session("auto-a", &token), submit()).unwrap();
    assert!(token.explains(&before, &place.row("S00-001"), ""));
}

#[test]
fn an_escalation_writes_row_card_and_report_and_the_done_remediation_frees_its_origin() {
    let place = Place::new(&[card("S00-001", &[])]);
    let token = Token::from_random([1; 32]);
    place.claim("S00-001", ("auto-a", Work::Claim), Some(&token));
    let changed = place.desk().escalate(&id("S00-001"), &session("auto-a", &token), &issue("no key")).unwrap();
    assert_eq!(changed.remediation, Some(id("S00-001-r1")));
    let row = place.row("S00-001");
    assert_eq!((row.status, row.blocked_by), (Status::Blocked, vec![id("S00-001-r1")]));
    let made = place.desk().card(&id("S00-001-r1")).unwrap();
    assert!(token.explains(&Row::default(), &place.row("S00-001-r1"), &made.to_json()));
    let report = fs::read(&place.folder.path().join("state/handoffs/auto-a-S00-001.md")).unwrap();
    let report = String::from_utf8(report).unwrap();
    assert!(report.contains("Remediation: S00-001-r1") && report.contains("no key"), "{report}");
    place.board();

    place.claim("S00-001-r1", ("ann", Work::Claim), None);
    place.change("S00-001-r1", &person("ann"), submit()).unwrap();
    let changed = place.change("S00-001-r1", &person("bob"), approve()).unwrap();
    assert_eq!(changed.unblocked, Some(id("S00-001")));
    assert_eq!(place.row("S00-001").status, Status::Todo);
}

#[test]
fn the_same_cause_further_down_the_chain_and_the_deepest_level_wait_for_a_person() {
    let place = Place::new(&[card("S00-001", &[])]);
    place.claim("S00-001", ("ann", Work::Claim), None);
    place.desk().escalate(&id("S00-001"), &person("ann"), &issue("Port 80 is in use")).unwrap();
    place.claim("S00-001-r1", ("bob", Work::Claim), None);
    let changed = place.desk().escalate(&id("S00-001-r1"), &person("bob"), &issue("port 8080 is in use")).unwrap();
    assert_eq!((changed.remediation, changed.row.external_wait), (None, true));
    assert!(changed.row.reason.unwrap().contains("S00-001-r1 already exists for the same cause"));

    let answer = Step::Answer { handoff: "h".to_owned(), still_blocked: false };
    place.change("S00-001-r1", &person("cid"), answer).unwrap();
    place.claim("S00-001-r1", ("dan", Work::Claim), None);
    let changed = place.desk().escalate(&id("S00-001-r1"), &person("dan"), &issue("no disk")).unwrap();
    assert_eq!(changed.remediation, Some(id("S00-001-r1-r1")));
}

#[test]
fn an_issue_with_an_unknown_role_changes_nothing() {
    let place = Place::new(&[card("S00-001", &[])]);
    place.claim("S00-001", ("ann", Work::Claim), None);
    let before = place.row("S00-001");
    let mut issue = issue("r");
    issue.reviewer_role = Some("chief".parse().unwrap());
    let error = place.desk().escalate(&id("S00-001"), &person("ann"), &issue).unwrap_err().to_string();
    assert!(error.contains("roles/chief.md"), "{error}");
    assert_eq!(place.row("S00-001"), before);
}

#[test]
fn an_unknown_task_is_named() {
    let place = Place::new(&[card("S00-001", &[])]);
    let error = place.change("S00-009", &person("ann"), submit()).unwrap_err().to_string();
    assert!(error.contains("there is no task S00-009"), "{error}");
}

#[test]
fn the_originals_state_is_converted_before_the_first_change() {
    let place = Place::new(&[card("S00-001", &[]), card("S00-002", &[])]);
    let old = json!({"schema": 1, "tasks": {"S00-001": {"status": "review", "owner": "auto-a"}}}).to_string();
    fs::replace(&place.folder.path().join("state/state.json"), old.as_bytes()).unwrap();
    let changed = place.change("S00-001", &person("ann"), approve()).unwrap();
    assert_eq!((changed.from, changed.row.status), (Status::Review, Status::Done));
    assert_eq!(place.board().row(&id("S00-001")).status, Status::Done);
}
