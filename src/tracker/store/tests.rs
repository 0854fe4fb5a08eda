//! The store on a real folder, with what a crash at any point leaves.

use serde_json::json;

use super::*;
use crate::tracker::row::Status;
use crate::tracker::samples::{card, id, plan, stage};

const PATIENCE: Duration = Duration::from_mins(1);

struct Place {
    folder: tempfile::TempDir,
    store: Store,
    plan: Plan,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::make_folder(&folder.path().join("planning")).unwrap();
        let project = Project::open(folder.path()).unwrap();
        let plan = plan(&[stage("S00", 1, &[])], &[card("S00-001", &[]), card("S00-002", &[])]);
        Self { folder, store: Store::new(&project), plan }
    }

    fn write(&self, path: &str, text: &str) {
        fs::replace(&self.folder.path().join(path), text.as_bytes()).unwrap();
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_if_present(&self.folder.path().join(path)).unwrap().map(|bytes| String::from_utf8(bytes).unwrap())
    }

    /// What a process leaves that died between the record and the last of its files.
    fn leave_pending(&self, batch: &Batch) {
        let pending = Pending { schema: SCHEMA, batch: batch.clone() };
        self.write("state/.runner/pending.json", &serde_json::to_string(&pending).unwrap());
    }

    fn lock(&self) -> LockedStore<'_> {
        self.store.lock(PATIENCE).unwrap()
    }
}

fn row_at(status: Status) -> Row {
    Row { status, ..Row::default() }
}

fn both_done() -> Batch {
    let stage = "S00".parse().unwrap();
    let done = row_at(Status::Done);
    Batch::default().row(&stage, &id("S00-001"), &done).row(&stage, &id("S00-002"), &done)
}

#[test]
fn what_is_written_is_read_and_the_marker_comes_with_the_first_write() {
    let place = Place::new();
    assert_eq!(place.store.read(&place.plan).unwrap(), Board::default());
    place.lock().write(&both_done()).unwrap();
    let board = place.store.read(&place.plan).unwrap();
    assert_eq!(board.row(&id("S00-002")).status, Status::Done);
    assert_eq!(place.read("state/state.json").unwrap(), "{\n  \"schema\": 2\n}\n");
    assert_eq!(place.read("state/.runner/pending.json"), None);
    assert_eq!(place.read("state/tasks/S00/S00-001.json").unwrap(), row_at(Status::Done).to_json());
}

#[test]
fn a_batch_can_take_a_task_away_again() {
    let place = Place::new();
    let stage: StageId = "S00".parse().unwrap();
    let made = card("S00-002-r1", &[]);
    place.lock().write(&Batch::default().card(&made).row(&stage, &made.id, &Row::default())).unwrap();
    assert!(place.read("planning/tasks/S00-002-r1.json").is_some());
    place.lock().write(&Batch::default().without_task(&stage, &made.id)).unwrap();
    assert_eq!(place.read("planning/tasks/S00-002-r1.json"), None);
    assert_eq!(place.read("state/tasks/S00/S00-002-r1.json"), None);
}

#[test]
fn a_record_left_by_a_crash_is_seen_by_readers_and_finished_by_the_next_holder_of_the_lock() {
    for half_applied in [false, true] {
        let place = Place::new();
        place.lock().write(&Batch::default().text("state/handoffs/a.md", "a")).unwrap();
        if half_applied {
            place.write("state/tasks/S00/S00-001.json", &row_at(Status::Done).to_json());
        }
        place.leave_pending(&both_done().text("state/handoffs/b.md", "b"));
        let board = place.store.read(&place.plan).unwrap();
        assert_eq!([board.row(&id("S00-001")).status, board.row(&id("S00-002")).status], [Status::Done; 2]);
        let row = place.store.read_row(&"S00".parse().unwrap(), &id("S00-002")).unwrap();
        assert_eq!(row.status, Status::Done, "a single row is overlaid too");
        assert_eq!(place.read("state/tasks/S00/S00-002.json"), None, "a reader writes nothing");
        drop(place.lock());
        assert_eq!(place.read("state/tasks/S00/S00-002.json").unwrap(), row_at(Status::Done).to_json());
        assert_eq!(place.read("state/handoffs/b.md").as_deref(), Some("b"));
        assert_eq!(place.read("state/.runner/pending.json"), None);
    }
}

#[test]
fn a_record_that_takes_a_task_away_is_overlaid_too() {
    let place = Place::new();
    place.lock().write(&both_done()).unwrap();
    let stage = "S00".parse().unwrap();
    place.leave_pending(&Batch::default().without_task(&stage, &id("S00-002")));
    assert_eq!(place.store.read(&place.plan).unwrap().row(&id("S00-002")), &Row::default());
    assert_eq!(place.store.read_row(&stage, &id("S00-002")).unwrap(), Row::default());
}

