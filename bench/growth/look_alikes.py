"""The rows of a conversation once more under other ids and digests: as large, cheaper to make."""

from collections.abc import Set

from bench.growth.tables import Rows

# Columns with ids and with digests, by table.
_ALTERED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "sessions": (("id",), ()),
    "contents": ((), ("digest",)),
    "history_nodes": ((), ("digest", "previous", "content_digest")),
    "turns": (
        ("id", "session_id", "parent_id", "response_id", "prompt_base_id", "round_id"),
        (
            "link_key",
            "prompt_key",
            "reply_key",
            "history_digest",
            "tools_digest",
            "reply_digest",
            "prompt_head",
        ),
    ),
    "next_states": (("id", "turn_id", "source_id"), ()),
    "signals": (("id", "turn_id"), ()),
    "rounds": (("id", "parent_adapter_id", "adapter_id"), ()),
    "round_turns": (("round_id", "turn_id", "signal_id"), ()),
    "trainings": (("round_id", "turn_id", "signal_id"), ()),
    "adapters": (("id", "parent_id", "round_id"), ()),
}


def look_alike(rows: Rows, number: int, shared: Set[str]) -> Rows:
    """A conversation like the one that `rows` are of; what has a digest in `shared` is theirs too.

    `number` is from 1 to 255 and gives each its own ids.
    """
    altered = f"u{number:02x}"  # no id and no digest has a u
    made: Rows = {}
    for table, originals in rows.items():
        own_ids, own_digests = _ALTERED[table]
        made[table] = copies = []
        for original in originals:
            if original.get("digest") in shared:
                continue
            row = dict(original)
            for column in own_ids:
                if row[column] is not None:
                    row[column] = row[column][:-3] + altered
            for column in own_digests:
                if row[column] is not None and row[column] not in shared:
                    row[column] = row[column][3:] + altered
            copies.append(row)
        if table == "adapters":
            for row in copies:
                row["version"] += number * 1_000_000
                row["name"] += f"-{number}"
        if table == "rounds":
            for row in copies:
                row["turn_ids"] = [turn_id[:-3] + altered for turn_id in row["turn_ids"]]
    return made
