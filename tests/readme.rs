//! What the README and the pages under `docs/` say is what the program does.
//!
//! The demo's excerpt comes from a real run, every command that is named exists, and the tables of configuration keys and
//! exit codes are those of the code.
#![expect(clippy::disallowed_methods, reason = "the doors keep the product; tests read files and start the binary")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use runner::config::Config;
use runner::outcome::Stop;
use serde_json::Value;
use tempfile::TempDir;

/// The binary in an environment without anybody's configuration.
fn sealed(program: &str, home: &Path) -> Command {
    let mut command = Command::new(program);
    let path = std::env::var_os("PATH").expect("tests run with a PATH");
    command.env_clear().env("PATH", path).env("HOME", home).env("GIT_CONFIG_GLOBAL", "/dev/null").current_dir(home);
    command
}

fn runner(home: &Path, args: &[&str]) -> Output {
    sealed(env!("CARGO_BIN_EXE_runner"), home).args(args).output().expect("the binary starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

/// A file of the repository.
fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).expect("the page can be read")
}

/// README, the pages under `docs/` and the file for contributors.
fn pages() -> Vec<(String, String)> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let listed = fs::read_dir(docs).expect("docs can be listed").map(|entry| entry.expect("an entry").path());
    let names = listed.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let mut names: Vec<String> =
        names.map(|path| format!("docs/{}", path.file_name().expect("a name").to_string_lossy())).collect();
    names.extend(["README.md".to_owned(), "CONTRIBUTING.md".to_owned()]);
    names.into_iter().map(|name| (name.clone(), page(&name))).collect()
}

/// A finished demo.
struct Demo {
    _home: TempDir,
    dir: PathBuf,
    output: Output,
}

impl Demo {
    fn run() -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        let dir = home.path().join("demo");
        let output = runner(home.path(), &["demo", dir.to_str().expect("a plain path")]);
        Self { _home: home, dir, output }
    }

    fn git(&self, args: &[&str]) -> String {
        let output = sealed("git", &self.dir).args(args).output().expect("git starts");
        assert!(output.status.success(), "git {args:?}: {}", text(&output.stderr));
        text(&output.stdout).trim_end().to_owned()
    }
}

/// Lines with everything masked that differs between two runs: the folder, agents, commits, seconds.
fn masked(shown: &str) -> Vec<String> {
    let dir = shown
        .lines()
        .find_map(|line| line.strip_prefix("The sample project lies in ")?.split_once(". A script"))
        .map_or("?", |(dir, _)| dir);
    shown.trim().lines().map(|line| masked_line(&line.replace(dir, "DIR"))).collect()
}

fn masked_line(line: &str) -> String {
    if line.trim_start().starts_with("look at state/runs/auto-") {
        return "    look at state/runs/AGENT/1/".to_owned();
    }
    if let Some((_, subject)) = line.trim_start().strip_prefix("commit ").and_then(|rest| rest.split_once("  ")) {
        return format!("    commit ID  {subject}");
    }
    match line.rsplit_once("  (") {
        Some((before, seconds)) if seconds.ends_with(" s)") => format!("{before}  (SECONDS)"),
        _ => line.to_owned(),
    }
}

/// The excerpt of the README; a line `…` stands for lines left out.
fn excerpt(readme: &str) -> Vec<Vec<String>> {
    let (_, rest) = readme.split_once("<!-- demo-output -->\n```text\n").expect("the README has an excerpt");
    let (block, _) = rest.split_once("```\n<!-- /demo-output -->").expect("the excerpt ends");
    let lines = masked(block);
    lines.split(|line| line == "…").map(|part| part.join("\n").trim().lines().map(str::to_owned).collect()).collect()
}

