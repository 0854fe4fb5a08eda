//! From a chosen task to everything a launch needs: command, environment, prompt. What fails here fails before any claim.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::agents::PROMPT_ARGUMENT;
use crate::commit::REDIRECTS;
use crate::config::{AgentCommand, Config, Placeholders, expand, find_executable};
use crate::ids::AgentId;
use crate::observe::SessionName;
use crate::plan::Work;
use crate::project::Project;
use crate::prompt::{ContextFault, Prompt, PromptFault};
use crate::tracker::proof::Token;

use super::failure::Failure;
use super::site::workspace_root;

/// What the command line learned from the process it runs in.
#[derive(Debug, Clone)]
pub struct Host {
    /// The whole environment.
    pub environment: BTreeMap<OsString, OsString>,
    /// This binary, absolute.
    pub binary: PathBuf,
    /// Where temporary folders go.
    pub temporary: PathBuf,
    /// Whether it runs as root, as its agents will.
    pub is_root: bool,
}

impl Host {
    /// A variable of the environment.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        self.environment.get(OsStr::new(name)).map(OsString::as_os_str)
    }
}

/// The word for what a session does, as agents and records see it.
pub fn action(work: Work) -> &'static str {
    match work {
        Work::Claim => "claim",
        Work::Review => "review",
    }
}

/// The longest argument the kernel takes, in bytes (`execve(2)`, `MAX_ARG_STRLEN` less the terminating NUL).
const LONGEST_ARGUMENT: usize = (128 << 10) - 1;

/// The configured command for a session, all placeholders replaced and its program found.
#[derive(Debug, Clone)]
pub struct Command {
    /// The arguments as configured, placeholders replaced; only the one for the prompt still stands.
    pub argv: Vec<String>,
    /// The program's file.
    pub program: PathBuf,
    /// How its output is read and how it is ended.
    pub agent: AgentCommand,
}

impl Command {
    /// What is executed: the program's file, then the arguments.
    pub fn to_exec(&self, prompt: &str) -> Vec<OsString> {
        let arguments = self.argv.iter().skip(1);
        let filled = arguments.map(|argument| if argument == PROMPT_ARGUMENT { prompt } else { argument.as_str() });
        std::iter::once(self.program.clone().into_os_string()).chain(filled.map(OsString::from)).collect()
    }

    /// The prompt, if it can be given to this command.
    pub fn accept(&self, prompt: Prompt) -> Result<Prompt, PromptFault> {
        let why = match prompt.text.len() {
            _ if !self.argv.iter().any(|argument| argument == PROMPT_ARGUMENT) => return Ok(prompt),
            length if length > LONGEST_ARGUMENT => {
                format!("has {length} bytes, more than the {LONGEST_ARGUMENT} that an argument may have")
            }
            _ if prompt.text.contains('\0') => "holds a NUL character".to_owned(),
            _ => return Ok(prompt),
        };
        Err(PromptFault::Task(ContextFault::NoArgument { program: self.argv[0].clone(), why }))
    }
}

/// Makes the command for a session.
///
/// `workspace` is the folder the session will work in: `{root}`, and where a relative program is looked for.
pub fn command(
    (project, workspace): (&Project, &Path),
    config: &Config,
    host: &Host,
    name: &SessionName,
) -> Result<Command, Failure> {
    let folder = project.session(&name.agent, name.number);
    let prompt = folder.join("prompt.md");
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let (root, prompt_file, session_dir) = (text(workspace), text(&prompt), text(&folder));
    let values = Placeholders {
        root: &root,
        task: name.task.as_str(),
        role: name.role.as_str(),
        agent: name.agent.as_str(),
        action: action(name.work),
        prompt_file: &prompt_file,
        session_dir: &session_dir,
    };
    let agent = config.agent_of(&name.role)?;
    let argv = expand(&agent.argv, &values)?;
    let program = find_executable(&argv[0], workspace, host.variable("PATH"))?;
    Ok(Command { argv, program, agent })
}

