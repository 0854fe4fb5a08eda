//! The walk itself: folders as jobs on a stack that one or two threads work off. A folder's job pushes its subfolders' jobs.
//!
//! Each job holds the descriptor of the folder above it, so that no path is resolved twice and no link is followed; working
//! off the newest first keeps few of them open.

use std::cmp::Ordering;
use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::change::{Finding, FindingKind};
use super::folder::{self, Folder, Item, Kind, Stamp};
use super::ignore_rules::{Level, Patterns, Rules};
use super::scan::{Entry, EntryKind, NEVER_WATCHED, RuleSource};
use super::snapshot::Options;
use super::tracked::{SUBMODULE, Tracked};
use crate::relpath::RelPath;

/// Deeper than this a folder is reported, not entered: each level holds a descriptor open.
const DEEPEST: usize = 256;

/// The rules of one folder, by its path from the root.
pub(super) type FolderRules = (Vec<u8>, Arc<Patterns>);

/// What all threads look at.
pub(super) struct Ground<'a> {
    pub(super) options: &'a Options,
    pub(super) tracked: &'a [Tracked],
    pub(super) rules: RuleSource<'a>,
}

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
    /// It, or a folder above it, is ignored.
    is_ignored: bool,
    /// It, or a folder above it, is named in `watch`.
    is_named: bool,
    is_submodule_top: bool,
    is_in_submodule: bool,
    depth: usize,
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

    fn done(&self, more: &mut Vec<Job>) {
        let mut stack = self.lock();
        stack.busy -= 1;
        stack.jobs.append(more);
        self.changed.notify_all();
    }
}

/// Marks a job as done also when its thread panics, so that no other thread waits for it for ever.
struct Finish<'a>(&'a Shared, Vec<Job>);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.done(&mut self.1);
    }
}

