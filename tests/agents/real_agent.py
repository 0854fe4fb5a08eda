#!/usr/bin/env python3
"""Drives one real coding agent under `runner` against a stub model, and proves that nothing of it is left.

  tests/agents/real_agent.py codex --install                    installs it into a throw-away folder first
  tests/agents/real_agent.py claude --program /path/to/claude submit hang

The agent gets an environment of its own with a throw-away HOME, a dummy key and the address of `stub.py` on loopback; where
the system allows it, it runs in a network namespace that has loopback only. Nothing is installed unless `--install` says so.
No process is ended by this script but those that it started itself.

Scenarios: `submit` (does the task, another session reviews it), `hang` (its tool leaves strays behind, then the model is silent
until the time limit), `interrupt` (the same, until SIGINT for the coordinator), `unauthorized` (the task waits for a person),
`rate_limit`, `usage_limit` (the run stops with 75 and spends no attempt; with codex it says when its plan's limit ends). What other
agents than codex and claude make of the model's refusal is printed, not judged. After each, no process may be left.
"""

import argparse
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# No compiled copy beside the source.
sys.dont_write_bytecode = True
import stub  # noqa: E402

HERE = Path(__file__).resolve().parent
MARK = "RUNNER_AGENT_TRIAL"
JUDGED = ("submit", "hang", "interrupt")
REFUSED = ("unauthorized", "rate_limit", "usage_limit")
# Whose refusals are judged.
KNOWN = ("codex", "claude")
PATIENCE = 240

