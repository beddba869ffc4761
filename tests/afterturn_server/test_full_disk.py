"""The gateway on a disk that is really full."""

import shutil
from pathlib import Path

import pytest
from tests.small_disk import small_disk

from .conftest import StartStack, eventually

CHAT = "/v1/chat/completions"
LONG = "".join(chr(0x4E00 + number * 7919 % 20000) for number in range(5_000))


@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_recorded_is_refused_until_there_is_room_again(
    start: StartStack, template: Path, tmp_path: Path, stream: bool
) -> None:
    with small_disk(tmp_path / "data", 8 * 1024) as disk:
        shutil.copytree(template, disk.folder, dirs_exist_ok=True)
        with start(database_timeout_s=2.0) as stack, stack.client() as client:
            before = stack.chat([{"role": "user", "content": "before"}])["turn_id"]
            disk.fill()
            asked = {"model": "default", "messages": [{"role": "user", "content": LONG}], "stream": stream}
            answer = client.post(CHAT, json=asked)
            if answer.status_code == 200:  # a stream that had begun when it was found out
                assert stream
                assert "[DONE]" not in answer.text
            eventually(lambda: client.post(CHAT, json=asked).status_code == 503)
            refused = client.post(CHAT, json=asked)
            assert refused.json()["error"]["code"] == "database_unavailable"
            assert int(refused.headers["retry-after"]) >= 1
            disk.free()
            eventually(lambda: client.get("/readyz").status_code == 200)
            after = stack.chat([{"role": "user", "content": "after"}])["turn_id"]
            assert {stack.turn(turn_id)["id"] for turn_id in (before, after)} == {before, after}