/// Walks everything from `top` on.
pub(super) fn walk(ground: &Ground<'_>, top: Job, threads: usize) -> Vec<Part> {
    let shared = Shared { stack: Mutex::new(Stack { jobs: vec![top], busy: 0 }), changed: Condvar::new() };
    let work = || {
        let mut worker = Worker { ground, part: Part::default() };
        while let Some(job) = shared.next() {
            let mut finish = Finish(&shared, Vec::new());
            worker.folder(job, &mut finish.1);
        }
        worker.part
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
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
}

impl Worker<'_> {
    fn folder(&mut self, job: Job, more: &mut Vec<Job>) {
        let Job { place, here } = job;
        match place.open() {
            Ok((folder, items)) => self.items(here, &Arc::new(folder), items, more),
            // Gone since its name was read: absent.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => self.unreadable(&here.path, &e),
        }
    }

    fn items(&mut self, mut here: Here, folder: &Arc<Folder>, items: Vec<Item>, more: &mut Vec<Job>) {
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
                if !here.is_submodule_top {
                    self.finding(&here.path, FindingKind::NestedRepository, String::new());
                }
                continue;
            }
            path.truncate(prefix);
            path.extend_from_slice(name);
            if item.kind == Kind::Folder {
                if let Some(below) = self.below(&here, &path) {
                    more.push(Job { place: Place::Below(Arc::clone(folder), item.name), here: below });
                }
            } else {
                let tracked = self.ground.place(&path, here.tracked, &mut expected);
                self.file(&here, folder, (&path, &item), tracked);
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

    /// What is known about the folder `path`, if it is to be walked.
    fn below(&mut self, here: &Here, path: &[u8]) -> Option<Here> {
        let ground = self.ground;
        let submodule = ground.find(path, here.tracked).filter(|place| ground.tracked[*place].mode == SUBMODULE);
        let tracked = ground.inside(path, here.tracked);
        let is_named = here.is_named || ground.is_named(path);
        let is_ignored = !is_named && (here.is_ignored || ground.is_ignored(path, true, here));
        if is_ignored && submodule.is_none() && tracked.0 == tracked.1 && !ground.leads_to_named(path) {
            return None;
        }
        if submodule.is_some() {
            self.push(here, path, (EntryKind::Submodule, Stamp::default()), submodule);
        }
        if here.depth == DEEPEST {
            self.unreadable(path, &io::Error::other(format!("it lies more than {DEEPEST} folders deep")));
            return None;
        }
        Some(Here {
            path: path.to_vec(),
            level: here.level.clone(),
            tracked,
            is_ignored,
            is_named,
            is_submodule_top: submodule.is_some(),
            is_in_submodule: here.is_in_submodule || submodule.is_some(),
            depth: here.depth + 1,
        })
    }

    fn file(&mut self, here: &Here, folder: &Folder, (path, item): (&[u8], &Item), tracked: Option<usize>) {
        let ground = self.ground;
        let is_wanted = tracked.is_some()
            || here.is_named
            || !(here.is_ignored || ground.is_ignored(path, false, here))
            || ground.is_named(path);
        if !is_wanted {
            return;
        }
        let stamp = match folder.fd().and_then(|at| folder::stamp(at, &item.name)) {
            Ok(Some(stamp)) => stamp,
            // Gone since its name was read: absent.
            Ok(None) => return,
            Err(e) => return self.unreadable(path, &e),
        };
        match stamp.kind() {
            Kind::File => self.push(here, path, (EntryKind::File, stamp), tracked),
            Kind::Link => self.push(here, path, (EntryKind::Link, stamp), tracked),
            Kind::Special(what) => self.finding(path, FindingKind::SpecialFile, what.to_owned()),
            // A folder took its place since its name was read.
            Kind::Folder => self.finding(path, FindingKind::Vanished, String::new()),
        }
    }

    fn push(&mut self, here: &Here, path: &[u8], (kind, stamp): (EntryKind, Stamp), tracked: Option<usize>) {
        self.part.entries.push(Entry {
            path: RelPath::new(path),
            kind,
            stamp,
            is_young: false,
            is_vouched: false,
            content: None,
            tracked,
            is_in_submodule: here.is_in_submodule,
        });
    }

    fn unreadable(&mut self, path: &[u8], error: &io::Error) {
        self.finding(path, FindingKind::Unreadable, error.to_string());
    }

    fn finding(&mut self, path: &[u8], kind: FindingKind, detail: String) {
        self.part.findings.push(Finding { path: RelPath::new(path), kind, detail });
    }
}

impl Ground<'_> {
    /// Whether `path` in the folder `here` is ignored by a rule of its own, or by name where there is no git.
    fn is_ignored(&self, path: &[u8], is_folder: bool, here: &Here) -> bool {
        if self.options.git.is_none() {
            let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            return is_folder && self.options.exclude.iter().any(|excluded| excluded.as_bytes() == name);
        }
        let rules: &Rules = match self.rules {
            RuleSource::Tree(rules) | RuleSource::Frozen(rules) => rules,
        };
        rules.is_ignored(path, is_folder, here.level.as_deref())
    }

    /// Whether `watch` names `path`.
    fn is_named(&self, path: &[u8]) -> bool {
        self.options.watch.iter().any(|watch| watch.trim_end_matches('/').as_bytes() == path)
    }

    /// Whether `watch` names something below `path`.
    fn leads_to_named(&self, path: &[u8]) -> bool {
        self.options.watch.iter().any(|watch| is_below(watch.as_bytes(), path))
    }

    /// The place of `path` among the tracked files; `expected` is where it is if none is missing.
    fn place(&self, path: &[u8], range: (usize, usize), expected: &mut usize) -> Option<usize> {
        let is_expected = (range.0..range.1).contains(expected) && self.tracked[*expected].path.as_bytes() == path;
        let place = if is_expected { *expected } else { self.find(path, range)? };
        *expected = place + 1;
        Some(place)
    }

    fn find(&self, path: &[u8], (from, to): (usize, usize)) -> Option<usize> {
        let found = self.tracked[from..to].binary_search_by(|tracked| tracked.path.as_bytes().cmp(path));
        found.ok().map(|place| from + place)
    }

    /// The part of the tracked files that lies below `folder`.
    fn inside(&self, folder: &[u8], (from, to): (usize, usize)) -> (usize, usize) {
        let tracked = &self.tracked[from..to];
        let start = tracked.partition_point(|tracked| is_before_folder(tracked.path.as_bytes(), folder));
        let length = tracked[start..].partition_point(|tracked| is_below(tracked.path.as_bytes(), folder));
        (from + start, from + start + length)
    }
}

fn is_below(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// Whether `path` sorts before everything that lies in `folder`.
fn is_before_folder(path: &[u8], folder: &[u8]) -> bool {
    let common = path.len().min(folder.len());
    match path[..common].cmp(&folder[..common]) {
        Ordering::Equal => path.get(common).is_none_or(|byte| *byte < b'/'),
        order => order.is_lt(),
    }
}