#[test]
fn a_record_of_a_newer_version_or_with_a_path_elsewhere_is_never_applied() {
    let place = Place::new();
    for (record, wanted) in [
        (json!({"schema": 3, "files": {"state/x": "x"}}), "has schema 3"),
        (json!({"schema": 2, "files": {"../x": "x"}}), "writes ../x"),
        (json!({"schema": 2, "files": {"state/../x": "x"}}), "writes state/../x"),
        (json!({"schema": 2, "files": {"/x": "x"}}), "writes /x"),
        (json!({"schema": 2, "files": {"x": "x"}}), "writes x"),
        (json!({"schema": 2}), "missing field `files`"),
    ] {
        place.write("state/.runner/pending.json", &record.to_string());
        let error = place.store.lock(PATIENCE).unwrap_err().to_string();
        assert!(error.contains(wanted), "{record}: {error}");
        assert!(place.store.read(&place.plan).is_err());
        assert_eq!((place.read("x"), place.read("state/x")), (None, None));
    }
}

#[test]
fn a_newer_state_is_refused_and_never_written_over() {
    let place = Place::new();
    let newer = "{\"schema\": 3, \"shape\": \"unknown\"}";
    place.write("state/state.json", newer);
    assert!(matches!(place.store.read(&place.plan), Err(StoreError::Newer { schema: 3, .. })));
    assert!(matches!(place.lock().write(&both_done()), Err(StoreError::Newer { .. })));
    assert_eq!(place.read("state/state.json").as_deref(), Some(newer));
    assert_eq!(place.read("state/tasks/S00/S00-001.json"), None);

    let place = Place::new();
    place.lock().write(&both_done()).unwrap();
    place.write("state/tasks/S00/S00-001.json", newer);
    let stage = "S00".parse().unwrap();
    assert!(matches!(place.store.read(&place.plan), Err(StoreError::Newer { schema: 3, .. })));
    assert!(matches!(place.lock().read_row(&stage, &id("S00-001")), Err(StoreError::Newer { .. })));
    assert!(matches!(place.lock().write(&both_done()), Err(StoreError::Newer { .. })), "nor is a single row");
    assert_eq!(place.read("state/tasks/S00/S00-001.json").as_deref(), Some(newer));
}

#[test]
fn every_inconsistent_row_is_named_at_once() {
    let place = Place::new();
    place.lock().write(&Batch::default().text("state/handoffs/a.md", "a")).unwrap();
    let blocked = row_at(Status::Blocked).to_json();
    place.write("state/tasks/S00/S00-001.json", &blocked);
    place.write("state/tasks/S00/S00-002.json", "{");
    place.write("state/tasks/S00/S00-003.json", &Row::default().to_json());
    place.write("state/tasks/S01/S00-002.json", &Row::default().to_json());
    place.write("state/tasks/S00/notes.txt", "not a row");
    let error = place.store.read(&place.plan).unwrap_err().to_string();
    for wanted in [
        "S00-001.json: a blocked task names a blocker",
        "S00-001.json: `blocked_from` is set exactly while",
        "S00-002.json:1:1: EOF",
        "S00-003.json has no card planning/tasks/S00-003.json",
        "S01/S00-002.json lies in the folder of another stage than S00",
        "restore the files with git",
    ] {
        assert!(error.contains(wanted), "{wanted}: {error}");
    }
    assert!(!error.contains("notes.txt"), "{error}");
}

#[test]
fn an_unknown_key_in_a_row_is_refused_with_its_place() {
    let place = Place::new();
    let text = Row::default().to_json().replace("\"attempts\"", "\"attemps\"");
    place.write("state/tasks/S00/S00-001.json", &text);
    let error = place.store.read(&place.plan).unwrap_err().to_string();
    assert!(error.contains("S00-001.json:7:") && error.contains("unknown field `attemps`"), "{error}");
}

#[test]
fn a_locked_state_is_busy_and_free_again_with_its_holder() {
    let place = Place::new();
    let held = place.lock();
    let error = place.store.lock(Duration::from_millis(1)).unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }), "{error}");
    drop(held);
    drop(place.lock());
}

#[test]
fn the_originals_file_is_read_as_it_is_and_converted_whole() {
    let place = Place::new();
    let old = json!({"schema": 1, "tasks": {"S00-001": {"status": "done"}, "S00-002": {"status": "todo"}},
        "events": [{"action": "approve", "task": "S00-001", "agent": "auto-q"}, {"action": "x", "task": "S99-001"}]})
    .to_string();
    place.write("state/state.json", &old);
    let stage = "S00".parse().unwrap();
    assert_eq!(place.store.read(&place.plan).unwrap().row(&id("S00-001")).status, Status::Done);
    assert_eq!(place.store.read_row(&stage, &id("S00-001")).unwrap().status, Status::Done);
    assert!(
        matches!(place.lock().write(&both_done()), Err(StoreError::Inconsistent { .. })),
        "not before it is converted"
    );
    assert_eq!(place.read("state/state.json").as_deref(), Some(old.as_str()));

    assert!(place.lock().needs_conversion().unwrap());
    place.lock().convert(&place.plan).unwrap();
    assert!(!place.lock().needs_conversion().unwrap());
    assert_eq!(place.store.read(&place.plan).unwrap().row(&id("S00-001")).events.len(), 1);
    assert_eq!(place.read("state/state.json").unwrap(), marker_text());
    assert_eq!(place.read("state/tasks/S00/S00-002.json"), None, "a task that nothing happened to has no row");
    assert!(place.read("state/original.json").unwrap().contains("S99-001"), "nothing is lost");
}
