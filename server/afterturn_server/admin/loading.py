"""Having an adapter loaded before it goes live: what no engine can serve must not become live."""

from afterturn_core.errors import Conflict, EngineError
from afterturn_core.models import Adapter

from ..gateway import Gateway
from ..resolution import Weights, adapter_path

REFUSED = "adapter_unavailable"


async def ensure_loaded(gateway: Gateway, adapter: Adapter | None) -> None:
    """Load an adapter on every replica; `None` is the base model, which is always there.

    An engine that is away is no obstacle: it loads the adapter when it is first asked for it.

    Raises:
        Conflict: it is not complete, was made for another base model, or the engine refuses it.
    """
    if adapter is None or adapter.state != "published" or adapter.path is None:
        return  # what is not complete is refused by the change itself, in its own words
    await _check_base(gateway, adapter)
    path = adapter_path(adapter.path, Weights(adapter.model_hash, gateway.settings.adapter_root))
    try:
        await gateway.upstream.load_everywhere(adapter.name, path)
    except EngineError as error:
        if error.code == REFUSED:
            raise Conflict(f"The engine cannot load {adapter.name}; the live adapter is as it was.") from None


async def _check_base(gateway: Gateway, adapter: Adapter) -> None:
    try:
        served = (await gateway.weights()).model_hash
    except EngineError:
        return  # nobody knows: while requests come, the gateway looks again and serves what fits
    if adapter.model_hash != served:
        raise Conflict(
            f"{adapter.name} was made for another base model than the one that serves now "
            f"({adapter.model_hash}, not {served}); the live adapter is as it was.",
            code="other_base_model",
        )
