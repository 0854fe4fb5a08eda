//! The walk itself: folders as jobs on a stack that one or two threads work off. A folder's job pushes its subfolders' jobs.
//!
//! Each job holds the descriptor of the folder above it, so that no path is resolved twice and no link is followed; working
//! off the newest first keeps few of them open.

use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::change::{Finding, FindingKind};
use super::folder::{self, Folder, Item, Kind, Stamp};
use super::ground::{Ground, RuleSource};
use super::ignore_rules::{Level, Patterns};
use super::scan::{Entry, EntryKind, NEVER_WATCHED};
use super::tracked::SUBMODULE;
use crate::relpath::RelPath;

/// Deeper than this a folder is reported, not entered: each level holds a descriptor open.
const DEEPEST: usize = 256;

/// The rules of one folder, by its path from the root.
pub(super) type FolderRules = (Vec<u8>, Arc<Patterns>);

/// What one thread found, in no order but that of each folder.
#[derive(Default)]
pub(super) struct Part {
    pub(super) entries: Vec<Entry>,
    pub(super) findings: Vec<Finding>,
    pub(super) rules: Vec<FolderRules>,
}

/// A folder to be walked.
pub(super) struct Job {
    place: Place,
    here: Here,
}

/// Where a job's folder is to be opened.
enum Place {
    Root(Folder),
    Below(Arc<Folder>, CString),
}

impl Place {
    fn open(self) -> io::Result<(Folder, Vec<Item>)> {
        let mut folder = match self {
            Self::Root(folder) => folder,
            Self::Below(above, name) => Folder::open(above.fd()?, &name)?,
        };
        let items = folder.items()?;
        Ok((folder, items))
    }
}

/// What is known about a folder before it is opened.
#[derive(Default)]
struct Here {
    /// From the root; empty for the root.
    path: Vec<u8>,
    /// The rules of the folders above.
    level: Option<Arc<Level>>,
    /// The tracked files that lie in it: a part of the sorted list.
    tracked: (usize, usize),
    standing: Standing,
    repository: Repository,
    depth: usize,
}

/// What becomes of a folder's untracked files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Standing {
    /// The rules decide file by file.
    #[default]
    Plain,
    /// It, or a folder above it, is ignored.
    Ignored,
    /// It, or a folder above it, is named in `watch`.
    Named,
}

/// Whose a folder is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Repository {
    #[default]
    Own,
    SubmoduleTop,
    Submodule,
}

/// A path that is being looked at.
struct Spot<'a> {
    path: &'a [u8],
    here: &'a Here,
    /// Its place among the tracked files.
    tracked: Option<usize>,
}

impl Job {
    /// The root of the tree, in which all tracked files lie.
    pub(super) fn top(root: BorrowedFd<'_>, tracked: usize) -> io::Result<Self> {
        let place = Place::Root(Folder::open(root, c".")?);
        Ok(Self { place, here: Here { tracked: (0, tracked), ..Here::default() } })
    }
}

/// Jobs not yet begun, and how many are being worked on.
struct Stack {
    jobs: Vec<Job>,
    busy: usize,
}

struct Shared {
    stack: Mutex<Stack>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Stack> {
        // A thread that panicked ends the whole walk when it is joined; until then the others only need the stack.
        self.stack.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job; `None` when nothing is left and nothing more can come.
    fn next(&self) -> Option<Job> {
        let mut stack = self.lock();
        loop {
            if let Some(job) = stack.jobs.pop() {
                stack.busy += 1;
                return Some(job);
            }
            if stack.busy == 0 {
                return None;
            }
            stack = self.changed.wait(stack).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn add(&self, jobs: &mut Vec<Job>) {
        if !jobs.is_empty() {
            self.lock().jobs.append(jobs);
            self.changed.notify_all();
        }
    }
}

/// A job in work. Dropping ends it, also when its thread panics, so that no other thread waits for it for ever.
struct InWork<'a>(&'a Shared);

impl Drop for InWork<'_> {
    fn drop(&mut self) {
        self.0.lock().busy -= 1;
        self.0.changed.notify_all();
    }
}

/// Walks everything from `top` on.
pub(super) fn walk(ground: &Ground<'_>, top: Job, threads: usize) -> Vec<Part> {
    let shared = Shared { stack: Mutex::new(Stack { jobs: vec![top], busy: 0 }), changed: Condvar::new() };
    let work = || {
        let mut worker = Worker { ground, part: Part::default(), more: Vec::new() };
        while let Some(job) = shared.next() {
            let _in_work = InWork(&shared);
            worker.folder(job);
            shared.add(&mut worker.more);
        }
        worker.part
    };
    std::thread::scope(|scope| {
        // A machine that is out of threads only makes it slower.
        let helper = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..threads).filter_map(helper).collect();
        let mut parts = vec![work()];
        for other in others {
            parts.push(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        parts
    })
}

struct Worker<'a> {
    ground: &'a Ground<'a>,
    part: Part,
    /// Jobs that the current one gives rise to.
    more: Vec<Job>,
}

impl Worker<'_> {
    fn folder(&mut self, job: Job) {
        let Job { place, here } = job;
        match place.open() {
            Ok((folder, items)) => self.items(here, &Arc::new(folder), items),
            // Gone since its name was read: absent.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => self.unreadable(&here.path, &e),
        }
    }