#[test]
fn the_demo_prints_what_the_readme_shows_and_ends_complete_with_a_commit_for_each_session() {
    let demo = Demo::run();
    let shown = text(&demo.output.stderr);
    assert_eq!(demo.output.status.code(), Some(0), "{shown}");

    let lines = masked(&shown);
    let mut from = 0;
    for part in excerpt(&page("README.md")) {
        let found = lines[from..].windows(part.len()).position(|window| window == part);
        let at =
            found.unwrap_or_else(|| panic!("the demo does not print\n{}\nbut\n{}", part.join("\n"), lines.join("\n")));
        assert!(from > 0 || at == 0, "the excerpt begins where the demo begins");
        from += at + part.len();
    }
    assert_eq!(from, lines.len(), "the excerpt ends where the demo ends");

    let result: Value = serde_json::from_slice(&demo.output.stdout).expect("one JSON object on standard output");
    let launched = result["launched"].as_u64().expect("a number of sessions");
    assert_eq!(result["stop"], "complete");
    assert!(launched >= 10, "{launched} sessions");
    assert_eq!(demo.git(&["rev-list", "--count", "HEAD"]), (1 + launched).to_string());
    assert_eq!(demo.git(&["status", "--porcelain"]), "");
    assert_eq!(result["last_commit"], demo.git(&["rev-parse", "HEAD"]));

    let actions = demo.git(&["log", "--format=%(trailers:key=Action,valueonly,separator=%x2C)"]);
    let count = |action: &str| actions.lines().filter(|line| *line == action).count();
    assert_eq!((count("reject"), count("escalate")), (1, 1), "one rejection, one blocker: {actions}");
    assert!(demo.dir.join("planning/tasks/S01-001-r1.json").is_file(), "the blocker got a remediation card");
}

#[test]
fn what_the_demo_tells_people_to_do_next_works() {
    let demo = Demo::run();
    let shown = text(&demo.output.stderr);
    let (_, advice) = shown.split_once("Look at what came of it:\n").expect("the demo says how to look at the result");
    let commands: Vec<&str> = advice.lines().filter_map(|line| line.strip_prefix("  ")).collect();
    assert!(commands.len() >= 4, "{advice}");
    let script = commands.iter().map(|line| line.split("  ").next().unwrap_or(line)).collect::<Vec<_>>().join(" && ");
    let ran = sealed("sh", &demo.dir).args(["-c", &script]).output().expect("sh starts");
    assert!(ran.status.success(), "{script}\n{}", text(&ran.stderr));

    let told = page("src/sample/README.md");
    for line in told.lines().filter_map(|line| line.strip_prefix("    ")) {
        let command = line.split("  ").next().unwrap_or(line);
        let ran = sealed("sh", &demo.dir).args(["-c", command]).output().expect("sh starts");
        assert!(ran.status.success() && !ran.stdout.is_empty(), "{command}\n{}", text(&ran.stderr));
    }
}

#[test]
fn the_first_screen_of_the_readme_holds_the_two_commands() {
    let readme = page("README.md");
    let first: Vec<&str> = readme.lines().take(24).collect();
    for command in ["cargo run --release -- demo", "cargo test --all-features"] {
        assert!(first.contains(&command), "{command} is not among the first lines:\n{}", first.join("\n"));
    }
}

