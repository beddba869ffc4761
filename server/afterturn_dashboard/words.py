"""Figures and times as people read them."""

from datetime import UTC, datetime


def ago(moment: datetime | None, *, now: datetime) -> str:
    """How long ago, in the largest whole unit."""
    if moment is None:
        return "–"
    seconds = (now - _aware(moment)).total_seconds()
    if seconds < 60:
        return "just now"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    raise AssertionError("unreachable")


def moment_text(moment: datetime | None) -> str:
    """A moment in UTC, to the second."""
    return "–" if moment is None else f"{_aware(moment).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def lasting(start: datetime | None, end: datetime | None, *, now: datetime) -> str:
    """How long something took, or has taken until `now`."""
    if start is None:
        return "–"
    seconds = max(0.0, (_aware(end or now) - _aware(start)).total_seconds())
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes} min {seconds} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def share(part: int, whole: int) -> str:
    """A share in per cent; a dash of nothing."""
    return f"{100 * part / whole:.0f} %" if whole else "–"


def figure(value: float) -> str:
    """A measured number with what matters of it."""
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.3g}" if abs(value) >= 1e-3 or value == 0 else f"{value:.1e}"


def short(text: str, most: int = 10) -> str:
    """The last characters of an id: the first ones are the time and much alike."""
    return text if len(text) <= most else f"…{text[1 - most :]}"


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
