//! How each well-known agent is started, and what is known of its limits. One flat table.

use std::fmt;
use std::str::FromStr;

use super::{Dialect, UnknownName};

/// The argument that stands for the whole prompt; replaced at the launch, and kept as it is in every record.
pub const PROMPT_ARGUMENT: &str = "{prompt}";

/// An agent that is started by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Preset {
    /// `OpenAI`'s `codex`.
    Codex,
    /// Anthropic's `claude`.
    Claude,
    /// Google's `gemini`.
    Gemini,
    /// `opencode`.
    Opencode,
    /// `qwen`, Qwen Code.
    Qwen,
    /// `aider`.
    Aider,
    /// `mini`, mini-swe-agent.
    Mini,
}

/// By which signal an agent is asked to end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGTERM.
    #[default]
    Terminate,
    /// SIGINT, for an agent that cleans up on it and does not on SIGTERM.
    Interrupt,
}

/// How the prompt reaches an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptWay {
    /// On standard input.
    Stdin,
    /// As one argument, which the kernel limits (`execve(2)`).
    Argument,
}

/// What an agent's environment needs besides what it is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Variables that are set, whatever was inherited.
    pub set: Vec<(&'static str, &'static str)>,
    /// Variables that are set unless they are set already.
    pub default: Variables,
    /// Variables that must not reach it.
    pub remove: &'static [&'static str],
}

/// Names and values.
pub type Variables = &'static [(&'static str, &'static str)];

/// All that is known of one agent.
struct Facts {
    dialect: Dialect,
    before_model: &'static [&'static str],
    model: &'static str,
    after_extra: &'static [&'static str],
    set: Variables,
    set_for_root: Variables,
    default: Variables,
    remove: &'static [&'static str],
    stop: StopSignal,
    prompt: PromptWay,
    limits: &'static [&'static str],
}

/// What every agent's list of limits begins from: the answers of the usual case.
const USUAL: Facts = Facts {
    dialect: Dialect::Plain,
    before_model: &[],
    model: "-m",
    after_extra: &[],
    set: &[],
    set_for_root: &[],
    default: &[],
    remove: &[],
    stop: StopSignal::Terminate,
    prompt: PromptWay::Stdin,
    limits: &[],
};

const CODEX: Facts = Facts {
    dialect: Dialect::Codex,
    before_model: &[
        "codex",
        "exec",
        "--json",
        "--skip-git-repo-check",
        "--dangerously-bypass-approvals-and-sandbox",
        // Its login shell would let /etc/profile reset PATH.
        "-c",
        "allow_login_shell=false",
    ],
    after_extra: &["-"],
    limits: &["states no cost", "kills a command that outlives its patience when the model ends the turn"],
    ..USUAL
};

const CLAUDE: Facts = Facts {
    dialect: Dialect::Claude,
    before_model: &[
        "claude",
        "-p",
        "--output-format",
        "stream-json",
        "--verbose",
        "--permission-mode",
        "bypassPermissions",
    ],
    model: "--model",
    set: &[("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"), ("DISABLE_AUTOUPDATER", "1")],
    // As root it refuses to work without asking unless it is told that it is in a sandbox, by this value and no other.
    set_for_root: &[("IS_SANDBOX", "1")],
    // It refuses to start inside a session of its own kind.
    remove: &["CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"],
    stop: StopSignal::Interrupt,
    limits: &[
        "reads the files that `@/paths` in the prompt name, also outside the project",
        "takes a prompt that begins with `/` for one of its own commands",
        "tries again for three minutes where the login is refused",
        "states no reasoning tokens",
    ],
    ..USUAL
};

const GEMINI: Facts = Facts {
    dialect: Dialect::Gemini,
    before_model: &["gemini", "--output-format", "stream-json", "--yolo", "--skip-trust"],
    // Else the process that is started passes no signal on to the one that works.
    set: &[("GEMINI_CLI_NO_RELAUNCH", "true")],
    limits: &[
        "rewrites `@` words in the prompt (`a@b` becomes `a @b`) and puts in the files they name",
        "exits with the HTTP status modulo 256 where the service fails, and with 0 where it is ended",
        "states no cost",
    ],
    ..USUAL
};

