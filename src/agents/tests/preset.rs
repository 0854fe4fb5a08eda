//! How the agents are started.

use super::super::{PROMPT_ARGUMENT, Preset, PromptWay, StopSignal};

#[test]
fn each_preset_lets_its_agent_work_without_asking_and_print_what_is_read() {
    let extra = ["--flag".to_owned(), "value".to_owned()];
    let commands = Preset::ALL.map(|preset| preset.argv(Some("M"), &extra).join(" ")).join("\n");
    insta::assert_snapshot!(commands, @r"
    codex exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -c allow_login_shell=false -m M --flag value -
    claude -p --output-format stream-json --verbose --permission-mode bypassPermissions --model M --flag value
    gemini --output-format stream-json --yolo --skip-trust -m M --flag value
    opencode run --format json -m M --flag value
    qwen --output-format stream-json --yolo -m M --flag value
    aider --yes-always --no-pretty --no-stream --no-check-update --analytics-disable --no-show-model-warnings --no-show-release-notes --no-detect-urls --no-auto-commits --no-dirty-commits --no-gitignore --map-tokens 0 --chat-history-file /dev/null --input-history-file /dev/null --message-file /dev/stdin --model M --flag value
    mini -y --exit-immediately -o /dev/null -m M --flag value -t {prompt}
    ");
}

#[test]
fn without_a_model_the_agent_chooses() {
    assert!(!Preset::Claude.argv(None, &[]).iter().any(|argument| argument == "--model"));
    assert_eq!(Preset::Codex.argv(None, &[]).last().unwrap(), "-");
}

#[test]
fn only_claude_is_interrupted_and_only_mini_gets_the_prompt_as_an_argument() {
    for preset in Preset::ALL {
        let stop = if preset == Preset::Claude { StopSignal::Interrupt } else { StopSignal::Terminate };
        assert_eq!(preset.stop_signal(), stop, "{preset}");
        let way = if preset == Preset::Mini { PromptWay::Argument } else { PromptWay::Stdin };
        assert_eq!(preset.prompt(), way, "{preset}");
        let has_argument = preset.argv(None, &[]).iter().any(|argument| argument == PROMPT_ARGUMENT);
        assert_eq!(has_argument, way == PromptWay::Argument, "{preset}");
    }
}

#[test]
fn the_known_limits_of_each_are_stated() {
    let limits = |preset: Preset| preset.limits().join("\n");
    for (preset, words) in [
        (Preset::Mini, "128 KiB"),
        (Preset::Aider, "no shell tool"),
        (Preset::Gemini, "rewrites `@` words"),
        (Preset::Qwen, "rewrites `@` words"),
        (Preset::Claude, "`@/paths`"),
    ] {
        assert!(limits(preset).contains(words), "{preset}");
    }
    assert!(Preset::ALL.iter().all(|preset| !preset.limits().is_empty()));
}

#[test]
fn a_preset_is_named_as_its_program_and_a_misspelt_one_names_the_nearest() {
    for preset in Preset::ALL {
        assert_eq!(preset.name().parse(), Ok(preset));
        assert_eq!(preset.argv(None, &[])[0], preset.name());
    }
    let error = "coedx".parse::<Preset>().unwrap_err().to_string();
    assert!(error.ends_with("did you mean \"codex\"?"), "{error}");
}

#[test]
fn claude_is_told_that_it_is_in_a_sandbox_only_as_root_and_knows_of_no_session_around_it() {
    let names = |as_root: bool| {
        let needs = Preset::Claude.environment(as_root);
        assert!(needs.remove.contains(&"CLAUDECODE"));
        needs.set.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert!(names(true).contains(&"IS_SANDBOX") && !names(false).contains(&"IS_SANDBOX"));
    assert!(names(false).contains(&"DISABLE_AUTOUPDATER"));
}
