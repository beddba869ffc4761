"""The client programs: how each is set up in a home of its own, and how a conversation is had with it."""

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.clients.talk import Talk

HERE = Path(__file__).parent
CONTEXT = 200_000  # tokens that the clients are told they have


@dataclass(frozen=True)
class Home:
    """One conversation's surroundings. `url` ends in /v1; `root` is where the programs are installed."""

    root: Path
    folder: Path
    url: str
    key: str
    model: str
    talk: Talk

    def write(self, name: str, content: object) -> None:
        """A file in the home; what is not text is written as JSON."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))

    @property
    def work(self) -> Path:
        """The folder the client works in."""
        path = self.folder / "work"
        path.mkdir(parents=True, exist_ok=True)
        return path


@dataclass(frozen=True)
class Command:
    """One start of a program. `path` are folders with programs it needs, before the machine's own."""

    argv: Sequence[str]
    env: dict[str, str] = field(default_factory=dict)
    path: Sequence[Path] = ()
    stdin: str = ""


@dataclass(frozen=True)
class Program:
    """A client: `commands` sets up a home and says what is to be started in it, one after the other.

    `shape` names the turns that its conversation must lead to (`graph.expected`); `cannot` says what the
    program does not give, whatever we do.
    """

    name: str
    folder: str
    package: str
    commands: Callable[[Home], Sequence[Command]]
    shape: str = "tools"
    cannot: str = ""
    shown: str = "Reply"  # what the program prints when it has shown a reply

    def version(self, root: Path) -> str | None:
        """The installed version; None if it is not there."""
        node = root / self.folder / "node_modules" / self.package / "package.json"
        if node.is_file():
            return str(json.loads(node.read_text())["version"])
        python = root / self.folder / "bin" / "python"
        if not python.is_file():
            return None
        code = f"import importlib.metadata as m; print(m.version({self.package!r}))"
        asked = subprocess.run((python, "-c", code), capture_output=True, text=True, check=False)
        return asked.stdout.strip() or None


def _sdk(kind: str) -> Callable[[Home], Sequence[Command]]:
    def commands(home: Home) -> Sequence[Command]:
        argv = [
            str(home.root / "sdk/bin/python"),
            str(HERE / "sdk_talk.py"),
            kind,
            home.url,
            home.key,
            home.model,
            *home.talk.said,
        ]
        return [Command(argv, {"OPENAI_AGENTS_DISABLE_TRACING": "1", "OPENAI_API_KEY": home.key})]

    return commands


def _aider(home: Home) -> Sequence[Command]:
    (home.work / "note.py").write_text("y = 2\n")
    git = ("git", "-c", "user.email=a@example.org", "-c", "user.name=a")
    for step in (("init", "-q", "."), ("add", "-A"), ("commit", "-qm", "begin")):
        subprocess.run((*git, *step), cwd=home.work, check=True, env=os.environ | {"HOME": str(home.folder)})
    flags = [
        "--no-pretty",
        "--yes-always",
        "--no-show-model-warnings",
        "--no-show-release-notes",
        "--no-check-update",
        "--analytics-disable",
        "--no-gitignore",
    ]
    return [
        Command(
            [str(home.root / "aider/bin/aider"), "--model", f"openai/{home.model}", *flags, "note.py"],
            {
                "OPENAI_API_KEY": home.key,
                "OPENAI_API_BASE": home.url,
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            },
            stdin="\n".join((*home.talk.said, "/exit", "")),
        )
    ]


def _mini(home: Home) -> Sequence[Command]:
    return [
        Command(
            [
                str(home.root / "mini/bin/mini"),
                *("--exit-immediately", "-y", "-m", f"openai/{home.model}", "-l", "0"),
                *("-c", "mini.yaml", "-c", "agent.step_limit=6", "-t", home.talk.said[0]),
            ],
            {
                "OPENAI_API_KEY": home.key,
                "OPENAI_API_BASE": home.url,
                "MSWEA_CONFIGURED": "true",
                "MSWEA_COST_TRACKING": "ignore_errors",
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            },
        )
    ]


def _nanobot(home: Home) -> Sequence[Command]:
    home.write(
        ".nanobot/config.json",
        {
            "agents": {
                "defaults": {"workspace": str(home.folder / "ws"), "model": home.model, "provider": "custom"}
            },
            "providers": {"custom": {"apiKey": home.key, "apiBase": home.url}},
        },
    )
    nanobot = str(home.root / "nanobot/bin/nanobot")
    return [Command([nanobot, "agent", "--no-markdown", "-s", "s1", "-m", said]) for said in home.talk.said]


def _hermes(home: Home) -> Sequence[Command]:
    home.write(
        ".hermes/config.yaml",
        f"model:\n  default: {home.model}\n  provider: custom\n  base_url: {home.url}\n"
        f"  api_key: {home.key}\n  context_length: {CONTEXT}\n",
    )
    bin_folder = home.root / "hermes/bin"
    env = {"OPENAI_API_KEY": home.key}
    first, *others = home.talk.said
    chat = [str(bin_folder / "hermes"), "chat", "-Q", "--yolo"]
    return [
        Command([*chat, "-q", first], env, [bin_folder]),
        *(Command([*chat, "-c", "-q", said], env, [bin_folder]) for said in others),
    ]


