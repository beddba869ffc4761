"""Does docker-compose.yml work? Builds the image, brings the profile `cpu` up, uses it, takes it down.

    python -m bench.containers [--keep]

With Docker where there is one, else with podman, buildah and podman-compose. Where podman reaches no
registry, `.ci/base-images.sh` makes stand-ins for the base images of Debian's packages.
"""

import argparse
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

from afterturn import Afterturn
from afterturn_cli.ports import free_ports
from bench.waiting import wait_until

ROOT = Path(__file__).parents[1]
IMAGE = "localhost/afterturn:latest"
BASES = (
    "docker.io/library/debian:bookworm-slim",
    "docker.io/library/postgres:15-bookworm",
    "docker.io/library/redis:7-bookworm",
)
COMPLAINT = "That's way too long. Please answer in one short sentence."
_wait = partial(wait_until, patience_s=900.0, every_s=1.0)


@dataclass(frozen=True)
class Runtime:
    """The programs that build images and run containers."""

    program: str
    compose: tuple[str, ...]
    environment: Mapping[str, str]

    def call(self, *arguments: str) -> None:
        """Run a command of the runtime; raises if it fails."""
        subprocess.run((self.program, *arguments), cwd=ROOT, env=dict(self.environment), check=True)

    def up(self, *arguments: str) -> None:
        """Run a command of compose; raises if it fails."""
        subprocess.run((*self.compose, *arguments), cwd=ROOT, env=dict(self.environment), check=True)


def find_runtime(environment: Mapping[str, str], folder: Path) -> Runtime:
    """Docker if its daemon answers, else podman, set up in `folder` for machines without systemd."""
    if shutil.which("docker") and _succeeds(("docker", "compose", "version"), ("docker", "info")):
        return Runtime("docker", ("docker", "compose"), environment)
    if not shutil.which("podman") or not shutil.which("buildah"):
        raise SystemExit(
            "neither Docker nor podman and buildah: on Debian, apt-get install podman buildah runc "
            "netavark aardvark-dns iptables debootstrap"
        )
    settings = folder / "containers.conf"
    if shutil.which("runc"):
        settings.write_text(
            '[engine]\nruntime="runc"\ncgroup_manager="cgroupfs"\nevents_logger="file"\n'
            '[containers]\ndefault_ulimits=["nofile=4096:4096","nproc=4096:4096"]\n'
        )
        environment = {"CONTAINERS_CONF": str(settings), **environment}
    return Runtime("podman", (sys.executable, "-m", "podman_compose"), environment)


def build(runtime: Runtime, folder: Path) -> None:
    """Build our image, with base images from a registry or from Debian's packages."""
    if runtime.program == "docker":
        runtime.up("--profile", "cpu", "build")
        return
    environment = dict(runtime.environment)
    for base in BASES:
        there = ("podman", "image", "exists", base)
        if not _succeeds(there, environment=environment) and not _succeeds(
            ("podman", "pull", "-q", base), environment=environment
        ):
            print(f"no registry has {base} for us: making base images of Debian's packages", flush=True)
            subprocess.run((".ci/base-images.sh",), cwd=ROOT, env=environment, check=True)
    index = os.environ.get("TORCH_INDEX_URL", "")
    command = ("buildah", "bud", "--isolation", "chroot", "--network", "host", "--layers", "-t", IMAGE)
    subprocess.run(
        (*command, *_what_pip_is_told(folder), "--build-arg", f"TORCH_INDEX_URL={index}", "."),
        cwd=ROOT,
        env=environment,
        check=True,
    )


def _what_pip_is_told(folder: Path) -> list[str]:
    """Options that show a build what pip is told on this machine: settings, wheels on disk, certificates."""
    told = subprocess.run(
        (sys.executable, "-m", "pip", "config", "list"), capture_output=True, text=True, check=True
    ).stdout
    settings = dict(re.findall(r"^(?:global|:env:)\.([\w-]+)='(.*)'$", told, re.MULTILINE))
    volumes: dict[str, str] = {}
    lines = ["[global]"]
    for name, value in settings.items():
        words = []
        for word in value.split():
            path = Path(word.removeprefix("file://"))
            if path.is_file():  # under a name of its own: the image installs certificates where ours lie
                volumes[str(path)] = f"/etc/pip-{path.name}"
                word = volumes[str(path)]
            elif path.is_absolute() and path.exists():
                # The pages of an index on disk point to files beside its own folder.
                shown = str(path.parent if word.startswith("file://") else path)
                volumes[shown] = shown
            words.append(word)
        lines.append(f"{name} = {' '.join(words)}")
    configuration = folder / "pip.conf"
    configuration.write_text("\n".join([*lines, ""]))
    volumes[str(configuration)] = "/etc/pip.conf"
    return [f"--volume={here}:{there}:ro" for here, there in volumes.items()]


