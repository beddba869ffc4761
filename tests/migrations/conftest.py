"""Databases without a schema, and scripts with a revision more than the real ones."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from tests.databases import KINDS, Databases

from afterturn_core.schema import alembic_config

Probe = Callable[[str, str], Config]


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, databases: Databases, tmp_path: Path) -> Iterator[str]:
    """An empty database of each kind."""
    with databases.empty(request.param, tmp_path) as made:
        yield made


@pytest.fixture
def probe(tmp_path: Path) -> Probe:
    """Alembic's configuration for a database, with one revision after the real ones: `probe(url, body)`."""

    def configured(url: str, body: str) -> Config:
        config = alembic_config(url)
        real = Path(str(config.get_main_option("script_location")))
        head = ScriptDirectory(str(real)).get_current_head()
        folder = tmp_path / "probe"
        shutil.copytree(real, folder, ignore=shutil.ignore_patterns("__pycache__"))
        text = (
            "import sqlalchemy as sa\n"
            "from alembic import op\n"
            f"revision, down_revision = 'probe', '{head}'\n"
            "branch_labels = depends_on = None\n"
            f"{body}"
        )
        (folder / "versions" / "probe.py").write_text(text, "utf-8")
        config.set_main_option("script_location", str(folder))
        return config

    return configured
