"""Field case B27: what a broken archive is told."""

from pathlib import Path

import pytest
from tests.exported import FILES, archive

from afterturn_core.adapter_archive import unpack
from afterturn_core.errors import AdapterError


def test_an_archive_that_points_before_its_beginning_is_refused_as_one(tmp_path: Path) -> None:
    body = bytearray(archive(dict.fromkeys(FILES, b"{}")))
    body[-6:-2] = b"\xff\xff\xff\x7f"  # where the list of entries begins
    (tmp_path / "body").write_bytes(body)
    with pytest.raises(AdapterError, match="no sound zip file"):
        unpack(tmp_path / "body", tmp_path, 1 << 20)
