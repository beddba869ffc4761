"""`afterturn eval signals` as a program of its own, the judge's model behind real HTTP."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.served import served

from afterturn_engine.scripted import Reply, Script, create_app
from afterturn_engine.scripted.script import Failure

UNCLEAR = "Hm, the harbour has three cranes on its northern side."
TOO_LONG = "That's too long, use one sentence."


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two replies of users, of which the rules read one, and a tool result that they read by themselves."""
    rows = [
        ("talk", "user", TOO_LONG, -1, True),
        ("talk", "user", UNCLEAR, 1, None),
        ("tools", "tool", "exit code: 0\n12 passed", 1, None),
    ]
    lines = [
        json.dumps(
            {
                "id": f"row-{number}",
                "source": source,
                "tier": "core",
                "user_request": "What is a mutex?",
                "assistant": "A lock.",
                "next_role": role,
                "next_state": text,
                "label": label,
                "directive": directive,
            }
        )
        for number, (source, role, text, label, directive) in enumerate(rows)
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    return path


def evaluate(file: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run it in the file's folder, with no setting from outside."""
    outer = {name: value for name, value in os.environ.items() if not name.startswith("AFTERTURN_")}
    inner = {f"AFTERTURN_{name.upper()}": value for name, value in settings.items()}
    command = [sys.executable, "-m", "afterturn_cli", "eval", "signals", str(file), *arguments]
    return subprocess.run(
        command, env=outer | inner, cwd=file.parent, capture_output=True, text=True, check=False, timeout=120
    )


def test_json_has_the_shape_of_the_contract_and_nothing_beside_it(file: Path) -> None:
    done = evaluate(file, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    printed = json.loads(done.stdout)
    assert set(printed) == {"core", "hard", "directive", "coverage"}
    assert set(printed["core"]) == {"user", "tool", "within_source_macro_f1"}
    assert set(printed["hard"]) == {"user", "tool"}
    assert set(printed["core"]["user"]) == {"n", "accuracy", "macro_f1", "per_class"}
    assert printed["directive"] == {"precision": 1.0, "recall": 1.0, "f1": 1.0}
    assert printed["coverage"] == pytest.approx(2 / 3)


def test_lines_and_a_report_for_people(file: Path) -> None:
    done = evaluate(file, "--judge", "rules", "--report", "out.html")
    assert (done.returncode, done.stderr) == (0, "")
    assert "core user" in done.stdout
    assert "core tools" in done.stdout
    assert "How well signals are read" in (file.parent / "out.html").read_text(encoding="utf-8")


def test_a_model_is_asked_once_for_what_the_rules_do_not_settle(file: Path) -> None:
    app = create_app()
    vote = Reply(content='{"reason": "seen", "addressed": false, "verdict": 1, "hints": []}')
    app.state.engine.replace_script(Script(replies=(vote,)))
    with served(app) as url:
        told = {"judge_url": f"{url}/v1", "judge_model": "base", "data_dir": "kept"}
        first = evaluate(file, "--judge", "openai", "--json", "--report", "out.html", **told)
        asked = len(app.state.engine.received)
        again = evaluate(file, "--judge", "openai", "--json", **told)
        assert len(app.state.engine.received) == asked == 6
    assert (first.returncode, first.stderr) == (0, "")
    assert again.stdout == first.stdout
    # The model approves of everything: the complaint is misread with all votes behind it.
    assert json.loads(first.stdout)["core"]["user"]["accuracy"] == 0.5
    page = (file.parent / "out.html").read_text(encoding="utf-8")
    assert "share 1.00: accuracy 0.500, n 2" in page
    assert "100% of 3 votes" in page
    assert [entry.name for entry in (file.parent / "kept").glob("*.db")] == ["evaluation.db"]


def test_a_judge_that_is_away_gives_no_figures(file: Path) -> None:
    app = create_app()
    down = Reply(failure=Failure(kind="status", status=500))
    app.state.engine.replace_script(Script(replies=(down,)))
    with served(app) as url:
        done = evaluate(
            file,
            *("--judge", "openai", "--json", "--report", "out.html"),
            judge_url=f"{url}/v1",
            judge_model="base",
        )
    assert (done.returncode, done.stdout) == (1, "")
    # Whichever question was the first to be given up, whether it was asked or waited behind one that failed.
    assert "the judge cannot be asked" in done.stderr
    assert "InternalServerError" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (file.parent / "out.html").exists()


@pytest.mark.parametrize("name", ["off", "gpt", ""])
def test_an_unknown_judge_is_wrong_usage_and_told_what_there_is(file: Path, name: str) -> None:
    done = evaluate(file, "--judge", name)
    assert done.returncode == 2
    assert "rules" in done.stderr
    assert "openai" in done.stderr


def test_settings_that_cannot_work_are_named(file: Path) -> None:
    done = evaluate(file, "--judge", "openai", judge_url="http://127.0.0.1:9/v1")
    assert done.returncode == 2
    assert "AFTERTURN_JUDGE_MODEL" in done.stderr


def test_a_report_that_is_no_page_is_wrong_usage(file: Path) -> None:
    done = evaluate(file, "--report", "out.png")
    assert done.returncode == 2
    assert "FILE.html" in done.stderr


@pytest.mark.parametrize("arguments", [("--report", "absent/out.html"), ("--report", "folder.html")])
def test_a_report_that_cannot_be_written_is_an_error(file: Path, arguments: tuple[str, ...]) -> None:
    (file.parent / "folder.html").mkdir()
    done = evaluate(file, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1


def test_a_file_that_is_missing_or_malformed_is_an_error(file: Path) -> None:
    file.write_text('{"id": "1"}\n', encoding="utf-8")
    assert evaluate(file).returncode == 1
    assert "rows.jsonl:1" in evaluate(file).stderr
    missing = evaluate(file.with_name("--absent.jsonl"))
    assert missing.returncode == 1
    assert "absent" in missing.stderr