# What each agent is started with. `{url}` is the stub's address with the scenario, `{home}` the throw-away HOME.
AGENTS = {
    "codex": {
        "package": ("npm", "@openai/codex@0.171.0", "node_modules/.bin/codex"),
        "argv": ["exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-m", "stub-model"]
        + [word for setting in (
            'model_provider="stub"', 'model_providers.stub.name="stub"', 'model_providers.stub.base_url="{url}/v1"',
            'model_providers.stub.env_key="STUB_KEY"', 'model_providers.stub.wire_api="responses"', "allow_login_shell=false",
        ) for word in ("-c", setting)] + ["-"],
        "environment": {"STUB_KEY": "test-key"},
    },
    "claude": {
        "package": ("npm", "@anthropic-ai/claude-code@2.1.197", "node_modules/.bin/claude"),
        "argv": ["-p", "--output-format", "stream-json", "--verbose", "--permission-mode", "bypassPermissions"]
        + ["--model", "claude-sonnet-4-5"],
        "environment": {
            "ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_API_KEY": "test-key", "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "CLAUDE_CODE_MAX_RETRIES": "1",
        } | ({"IS_SANDBOX": "1"} if os.geteuid() == 0 else {}),
    },
    "gemini": {
        "package": ("npm", "@google/gemini-cli@0.61.0", "node_modules/.bin/gemini"),
        "argv": ["--output-format", "stream-json", "--yolo", "--skip-trust", "-m", "gemini-2.5-pro"],
        "environment": {"GEMINI_API_KEY": "test-key", "GOOGLE_GEMINI_BASE_URL": "{url}"},
        "files": {".gemini/settings.json": {"security": {"auth": {"selectedType": "gemini-api-key"}}}},
    },
    "opencode": {
        "package": ("npm", "opencode-ai@1.18.33", "node_modules/.bin/opencode"),
        "argv": ["run", "--format", "json", "-m", "stub/stub-model"],
        "environment": {
            "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_CONFIG_CONTENT": json.dumps({
                "permission": "allow",
                "provider": {"stub": {
                    "npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "{url}/v1", "apiKey": "test-key"},
                    "models": {"stub-model": {"name": "stub-model"}},
                }},
            }),
        },
    },
    "qwen": {
        "package": ("npm", "@qwen-code/qwen-code@0.15.10", "node_modules/.bin/qwen"),
        "argv": ["--output-format", "stream-json", "--yolo", "--auth-type", "openai", "-m", "stub-model"],
        "environment": {"OPENAI_API_KEY": "test-key", "OPENAI_BASE_URL": "{url}/v1", "OPENAI_MODEL": "stub-model"},
    },
    "mini": {
        "package": ("pip", "mini-swe-agent==2.4.6", "bin/mini"),
        # It takes no prompt on standard input.
        "wrap": ["sh", "-c", 'exec "$@" -t "$(cat)"', "sh"],
        "argv": ["-y", "--exit-immediately", "-m", "openai/stub-model", "-o", "{home}/trajectory.json"],
        "environment": {
            "OPENAI_API_KEY": "test-key", "OPENAI_API_BASE": "{url}/v1", "MSWEA_CONFIGURED": "true",
            "MSWEA_COST_TRACKING": "ignore_errors", "MSWEA_SILENT_STARTUP": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
    },
    "aider": {
        "package": ("pip", "aider-chat==0.86.2", "bin/aider"),
        # It has no shell tool: an edit makes it run the command that should test the edit.
        "argv": ["--model", "openai/stub-model", "--yes-always", "--no-pretty", "--no-check-update", "--analytics-disable"]
        + ["--no-show-model-warnings", "--no-show-release-notes", "--no-detect-urls", "--no-auto-commits", "--no-gitignore"]
        + ["--edit-format", "diff", "--auto-test", "--test-cmd", "sh {command}", "--message-file", "/dev/stdin"]
        + ["--chat-history-file", "{home}/chat.md", "--input-history-file", "{home}/input", "docs/testing.md"],
        "environment": {"OPENAI_API_KEY": "test-key", "OPENAI_API_BASE": "{url}/v1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        "reviews": False,
    },
}

# Does the task or reviews it, whichever the session is for.
WORK = """set -e
if [ "$RUNNER_ACTION" = review ]; then verb=approve; else
    verb=submit; mkdir -p docs; echo 'Run make test.' > docs/testing.md
fi
"$RUNNER_BIN" task $verb --subject 'Write down how this is tested' --changes 'One page.' --validation 'Read once more.'
"""
# Holds a FIFO, leaves processes in other sessions behind that hold it too, says so, and stays.
STRAY = """exec 9> '{trial}/life'; echo up >&9
setsid sleep 600 & nohup sleep 600 > /dev/null 2>&1 &
env -i PATH="$PATH" setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 600; done' > /dev/null 2>&1 &
: > '{trial}/started'; sleep 600
"""
EDIT = """docs/testing.md
```
<<<<<<< SEARCH
=======
Run make test.
>>>>>>> REPLACE
```
"""


class Wrong(Exception):
    """Something is not as it was promised."""


def main():
    options = read_options()
    isolated = enter_own_network(options)
    base = Path(tempfile.mkdtemp(prefix="real-agent-"))
    try:
        program = options.program or install(AGENTS[options.agent], base)
        network = "loopback only" if isolated else "the machine's"
        print(f"{options.agent} ({program}), network: {network}, in {base}")
        failed = [name for name in options.scenarios if not play(options, name, Path(program), base / name)]
    finally:
        if not options.keep:
            shutil.rmtree(base, ignore_errors=True)
    print("all as promised" if not failed else f"NOT as promised: {', '.join(failed)}")
    return 1 if failed else 0


def read_options():
    parser = argparse.ArgumentParser(description="Drives one real agent under runner against a stub model.")
    parser.add_argument("agent", choices=sorted(AGENTS))
    parser.add_argument("scenarios", nargs="*", help=f"of {', '.join(JUDGED + REFUSED)}; without any: {', '.join(JUDGED)}")
    parser.add_argument("--program", help="the agent's executable; without it, what --install brings")
    parser.add_argument("--install", action="store_true", help="install the agent into a throw-away folder first")
    parser.add_argument("--runner", default=HERE.parents[1] / "target/release/runner", help="the runner to be tried")
    parser.add_argument(
        "--hang-seconds", type=int, default=60,
        help="the time limit of a session that is meant to hang: more than the agent needs to begin (default: %(default)s)",
    )
    parser.add_argument("--keep", action="store_true", help="keep the throw-away folder")
    parser.add_argument("--own-network", choices=("try", "no", "inside"), default="try", help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args()
    options.scenarios = options.scenarios or list(JUDGED)
    unknown = set(options.scenarios) - set(JUDGED + REFUSED)
    if unknown:
        parser.error(f"unknown scenario: {', '.join(sorted(unknown))}")
    if not options.program and not options.install:
        parser.error("say where the agent is with --program, or let it be installed with --install")
    options.runner = Path(options.runner).resolve()
    if not options.runner.exists():
        parser.error(f"{options.runner} is not there; build it with `cargo build --release`, or say --runner")
    return options


def enter_own_network(options):
    """Starts this program again without any network but loopback, where the system lets it."""
    if options.own_network == "inside":
        bring_loopback_up()
        return True
    again = ["unshare", "--net", sys.executable, str(HERE / "real_agent.py"), *sys.argv[1:], "--own-network", "inside"]
    can = shutil.which("unshare") and subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode == 0
    # An installation needs the network.
    if options.own_network == "no" or options.install or not can:
        return False
    os.execvp(again[0], again)


def bring_loopback_up():
    """Sets the flags IFF_UP and IFF_RUNNING of `lo` (netdevice(7))."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14s", b"lo", 0x1 | 0x40, b""))


def install(agent, base):
    """Installs the pinned package and answers with its program."""
    kind, package, program = agent["package"]
    place = base / "installed"
    print(f"installing {package}")
    if kind == "npm":
        run = [["npm", "install", "--no-fund", "--no-audit", "--prefix", str(place), package]]
    else:
        run = [[sys.executable, "-m", "venv", str(place)], [str(place / "bin/pip"), "install", "--quiet", package]]
    for command in run:
        if subprocess.run(command, stdout=subprocess.DEVNULL).returncode != 0:
            raise SystemExit(f"{package} could not be installed; {command[0]} says above why")
    return place / program


class Trial:
    """One scenario in a folder of its own."""

    def __init__(self, options, name, program, folder):
        self.options, self.name, self.program, self.folder = options, name, program, folder
        self.agent = AGENTS[options.agent]
        self.project, self.home = folder / "project", folder / "home"
        self.scenario = "hang" if name == "interrupt" else name
        self.mark = f"{MARK}={folder}"
        for each in (self.project, self.home, folder / "tmp", folder / "stub"):
            each.mkdir(parents=True)

    def environment(self):
        """All that the coordinator, and so the agent, has in its environment."""
        places = ["/usr/local/bin", "/usr/bin", "/bin"]
        # npm's programs are scripts for node.
        places += [str(Path(found).parent) for found in [shutil.which("node")] if found]
        own = {"PATH": ":".join(places), "HOME": str(self.home), "TMPDIR": str(self.folder / "tmp"), "LANG": "C.UTF-8"}
        git = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", MARK: str(self.folder)}
        return own | git | {name: self.fill(value) for name, value in self.agent["environment"].items()}

    def fill(self, text):
        given = {"{url}": f"{self.url}/{self.scenario}", "{home}": str(self.home), "{command}": str(self.command)}
        for name, value in given.items():
            text = text.replace(name, value)
        return text

    @property
    def command(self):
        return self.folder / "stub" / f"{self.scenario}.sh"

    def start_stub(self):
        os.mkfifo(self.folder / "life")
        self.life = os.open(self.folder / "life", os.O_RDONLY | os.O_NONBLOCK)
        if self.scenario in ("submit", "hang"):
            self.command.write_text(WORK if self.scenario == "submit" else STRAY.replace("{trial}", str(self.folder)))
        if self.options.agent == "aider":
            (self.folder / "stub/text").write_text(EDIT)
        self.stub = subprocess.Popen([sys.executable, str(HERE / "stub.py"), str(self.folder / "stub")])
        self.url = wait_for(self.folder / "stub/url", 20).read_text()

    def lay_down(self):
        """A repository with the example plan of `runner init`."""
        for name, content in self.agent.get("files", {}).items():
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_text(json.dumps(content))
        self.run("git", "init", "-q", "-b", "main")
        self.run("git", "config", "user.name", "Sample")
        self.run("git", "config", "user.email", "sample@example.invalid")
        (self.project / "README.md").write_text("# Sample\n")
        (self.project / "docs").mkdir()
        (self.project / "docs/testing.md").write_text("")
        self.run(str(self.options.runner), "init")
        argv = [*self.agent.get("wrap", []), str(self.program), *map(self.fill, self.agent["argv"])]
        config = {"argv": argv, "dialect": self.options.agent, "max_remediation_depth": 0, "kill_grace_seconds": 2, "max_sessions": 4}
        config["timeout_seconds"] = PATIENCE / 2 if self.name in ("submit", "interrupt") else self.options.hang_seconds
        if not self.agent.get("reviews", True):
            config["commands_by_role"] = {"reviewer": ["sh", str(self.command)]}
        (self.project / "runner.local.json").write_text(json.dumps(config))
        self.run("git", "add", "-A")
        self.run("git", "commit", "-q", "-m", "Lay down the sample")

    def run(self, *words):
        subprocess.run(words, cwd=self.project, env=self.environment(), check=True, stdout=subprocess.DEVNULL)

    def coordinate(self):
        """Runs the plan, interrupted where it is to be; answers with exit code, result and what was said."""
        with (self.folder / "said").open("wb") as said:
            coordinator = subprocess.Popen(
                [str(self.options.runner)], cwd=self.project, env=self.environment(),
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said,
            )
            try:
                if self.name == "interrupt":
                    wait_for(self.folder / "started", PATIENCE / 2)
                    coordinator.send_signal(signal.SIGINT)
                result, _ = coordinator.communicate(timeout=PATIENCE)
            except (Wrong, subprocess.TimeoutExpired) as error:
                # Its guardian ends the session.
                coordinator.kill()
                coordinator.communicate()
                raise Wrong(f"{error}\n{(self.folder / 'said').read_text()}") from error
        return coordinator.returncode, json.loads(result or b"{}"), (self.folder / "said").read_text()

    def records(self):
        found = sorted((self.project / "state/runs").glob("*/*/run.json"), key=lambda path: path.stat().st_mtime)
        return [json.loads(path.read_text()) for path in found]

    def left(self):
        """Every process that has this trial's mark in its environment; only looks."""
        found = []
        for process in Path("/proc").iterdir():
            try:
                if process.name.isdigit() and self.mark.encode() in (process / "environ").read_bytes().split(b"\0"):
                    found.append(f"{process.name} {(process / 'cmdline').read_bytes().replace(bytes(1), b' ').decode()}")
            except OSError:
                continue
        return found

    def check_nothing_is_left(self):
        left = self.left()
        if left:
            raise Wrong("still running:\n  " + "\n  ".join(left))
        # A process without the mark would hold the FIFO, which then has nothing to read but is not at its end.
        try:
            said = os.read(self.life, 4096)
            while piece := os.read(self.life, 4096):
                said += piece
        except BlockingIOError as error:
            raise Wrong("somebody without the mark still holds the FIFO") from error
        if self.scenario == "hang" and not said:
            raise Wrong("the agent's tool never ran")

    def judge(self, code, result, said):
        records = self.records()
        ends = [record["execution"]["ended"] for record in records]
        told = (code, result.get("stop"), ends)
        if self.name == "submit" and (told[:2] != (0, "complete") or len(ends) != 2):
            raise Wrong(f"{told}\n{said}")
        if self.name == "hang" and told != (3, "needs_input", ["timed_out"]):
            raise Wrong(f"{told}\n{said}")
        if self.name == "interrupt" and told != (130, "interrupted", ["interrupted"]):
            raise Wrong(f"{told}\n{said}")
        if self.name in REFUSED and self.options.agent in KNOWN:
            self.judge_refusal(told[:2], result, said)
        bad = [record["run_id"] for record in records if record["teardown"]["destruction"] != "succeeded"]
        if bad:
            raise Wrong(f"the tree of {bad} was not destroyed")
        self.tell(told, records)

    def judge_refusal(self, told, result, said):
        """A refused login waits for a person; a limit costs no attempt, and its end is the one that the model stated."""
        rows = [json.loads(path.read_text()) for path in (self.project / "state/tasks").glob("*/*.json")]
        row = max(rows, key=lambda row: len(row["events"]))
        actions = [event["action"] for event in row["events"]]
        seen = f"{told}, row {row['status']} after {actions}, {row['attempts']} attempts, {result}\n{said}"
        if self.name == "unauthorized":
            if told != (3, "needs_input") or not row["external_wait"] or result["launched"] != 1:
                raise Wrong(seen)
            return
        if told != (75, "limited") or actions != ["claim", "limit"] or row["attempts"] != 0:
            raise Wrong(seen)
        if self.name == "usage_limit" and self.options.agent == "codex" and "retry_at" not in result:
            raise Wrong(seen)
        print(f"  {self.name}: retry_at {result.get('retry_at')}")

    def tell(self, told, records):
        tokens, answers = stub.stated(self.folder / "stub", self.scenario)
        print(f"  {self.name}: exit {told[0]}, {told[1]}; the stub gave {answers} answers and stated {tokens}")
        for record in records:
            ran = record["execution"]
            usage = ran.get("usage") or {}
            print(
                f"    {record['action']:6} {json.dumps(ran['ended'])} exit {json.dumps(ran['exit'])} after {ran['wall_ms']} ms,"
                f" ended by {ran['ladder']}, {ran['leaked_count']} leaked, {ran['output']['stdout']['written']} bytes printed,"
                f" peak {usage.get('peak_memory_bytes', 0) >> 20} MiB, {record['result']['verdict']}"
            )


def play(options, name, program, folder):
    """One scenario; whether all was as promised."""
    trial = Trial(options, name, program, folder)
    trial.start_stub()
    try:
        trial.lay_down()
        trial.judge(*trial.coordinate())
        passed = True
    except Wrong as error:
        print(f"  {name}: {error}")
        passed = False
    finally:
        trial.stub.kill()
        trial.stub.wait()
    return report_left(trial, name) and passed


def report_left(trial, name):
    try:
        trial.check_nothing_is_left()
        print(f"  {name}: nothing is left")
        return True
    except Wrong as error:
        print(f"  {name}: {error}")
        return False


def wait_for(path, seconds):
    until = time.monotonic() + seconds
    while not path.exists():
        if time.monotonic() > until:
            raise Wrong(f"{path.name} did not come")
        time.sleep(0.05)
    return path


if __name__ == "__main__":
    sys.exit(main())