    fn items(&mut self, mut here: Here, folder: &Arc<Folder>, items: Vec<Item>) {
        self.enter(&mut here, folder, &items);
        let mut path = here.path.clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        let prefix = path.len();
        let mut expected = here.tracked.0;
        for item in items {
            let name = item.name.to_bytes();
            if here.depth == 0 && NEVER_WATCHED.iter().any(|never| never.as_bytes() == name) {
                continue;
            }
            if name == b".git" {
                if here.repository != Repository::SubmoduleTop {
                    self.finding(&here.path, FindingKind::NestedRepository, String::new());
                }
                continue;
            }
            path.truncate(prefix);
            path.extend_from_slice(name);
            if self.ground.is_shared(&path) {
                continue;
            }
            if item.kind == Kind::Folder {
                let tracked = self.ground.find(&path, here.tracked);
                if let Some(below) = self.below(&Spot { path: &path, here: &here, tracked }) {
                    self.more.push(Job { place: Place::Below(Arc::clone(folder), item.name), here: below });
                }
            } else {
                let tracked = self.ground.place(&path, here.tracked, &mut expected);
                self.file(folder, &item, &Spot { path: &path, here: &here, tracked });
            }
        }
    }

    /// Brings the folder's own ignore rules into force.
    fn enter(&mut self, here: &mut Here, folder: &Folder, items: &[Item]) {
        let own = match self.ground.rules {
            RuleSource::Frozen(rules) => rules.of_folder(&here.path),
            RuleSource::Tree(known) => {
                let has_rules = |item: &Item| item.kind == Kind::File && item.name.as_c_str() == c".gitignore";
                if self.ground.options.git.is_none() || !items.iter().any(has_rules) {
                    return;
                }
                match folder.fd().and_then(|at| folder::read_file(at, ".gitignore".as_ref())) {
                    Ok(text) => {
                        let patterns = known.parse_folder(&here.path, text);
                        self.part.rules.push((here.path.clone(), Arc::clone(&patterns)));
                        Some(patterns)
                    }
                    Err(e) => {
                        let mut path = here.path.clone();
                        path.extend_from_slice(if path.is_empty() { b".gitignore" } else { b"/.gitignore" });
                        return self.unreadable(&path, &e);
                    }
                }
            }
        };
        if let Some(patterns) = own {
            let prefix = if here.path.is_empty() { 0 } else { here.path.len() + 1 };
            here.level = Some(Arc::new(Level { above: here.level.take(), patterns, prefix }));
        }
    }

    /// What is known about a folder, if it is to be walked.
    fn below(&mut self, spot: &Spot<'_>) -> Option<Here> {
        let (ground, here, path) = (self.ground, spot.here, spot.path);
        let is_submodule = spot.tracked.is_some_and(|place| ground.tracked[place].mode == SUBMODULE);
        let tracked = ground.inside(path, here.tracked);
        let standing = match here.standing {
            Standing::Named => Standing::Named,
            _ if ground.is_named(path) => Standing::Named,
            Standing::Plain if !ground.is_ignored(path, true, here.level.as_deref()) => Standing::Plain,
            Standing::Plain | Standing::Ignored => Standing::Ignored,
        };
        let holds_watched = is_submodule || tracked.0 < tracked.1 || ground.leads_to_named(path);
        if standing == Standing::Ignored && !holds_watched {
            return None;
        }
        if is_submodule {
            self.push(spot, EntryKind::Submodule, Stamp::default());
        }
        if here.depth == DEEPEST {
            self.finding(path, FindingKind::TooDeep, format!("at most {DEEPEST} are entered"));
            return None;
        }
        let repository = match here.repository {
            _ if is_submodule => Repository::SubmoduleTop,
            Repository::Own => Repository::Own,
            Repository::SubmoduleTop | Repository::Submodule => Repository::Submodule,
        };
        let (path, level, depth) = (path.to_vec(), here.level.clone(), here.depth + 1);
        Some(Here { path, level, tracked, standing, repository, depth })
    }

    fn file(&mut self, folder: &Folder, item: &Item, spot: &Spot<'_>) {
        let (ground, here, path) = (self.ground, spot.here, spot.path);
        let is_watched = spot.tracked.is_some()
            || match here.standing {
                Standing::Named => true,
                Standing::Ignored => ground.is_named(path),
                Standing::Plain => !ground.is_ignored(path, false, here.level.as_deref()) || ground.is_named(path),
            };
        if !is_watched {
            return;
        }
        let stamp = match folder.fd().and_then(|at| folder::stamp(at, &item.name)) {
            Ok(Some(stamp)) => stamp,
            // Gone since its name was read: absent.
            Ok(None) => return,
            Err(e) => return self.unreadable(path, &e),
        };
        match stamp.kind() {
            Kind::File => self.push(spot, EntryKind::File, stamp),
            Kind::Link => self.push(spot, EntryKind::Link, stamp),
            Kind::Special(what) => self.finding(path, FindingKind::SpecialFile, what.to_owned()),
            // A folder took its place since its name was read.
            Kind::Folder => self.finding(path, FindingKind::Vanished, String::new()),
        }
    }

    fn push(&mut self, spot: &Spot<'_>, kind: EntryKind, stamp: Stamp) {
        self.part.entries.push(Entry {
            path: RelPath::new(spot.path),
            kind,
            stamp,
            is_young: false,
            is_vouched: false,
            content: None,
            tracked: spot.tracked,
            is_in_submodule: spot.here.repository != Repository::Own,
        });
    }

    fn unreadable(&mut self, path: &[u8], error: &io::Error) {
        self.finding(path, FindingKind::Unreadable, error.to_string());
    }

    fn finding(&mut self, path: &[u8], kind: FindingKind, detail: String) {
        self.part.findings.push(Finding { path: RelPath::new(path), kind, detail });
    }
}