/// The whole environment of a session's process: the coordinator's by the configured rules, then what the contract sets.
pub fn environment(
    (project, config, host): (&Project, &Config, &Host),
    (name, command): (&SessionName, &Command),
    token: &Token,
    temporary: &Path,
) -> BTreeMap<OsString, OsString> {
    let workspace = workspace_root(project, config.workspace.mode);
    let needs = command.agent.needs(host.is_root);
    let mut environment = config.environment.apply(&name.role, &needs, inherited(host));
    confine(&mut environment, (project, &workspace));
    let prompt = project.session(&name.agent, name.number).join("prompt.md");
    let shared: [(&str, &OsStr); 6] = [
        ("TASK_ID", name.task.as_str().as_ref()),
        ("ROLE", name.role.as_str().as_ref()),
        ("AGENT_ID", name.agent.as_str().as_ref()),
        ("ACTION", action(name.work).as_ref()),
        ("PROJECT_ROOT", workspace.as_os_str()),
        ("PROMPT_FILE", prompt.as_os_str()),
    ];
    for (key, value) in shared {
        environment.insert(format!("RUNNER_{key}").into(), value.to_owned());
        environment.insert(format!("LUMA_{key}").into(), value.to_owned());
    }
    environment.insert("RUNNER_STATE_ROOT".into(), project.root().into());
    environment.insert("RUNNER_BIN".into(), host.binary.clone().into());
    environment.insert("RUNNER_TOKEN".into(), token.text().into());
    environment.insert("TMPDIR".into(), temporary.into());
    environment
}

/// The environment of a command that sets a fresh work tree up.
pub(super) fn set_up_environment(
    (project, config, host): (&Project, &Config, &Host),
    workspace: &Path,
) -> BTreeMap<OsString, OsString> {
    let mut environment = config.environment.apply_general(inherited(host));
    confine(&mut environment, (project, workspace));
    environment.insert("RUNNER_PROJECT_ROOT".into(), workspace.into());
    environment.insert("RUNNER_STATE_ROOT".into(), project.root().into());
    environment
}

/// The coordinator's environment without what could mislead or hang a program.
fn inherited(host: &Host) -> BTreeMap<OsString, OsString> {
    let mut inherited = host.environment.clone();
    // No hidden prompt can hang a session: git asks nothing, opens no editor, and ssh opens no dialog.
    inherited.remove(OsStr::new("SSH_ASKPASS"));
    // A run started from a git hook or alias must not lead the agent's git to another repository or index.
    for key in REDIRECTS {
        inherited.remove(OsStr::new(key));
    }
    for (key, value) in [("GIT_TERMINAL_PROMPT", "0"), ("GIT_EDITOR", "true")] {
        inherited.insert(key.into(), value.into());
    }
    inherited
}

/// Keeps git from looking for a repository above a work tree: without its own `.git` that would be the root's.
fn confine(environment: &mut BTreeMap<OsString, OsString>, (project, workspace): (&Project, &Path)) {
    if workspace != project.root() {
        environment.insert("GIT_CEILING_DIRECTORIES".into(), project.trees().into());
    }
}

/// A fresh agent id.
pub fn fresh_agent(role: &crate::ids::Role) -> Result<AgentId, Failure> {
    let mut bytes = [0; 6];
    random(&mut bytes)?;
    Ok(AgentId::fresh(role, bytes))
}

/// A fresh secret.
pub fn fresh_token() -> Result<Token, Failure> {
    let mut bytes = [0; 32];
    random(&mut bytes)?;
    Ok(Token::from_random(bytes))
}

fn random(bytes: &mut [u8]) -> Result<(), Failure> {
    getrandom::fill(bytes).map_err(|error| Failure::System {
        what: "read random bytes",
        source: std::io::Error::other(error.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::Dialect;

    fn command(argv: &[&str]) -> Command {
        let argv: Vec<String> = argv.iter().map(ToString::to_string).collect();
        let agent = AgentCommand { argv: argv.clone(), dialect: Dialect::Plain, preset: None };
        Command { argv, program: "/bin/agent".into(), agent }
    }

    fn prompt(text: &str) -> Prompt {
        Prompt { text: text.to_owned(), sizes: Vec::new() }
    }

    #[test]
    fn the_prompt_stands_for_its_argument_only_where_that_is_the_whole_argument() {
        let command = command(&["agent", "-t", "{prompt}", "x{prompt}"]);
        assert_eq!(command.to_exec("{root} words"), ["/bin/agent", "-t", "{root} words", "x{prompt}"]);
    }

    #[test]
    fn a_prompt_too_long_for_an_argument_is_refused_by_the_agents_name() {
        let (by_argument, by_stdin) = (command(&["mini", "-t", "{prompt}"]), command(&["mini"]));
        let longest = "ä".repeat(LONGEST_ARGUMENT / 2) + "x";
        assert_eq!(longest.len(), LONGEST_ARGUMENT);
        assert!(by_argument.accept(prompt(&longest)).is_ok());
        let error = by_argument.accept(prompt(&(longest.clone() + "x"))).unwrap_err().to_string();
        assert!(error.contains("131072 bytes") && error.contains("and mini takes it as an argument"), "{error}");
        assert!(by_argument.accept(prompt("a\0b")).is_err());
        assert!(by_stdin.accept(prompt(&(longest + "xa\0b"))).is_ok());
    }
}