def use(url: str, dashboard: str, api_key: str, admin_key: str) -> None:
    """Talk, complain, get a verdict, have a round trained, and find its adapter; raises if anything fails."""
    with (
        OpenAI(base_url=f"{url}/v1", api_key=api_key, timeout=300, max_retries=0) as openai,
        Afterturn(url, api_key, admin_key, keep_events=False) as client,
    ):
        first = ""
        messages: list[ChatCompletionMessageParam] = []
        for text in ("What is a mutex?", COMPLAINT, "And a semaphore?"):
            messages.append({"role": "user", "content": text})
            answer = openai.chat.completions.with_raw_response.create(
                model="default", messages=messages, max_tokens=32
            )
            first = first or answer.headers["x-turn-id"]
            messages.append({"role": "assistant", "content": answer.parse().choices[0].message.content or ""})
        print("chat: three replies", flush=True)
        _wait(lambda: client.turns.get(first).signal is not None, "the complaint is judged")
        signal = client.turns.get(first).signal
        assert signal is not None
        assert signal.verdict == -1
        print(f"extractor: verdict {signal.verdict}, {len(signal.hints)} hint(s)", flush=True)
        _wait(lambda: bool(list(client.rounds.list())), "a round starts")
        _wait(
            lambda: next(iter(client.rounds.list())).state in ("published", "rejected", "failed"),
            "the round ends",
        )
        row = next(iter(client.rounds.list()))
        print(f"trainer: round {row.state}, {row.error or row.adapter}", flush=True)
        assert row.state in ("published", "rejected"), row.error
    assert httpx.get(dashboard, timeout=30, follow_redirects=True, trust_env=False).status_code == 200
    print("dashboard: answers", flush=True)


def ready(url: str) -> bool:
    """Whether the gateway says that it and what it needs are there."""
    try:
        return httpx.get(f"{url}/readyz", timeout=5, trust_env=False).is_success
    except httpx.TransportError:
        return False


def main() -> int:
    """0: everything worked."""
    parser = argparse.ArgumentParser(prog="python -m bench.containers", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the containers running")
    options = parser.parse_args()
    port, dashboard_port = free_ports(2)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        environment = {
            **os.environ,
            "COMPOSE_PROJECT_NAME": f"afterturn-test-{secrets.token_hex(3)}",
            "AFTERTURN_COMPOSE_ENV": str(folder / "compose.env"),
            "AFTERTURN_PORT": str(port),
            "AFTERTURN_DASHBOARD_PORT": str(dashboard_port),
            "AFTERTURN_MIN_SIGNALS": "1",
        }
        runtime = find_runtime(environment, folder)
        subprocess.run(("deploy/secrets.sh", environment["AFTERTURN_COMPOSE_ENV"]), cwd=ROOT, check=True)
        secret = dict(line.split("=", 1) for line in (folder / "compose.env").read_text().split())
        build(runtime, folder)
        url = f"http://127.0.0.1:{port}"
        try:
            runtime.up("--profile", "cpu", "up", "-d")
            _wait(lambda: ready(url), "the gateway is ready")
            print(f"gateway: ready at {url}", flush=True)
            with Afterturn(url, admin_key=secret["AFTERTURN_ADMIN_KEY"]) as client:
                key = client.keys.create("default").key
            use(url, f"http://127.0.0.1:{dashboard_port}", key, secret["AFTERTURN_ADMIN_KEY"])
        except BaseException:  # an impatient Ctrl-C too: the logs say what was waited for
            runtime.up("--profile", "cpu", "logs")
            raise
        finally:
            if not options.keep:
                runtime.up("--profile", "cpu", "down", "--volumes")
    print("compose-test: everything worked")
    return 0


def _succeeds(*commands: Sequence[str], environment: Mapping[str, str] | None = None) -> bool:
    return all(
        subprocess.run(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=None if environment is None else dict(environment),
            check=False,
        ).returncode
        == 0
        for command in commands
    )


if __name__ == "__main__":
    sys.exit(main())