const OPENCODE: Facts = Facts {
    dialect: Dialect::Opencode,
    before_model: &["opencode", "run", "--format", "json"],
    set: &[("OPENCODE_DISABLE_AUTOUPDATE", "1")],
    // Whoever has a configuration there has said more than this.
    default: &[("OPENCODE_CONFIG_CONTENT", r#"{"permission":"allow"}"#)],
    limits: &["tries again without an end where the connection drops: only `timeout_seconds` ends it"],
    ..USUAL
};

const QWEN: Facts = Facts {
    dialect: Dialect::Qwen,
    before_model: &["qwen", "--output-format", "stream-json", "--yolo"],
    set: &[("QWEN_CODE_NO_RELAUNCH", "true")],
    limits: &[
        "rewrites `@` words in the prompt (`a@b` becomes `a @b`) and puts in the files they name",
        "exits with 0 and says success where the service refuses it",
        "prints nothing for minutes while it tries again",
        "states no reasoning tokens and no cost",
    ],
    ..USUAL
};

const AIDER: Facts = Facts {
    dialect: Dialect::Aider,
    before_model: &[
        "aider",
        "--yes-always",
        "--no-pretty",
        "--no-stream",
        "--no-check-update",
        "--analytics-disable",
        "--no-show-model-warnings",
        "--no-show-release-notes",
        "--no-detect-urls",
        // The coordinator commits; what aider keeps for itself would be a change out of scope.
        "--no-auto-commits",
        "--no-dirty-commits",
        "--no-gitignore",
        "--map-tokens",
        "0",
        "--chat-history-file",
        "/dev/null",
        "--input-history-file",
        "/dev/null",
        "--message-file",
        "/dev/stdin",
    ],
    model: "--model",
    limits: &[
        "has no shell tool: it can neither run checks nor leave by a command of the prompt unless `extra_args` names one to run after each edit (`--auto-test --test-cmd`)",
        "edits only files that its arguments or the prompt name",
        "takes a prompt that begins with `/` for one of its own commands",
        "exits with 0 where the service refuses it",
        "states rounded token figures only",
    ],
    ..USUAL
};

const MINI: Facts = Facts {
    dialect: Dialect::Mini,
    before_model: &["mini", "-y", "--exit-immediately", "-o", "/dev/null"],
    after_extra: &["-t", PROMPT_ARGUMENT],
    set: &[("MSWEA_CONFIGURED", "true"), ("MSWEA_SILENT_STARTUP", "1")],
    default: &[("MSWEA_COST_TRACKING", "ignore_errors")],
    prompt: PromptWay::Argument,
    limits: &[
        "takes the prompt as one argument, which the system limits to 128 KiB: a longer prompt is not launched",
        "states no token figures",
    ],
    ..USUAL
};

impl Preset {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Codex, Self::Claude, Self::Gemini, Self::Opencode, Self::Qwen, Self::Aider, Self::Mini];

    fn facts(self) -> &'static Facts {
        match self {
            Self::Codex => &CODEX,
            Self::Claude => &CLAUDE,
            Self::Gemini => &GEMINI,
            Self::Opencode => &OPENCODE,
            Self::Qwen => &QWEN,
            Self::Aider => &AIDER,
            Self::Mini => &MINI,
        }
    }

    /// Its name in the configuration, which is that of its program.
    pub fn name(self) -> &'static str {
        self.dialect().name()
    }

    /// How its output is read.
    pub fn dialect(self) -> Dialect {
        self.facts().dialect
    }

    /// Its command: the program, what lets it work without asking, the model if one is chosen, and `extra` arguments.
    pub fn argv(self, model: Option<&str>, extra: &[String]) -> Vec<String> {
        let facts = self.facts();
        let mut argv: Vec<String> = facts.before_model.iter().map(ToString::to_string).collect();
        argv.extend(model.into_iter().flat_map(|model| [facts.model.to_owned(), model.to_owned()]));
        argv.extend(extra.iter().cloned());
        argv.extend(facts.after_extra.iter().map(ToString::to_string));
        argv
    }

    /// What its environment needs, as root or as another user.
    pub fn environment(self, as_root: bool) -> Needs {
        let facts = self.facts();
        let for_root = if as_root { facts.set_for_root } else { &[] };
        Needs { set: [facts.set, for_root].concat(), default: facts.default, remove: facts.remove }
    }

    /// By which signal it is asked to end.
    pub fn stop_signal(self) -> StopSignal {
        self.facts().stop
    }

    /// How it gets the prompt.
    pub fn prompt(self) -> PromptWay {
        self.facts().prompt
    }

    /// What it cannot do, or does otherwise than one would think; each reads on from its name.
    pub fn limits(self) -> &'static [&'static str] {
        self.facts().limits
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Preset {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.into_iter().find(|preset| preset.name() == text);
        found.ok_or_else(|| UnknownName::new(text, Self::ALL.into_iter().map(Self::name)))
    }
}
