"""The reliability of vote shares as a drawing: accuracy over share, one dot a level."""

from typing import Final

from afterturn_extractor.evaluation.reliability import Level, Reliability

_SIDE: Final = 300.0
_LEFT: Final = 46.0
_TOP: Final = 14.0
_TICKS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)


def diagram(found: Reliability) -> str:
    """An SVG element; the dots' areas grow with the rows behind them."""
    most = max((level.n for level in found.levels), default=1)
    points = " ".join(f"{_x(level.share):.1f},{_y(level.accuracy):.1f}" for level in found.levels)
    middle = _y(0.5)
    marks = "".join(_tick(at) for at in _TICKS) + "".join(_dot(level, most) for level in found.levels)
    return (
        f'<svg viewBox="0 0 {_SIDE + _LEFT + 20:.0f} {_SIDE + _TOP + 46:.0f}" role="img" '
        'aria-label="accuracy over the share of agreeing votes">'
        f'<line class="ideal" x1="{_x(0)}" y1="{_y(0)}" x2="{_x(1)}" y2="{_y(1)}"/>{marks}'
        f'<polyline class="line" points="{points}"/>'
        f'<text x="{_x(0.5)}" y="{_SIDE + _TOP + 40}" text-anchor="middle">share of agreeing votes</text>'
        f'<text x="12" y="{middle}" text-anchor="middle" transform="rotate(-90 12 {middle})">accuracy</text>'
        "</svg>"
    )


def _tick(at: float) -> str:
    return (
        f'<line class="axis" x1="{_x(0)}" y1="{_y(at)}" x2="{_x(1)}" y2="{_y(at)}"/>'
        f'<text x="{_LEFT - 6}" y="{_y(at) + 4}" text-anchor="end">{at:g}</text>'
        f'<text x="{_x(at)}" y="{_SIDE + _TOP + 18}" text-anchor="middle">{at:g}</text>'
    )


def _dot(level: Level, most: int) -> str:
    radius = 4 + 8 * (level.n / most) ** 0.5
    return (
        f'<circle class="dot" cx="{_x(level.share):.1f}" cy="{_y(level.accuracy):.1f}" r="{radius:.1f}">'
        f"<title>share {level.share:.2f}: accuracy {level.accuracy:.3f}, n {level.n}</title></circle>"
    )


def _x(share: float) -> float:
    return _LEFT + _SIDE * share


def _y(accuracy: float) -> float:
    return _TOP + _SIDE * (1 - accuracy)
