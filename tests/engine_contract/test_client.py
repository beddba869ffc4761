"""The platform's own client, which the trainer, the gate and `doctor` use, against every engine."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engine_contract.engine import MESSAGES, Engine
from tests.engine_contract.reference import largest_difference, teacher_forced
from tests.engine_contract.test_adapters import new_adapter

from afterturn_core.engine_client import EngineClient
from afterturn_core.errors import AdapterError


@pytest.fixture
def client(engine: Engine) -> Iterator[EngineClient]:
    with EngineClient(str(engine.http.base_url)) as client:
        yield client


def test_it_sees_a_healthy_engine_and_its_base_model(client: EngineClient) -> None:
    assert client.healthy()
    card = client.base_model()
    assert (card.id, card.parent, card.max_model_len) == ("base", None, 2048)


def test_it_reads_a_reply_with_its_ids_and_logprobs(client: EngineClient) -> None:
    completion = client.chat("base", MESSAGES, max_tokens=8)
    assert completion.text
    assert 0 < len(completion.token_ids) <= 8
    assert len(completion.logprobs) == len(completion.token_ids)
    assert completion.prompt_token_ids


def test_it_loads_twice_and_unloads_twice_without_complaint(
    engine: Engine, client: EngineClient, tmp_path: Path
) -> None:
    folder, name = new_adapter(engine, tmp_path), engine.fresh_name()
    for _ in range(2):
        client.load_adapter(name, str(folder))
    assert name in {card.id for card in client.models()}
    for _ in range(2):
        client.unload_adapter(name)
    assert name not in {card.id for card in client.models()}


def test_it_hears_why_an_adapter_is_refused(engine: Engine, client: EngineClient) -> None:
    with pytest.raises(AdapterError, match="No adapter found"):
        client.load_adapter(engine.fresh_name(), str(engine.adapters / "nowhere"))


def test_it_scores_a_prompt_as_the_model_does(weighted: Engine) -> None:
    assert weighted.model is not None
    with EngineClient(str(weighted.http.base_url)) as client:
        ids = client.chat("base", MESSAGES, max_tokens=4).prompt_token_ids
        first, *scored = client.prompt_logprobs("base", ids)
    assert first is None
    got = [value for value in scored if value is not None]
    assert largest_difference(got, teacher_forced(weighted.model, ids)) <= 1e-3