/// Every step of "your own plan in five minutes", with a few lines of shell as the agent.
#[test]
fn five_minutes_with_the_readme_end_with_a_task_that_is_done() {
    const AGENT: &str = r#"case $RUNNER_ACTION in
        claim) mkdir -p docs && echo 'make test' >docs/testing.md
            "$RUNNER_BIN" task submit --subject "Write down how to test" --changes "A page." --validation "Ran it." ;;
        review) "$RUNNER_BIN" task approve --subject "Accept the page on tests" --changes "None." --validation "Read it." ;;
        esac"#;
    let home = tempfile::tempdir().expect("a temporary folder");
    let shell = |script: &str| {
        let binary = env!("CARGO_BIN_EXE_runner");
        let script = format!("set -e\nrunner() {{ '{binary}' \"$@\"; }}\n{script}");
        let output = sealed("sh", home.path()).args(["-c", &script]).output().expect("sh starts");
        assert!(output.status.success(), "{script}\n{}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    };
    shell(
        "git init -q && git config user.name Ann && git config user.email ann@example.org
        echo hello >README.md && git add -A && git commit -q -m 'Say hello to the world'",
    );
    assert!(shell("runner init").contains("made      planning/tasks/S00-001.json"));
    let example: Value = serde_json::from_str(&shell("cat runner.example.json")).expect("the example is JSON");
    let mut config = example.clone();
    config["argv"] = serde_json::json!(["sh", "-c", AGENT]);
    fs::write(home.path().join("runner.local.json"), config.to_string()).expect("the configuration can be written");

    let early: Value = serde_json::from_str(&shell("runner --dry-run")).expect("JSON");
    let problem = early["preflight_error"].as_str().expect("nothing is committed yet");
    assert!(problem.contains("planning/tasks/S00-001.json") && problem.contains("AGENTS.md"), "{problem}");

    shell("git add -A && git commit -q -m 'Add a plan'");
    let preview: Value = serde_json::from_str(&shell("runner --dry-run")).expect("JSON");
    assert_eq!((&preview["next"]["id"], &preview["preflight_error"]), (&"S00-001".into(), &Value::Null));
    assert_eq!(shell("runner task next"), "S00-001 (claim, executor)\n");
    let result: Value = serde_json::from_str(&shell("runner -q")).expect("JSON");
    assert_eq!((&result["stop"], &result["launched"]), (&"complete".into(), &2.into()));
    assert!(shell("runner task list").starts_with("S00-001        done "));
    assert_eq!(shell("git status --porcelain"), "");
}

/// A row of the configuration table: key, and what stands under "type, range, default".
fn configuration_rows(readme: &str) -> Vec<(String, String)> {
    let (_, rest) = readme.split_once("| key | type, range, default | meaning |\n|---|---|---|\n").expect("the table");
    rest.lines()
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.split(" | ").collect();
            (cells[0].trim_matches(['|', ' ', '`']).to_owned(), cells[1].to_owned())
        })
        .collect()
}

/// What stands last in a cell "type, range, default"; a list begins at its bracket.
fn default_of(cell: &str) -> Option<String> {
    let from = match cell.find(['[', '{']) {
        Some(bracket) => bracket,
        None => cell.rfind(", ")? + 2,
    };
    if &cell[from..] == "none" {
        return None;
    }
    Some(cell[from..].trim_matches('`').to_owned())
}