def _pi(home: Home) -> Sequence[Command]:
    model = {
        "id": home.model,
        "name": "Afterturn",
        "reasoning": False,
        "input": ["text"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": CONTEXT,
        "maxTokens": 8192,
    }
    provider = {"baseUrl": home.url, "api": "openai-completions", "apiKey": home.key, "models": [model]}
    home.write(".pi/agent/models.json", {"providers": {"afterturn": provider}})
    path = [home.root / "node/node_modules/.bin", home.root / "pi/node_modules/.bin"]
    pi = ["pi", "--offline", "--provider", "afterturn", "--model", home.model]
    first, *others = home.talk.said
    return [
        Command([*pi, "-p", first], path=path),
        *(Command([*pi, "-c", "-p", said], path=path) for said in others),
    ]


def _codex(home: Home) -> Sequence[Command]:
    home.write(
        ".codex/config.toml",
        f'model = "{home.model}"\nmodel_provider = "afterturn"\nmodel_context_window = {CONTEXT}\n'
        'approval_policy = "never"\nsandbox_mode = "danger-full-access"\n[model_providers.afterturn]\n'
        f'name = "afterturn"\nbase_url = "{home.url}"\nenv_key = "OPENAI_API_KEY"\nwire_api = "responses"\n',
    )
    path = [home.root / "codex/node_modules/.bin"]
    env = {"OPENAI_API_KEY": home.key}
    first, *others = home.talk.said
    codex = ["codex", "exec", "--skip-git-repo-check"]
    return [
        Command([*codex, first], env, path),
        *(Command([*codex, "resume", "--last", said], env, path) for said in others),
    ]


def _claude(home: Home) -> Sequence[Command]:
    binary = home.root / "claude/node_modules/@anthropic-ai/claude-code-linux-x64/claude"
    env = {
        "ANTHROPIC_BASE_URL": home.url.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": home.key,
        "ANTHROPIC_MODEL": home.model,
        "CLAUDE_CONFIG_DIR": str(home.folder / ".claude"),
    }
    first, *others = home.talk.said
    claude = [str(binary), "-p"]
    return [
        Command([*claude, first, "--allowedTools", "Bash"], env),
        *(Command([*claude, "-c", said, "--allowedTools", "Bash"], env) for said in others),
    ]


def _opencode(home: Home) -> Sequence[Command]:
    model = {"name": "Afterturn", "limit": {"context": CONTEXT, "output": 8192}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Afterturn",
        "options": {"baseURL": home.url, "apiKey": home.key},
        "models": {home.model: model},
    }
    home.write(
        ".config/opencode/opencode.json",
        {
            "autoupdate": False,
            "share": "disabled",
            "provider": {"afterturn": provider},
            "model": f"afterturn/{home.model}",
            "permission": {"bash": "allow", "edit": "allow"},
        },
    )
    path = [home.root / "opencode/node_modules/.bin"]
    first, *others = home.talk.said
    run = ["opencode", "run", "-m", f"afterturn/{home.model}"]
    return [Command([*run, first], path=path), *(Command([*run, "-c", said], path=path) for said in others)]


def _openclaw(home: Home) -> Sequence[Command]:
    model = {
        "id": home.model,
        "name": "Afterturn",
        "reasoning": True,
        "input": ["text"],
        "compat": {"supportsPromptCacheKey": True},
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": CONTEXT,
        "maxTokens": 8192,
    }
    provider = {"baseUrl": home.url, "apiKey": home.key, "api": "openai-completions", "models": [model]}
    home.write(
        ".openclaw/openclaw.json",
        {
            "gateway": {
                "mode": "local",
                "bind": "loopback",
                "auth": {"mode": "token", "token": "local-only"},
            },
            "agents": {
                "defaults": {
                    "workspace": str(home.folder / "ws"),
                    "model": {"primary": f"afterturn/{home.model}"},
                }
            },
            "models": {"mode": "merge", "providers": {"afterturn": provider}},
        },
    )
    path = [home.root / "node/node_modules/.bin", home.root / "openclaw/node_modules/.bin"]
    agent = ["openclaw", "agent", "--local", "--session-id", "s1", "--timeout", "240"]
    return [Command([*agent, "--message", said], path=path) for said in home.talk.said]


NAMELESS = "names no session"
PROGRAMS = (
    Program("langchain", "sdk", "langchain-openai", _sdk("langchain")),
    Program("langchain-responses", "sdk", "langchain-openai", _sdk("langchain-responses")),
    Program("openai-agents", "sdk", "openai-agents", _sdk("openai-agents")),
    Program("openai-agents-responses", "sdk", "openai-agents", _sdk("openai-agents-responses")),
    Program(
        "smolagents",
        "sdk",
        "smolagents",
        _sdk("smolagents"),
        shape="smolagents",
        cannot="demands a call with every request: never trained",
    ),
    Program("smolagents-code", "sdk", "smolagents", _sdk("smolagents-code"), shape="smolagents_code"),
    Program("aider", "aider", "aider-chat", _aider, "toolless", "no tools: a tool call is not possible"),
    Program(
        "mini-swe-agent",
        "mini",
        "mini-swe-agent",
        _mini,
        shape="mini",
        cannot="one task a run: nobody corrects it; replies without a call are dropped",
        shown="afterturn",
    ),
    Program("pi", "pi", "@mariozechner/pi-coding-agent", _pi, cannot=NAMELESS),
    Program("codex", "codex", "@openai/codex", _codex),
    Program("claude-code", "claude", "@anthropic-ai/claude-code", _claude),
    Program("opencode", "opencode", "opencode-ai", _opencode),
    Program("openclaw", "openclaw", "openclaw", _openclaw, cannot="heartbeats and flushes only as a service"),
    Program(
        "hermes-agent",
        "hermes",
        "hermes-agent",
        _hermes,
        cannot=f"{NAMELESS}; titles and reviews only in a terminal",
    ),
    Program("nanobot", "nanobot", "nanobot-ai", _nanobot, cannot=NAMELESS),
)
