"""ECharts options. Text is drawn on a canvas (`renderMode: richText`), so none of it can be markup."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from afterturn import JSON

Options: TypeAlias = dict[str, JSON]

SOFT = "#8a92a6"  # legible on both grounds
COLOURS = ("#6d67f0", "#17a673", "#e0873a", "#5b8def")


@dataclass(frozen=True)
class Line:
    """A series; `right` measures it on the axis at the right, since its unit is another."""

    name: str
    values: Sequence[float | None]
    right: bool = False


def line_chart(labels: Sequence[str], lines: Sequence[Line], *, x_name: str = "") -> Options:
    """Lines over `labels`."""
    legend: JSON = [line.name for line in lines]
    return {
        "animation": False,
        "color": [*COLOURS],
        "textStyle": {"fontFamily": "system-ui, sans-serif", "color": SOFT},
        "grid": {"left": 12, "right": 12, "top": 44, "bottom": 28 if x_name else 8, "containLabel": True},
        "tooltip": {"trigger": "axis", "renderMode": "richText", "confine": True},
        "legend": {
            "data": legend,
            "top": 4,
            "left": 8,
            "textStyle": {"color": SOFT},
            "icon": "roundRect",
            "itemHeight": 4,
            "itemWidth": 18,
        },
        "xAxis": {
            "type": "category",
            "name": x_name,
            "nameLocation": "middle",
            "nameGap": 26,
            "data": [*labels],
            "boundaryGap": True,
            "axisLabel": {"color": SOFT, "hideOverlap": True},
            "axisLine": {"lineStyle": {"color": SOFT, "opacity": 0.4}},
            "axisTick": {"show": False},
        },
        "yAxis": [_value_axis(first=True), _value_axis(first=False)],
        "series": [_series(line) for line in lines],
    }


def _series(line: Line) -> JSON:
    return {
        "name": line.name,
        "type": "line",
        "yAxisIndex": 1 if line.right else 0,
        "data": [*line.values],
        "symbol": "circle",
        "symbolSize": 7 if len(line.values) <= 40 else 0,
        "connectNulls": True,
        "lineStyle": {"width": 2.5, "type": "dashed" if line.right else "solid"},
    }


def _value_axis(*, first: bool) -> JSON:
    return {
        "type": "value",
        "scale": True,
        "axisLabel": {"color": SOFT},
        "splitLine": {"show": first, "lineStyle": {"color": SOFT, "opacity": 0.18}},
    }


def numbers(value: JSON) -> tuple[float | None, ...]:
    """A metric as a series: a list of numbers, one number, or nothing."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (float(value),)
    if not isinstance(value, list):
        return ()
    return tuple(
        float(item) if isinstance(item, int | float) and not isinstance(item, bool) else None
        for item in value
    )


def last_number(value: JSON) -> float | None:
    """The last figure of a metric."""
    return next((number for number in reversed(numbers(value)) if number is not None), None)