fn config(key: &str, value: &str) -> Result<Config, String> {
    let json = format!("{{\"{key}\": {value}}}");
    Config::parse(Path::new("runner.local.json"), json.as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn the_configuration_table_names_exactly_the_keys_that_are_accepted() {
    let refused = config("zzzzzzzzzzzzzzzzzzzzzz", "1").expect_err("no such key");
    let (_, known) = refused.split_once("the keys here are ").expect("the message lists the keys");
    let known: BTreeSet<&str> = known.trim().split(", ").collect();
    let rows = configuration_rows(&page("README.md"));
    assert_eq!(rows.iter().map(|(key, _)| key.as_str()).collect::<BTreeSet<_>>(), known);
    assert_eq!(rows.len(), known.len(), "no key twice");
}

#[test]
fn the_configuration_table_has_the_defaults_and_the_ranges_of_the_code() {
    for (key, cell) in configuration_rows(&page("README.md")) {
        let Some(default) = default_of(&cell) else {
            assert!(
                ["agent", "argv", "context_files", "report"].contains(&key.as_str()),
                "the table has no default for {key}"
            );
            continue;
        };
        assert_eq!(config(&key, &default).as_ref(), Ok(&Config::default()), "{key}: {default}");
        let range = cell.split_once(' ').and_then(|(_, rest)| rest.split(',').next()?.split_once(".."));
        let Some((least, greatest)) = range else { continue };
        let (least, greatest): (i64, i64) = (least.parse().expect("a number"), greatest.parse().expect("a number"));
        for (number, is_fine) in [(least, true), (greatest, true), (least - 1, false), (greatest + 1, false)] {
            assert_eq!(config(&key, &number.to_string()).is_ok(), is_fine, "{key}: {number}");
        }
    }
}

#[test]
fn the_page_of_exit_codes_and_the_help_are_those_of_the_code() {
    const SIGTERM: i32 = 15;
    let pages = [page("docs/exit-codes.md"), page("README.md")];
    let help = text(&runner(&std::env::temp_dir(), &["--help"]).stdout);
    for stop in Stop::ALL {
        let name = serde_json::to_value(stop).expect("a name");
        let code = stop.exit_code(SIGTERM);
        let shown = if stop == Stop::Interrupted { "128+n".to_owned() } else { code.to_string() };
        assert!(stop != Stop::Interrupted || code == 128 + 15);
        let row =
            |line: &&str| line.starts_with(&format!("| {shown} |")) && line.contains(name.as_str().unwrap_or("?"));
        assert!(pages[0].lines().any(|line| row(&line)), "docs/exit-codes.md: {shown} {name}");
        assert!(pages[1].lines().any(|line| line.starts_with(&format!("| {shown} |"))), "README: {shown}");
        assert!(help.lines().any(|line| line.trim_start().starts_with(&format!("{shown} "))), "--help: {shown}");
    }
    let named = pages[0].lines().filter(|line| line.starts_with("| ")).filter(|line| line.ends_with("` |")).count();
    assert_eq!(named, Stop::ALL.len(), "each stop once");
}

/// The words of a command as a shell would split it; it ends where something else begins.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in command.chars() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, '>' | '#' | '|' | ';' | '&' | '…' | '[') => break,
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// What stands behind `runner` in each invocation: in inline code, in blocks, and in what agents call.
fn invocations(page: &str) -> Vec<String> {
    let starts = ["`runner ", "\nrunner ", "\n    runner ", "\"$RUNNER_BIN\" ", "bin/runner\" "];
    let ends = |start: &str| if start.starts_with('`') { '`' } else { '\n' };
    starts
        .iter()
        .flat_map(|start| {
            page.match_indices(start).map(move |(at, _)| {
                let rest = &page[at + start.len()..];
                rest.split(ends(start)).next().unwrap_or_default().split('`').next().unwrap_or_default().to_owned()
            })
        })
        .collect()
}

#[test]
fn every_command_that_the_pages_name_exists() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let mut seen = BTreeSet::new();
    for (name, text_of_page) in pages() {
        for invocation in invocations(&text_of_page) {
            let mut args = words(&invocation);
            if !seen.insert(args.clone()) {
                continue;
            }
            // Options are read in order, so an unknown one in front of it is refused.
            args.push("--help".to_owned());
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let output = runner(home.path(), &args);
            assert!(output.status.success(), "{name}: runner {invocation}\n{}", text(&output.stderr));
        }
    }
    assert!(seen.len() >= 15, "only these were found: {seen:?}");
}

#[test]
fn every_link_between_the_pages_leads_to_a_file() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (name, text_of_page) in pages() {
        for (at, _) in text_of_page.match_indices("](") {
            let target = text_of_page[at + 2..].split(')').next().unwrap_or_default();
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") {
                continue;
            }
            let found = top.join(&name).parent().is_some_and(|folder| folder.join(file).exists());
            assert!(found, "{name} links to {target}");
        }
    }
}

#[test]
fn every_test_that_a_page_names_for_a_promise_exists() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = String::new();
    let mut folders = vec![top.join("src"), top.join("tests")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of this package").filter_map(Result::ok) {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            } else if entry.path().extension().is_some_and(|kind| kind == "rs") {
                sources.push_str(&fs::read_to_string(entry.path()).expect("a source is text"));
            }
        }
    }
    let mut seen = 0;
    for (name, text_of_page) in pages() {
        let Some((_, table)) = text_of_page.split_once("## Promise and test") else { continue };
        let table = table.split("\n## ").next().unwrap_or_default();
        for test in table.split('`').skip(1).step_by(2).filter(|word| word.matches('_').count() >= 4) {
            assert!(sources.contains(&format!("fn {test}(")), "{name} names the test {test}, which is not there");
            seen += 1;
        }
    }
    assert!(seen >= 20, "only {seen} tests are named");
}
