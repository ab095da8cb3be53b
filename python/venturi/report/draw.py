"""Figures as Vega-Lite specifications: the same for the page, for files and for notebooks.

The page draws them with its own script, whose colours are the page's custom properties, so that light, dark
and print need one specification. Texts of a run are data and titles only; every expression here is ours.
"""

from __future__ import annotations

import functools
import json
import math
import os
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from venturi.analysis import wording
from venturi.common.errors import VenturiError
from venturi.measure.machine_cache import Kept, directory
from venturi.report.figures.figure import LIGHT, Figure, Panel, Series

Spec = dict[str, Any]
Looks = dict[str, Spec]
Colour = Callable[[str], str]
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Liberation Sans', Arial, sans-serif"
DASHES = {"solid": [1, 0], "dash": [5, 3], "dot": [1.5, 2.5]}
MANY_BOXES = 120
"""Boxes of more observations show outliers only: the points would hide them."""
SIDE = 52
"""Pixels left of panels that are over one another, for the labels of their y axes."""
_SHARED: Spec = {"spacing": 8, "resolve": {"scale": {"x": "shared"}}}
KEPT_SECONDS = 90 * 86_400.0
LONGEST = 4000
"""Characters of a title or a caption in a file."""
_NAMED: dict[str, Spec] = {
    "begin": {"align": "left", "dx": 3, "dy": -6},
    "end": {"align": "right", "dx": -3, "dy": -6},
    "after": {"align": "left", "dx": 5},
    "before": {"align": "right", "dx": -6, "dy": 8},
}
_TIP = (
    "datum.mark == 'bar' ? datum.name + ': ' + format(datum.x, '.1f') + ' %'"
    " : isValid(datum.note) ? datum.note"
    " : datum.name + ': ' + format(datum.y, ',.4~g') + (isValid(datum.unit) ? datum.unit : '')"
)
_FLAT = {"x": "x", "y": "y", "low": "low", "high": "high", "note": "notes", "link": "links"}
"""Lists with an item for each point, by the fields of a series."""


@dataclass(frozen=True)
class Drawing:
    """A figure as a Vega-Lite specification (`spec`), and as a picture.

    Notebooks show the picture; `altair.Chart.from_dict(drawing.spec)` makes an interactive chart of it.
    """

    spec: Spec

    @classmethod
    def of(cls, figure: Figure) -> Drawing:
        return cls(_file_spec(figure))

    def svg(self) -> str:
        import vl_convert

        found: str = vl_convert.vegalite_to_svg(self.spec)
        return found

    def png(self) -> bytes:
        import vl_convert

        found: bytes = vl_convert.vegalite_to_png(self.spec, scale=2)
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the picture; the name ends with `.svg` or `.png`."""
        path = Path(path)
        if path.suffix == ".svg":
            path.write_text(self.svg(), encoding="utf-8")
        elif path.suffix == ".png":
            path.write_bytes(self.png())
        else:
            raise VenturiError(f"{path}: a figure is a .svg or a .png")

    def _repr_svg_(self) -> str:
        return self.svg()


@functools.cache
def script() -> str:
    """The Vega that draws the files, for the page. To bundle it takes seconds, so the user's cache has it."""
    kept = Kept(directory("vega"), version("vl-convert-python"), 1, KEPT_SECONDS)
    if (found := kept.get({"bundle": "vegaEmbed"})) is not None:
        return str(found["script"])
    import vl_convert

    made: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    kept.put({"bundle": "vegaEmbed"}, {"script": made})
    return made


def text(plain: str) -> str:
    return wording.plain(plain, 200)


def legend_key(series: Series) -> str:
    """What has one colour and one line in a figure; the page hides series by the name, the first line."""
    return f"{text(series.name)}\n{series.colour}\n{series.dash}"


def _on_page(role: str) -> str:
    return f"var(--{role[1:].partition('/')[0]})"


def _in_file(role: str) -> str:
    return LIGHT[role[1:].partition("/")[0]]


def _rows(one: Panel) -> int:
    """Bars of a panel; those of one row stand on each other."""
    return len({y for s in one.series for y in s.y})


def is_bars(figure: Figure) -> bool:
    return any(s.mark == "bar" for p in figure.panels for s in p.series)


def height(figure: Figure, panel: Panel) -> int:
    """Pixels of one panel on the page, with its axes."""
    if is_bars(figure):
        return 58 + 30 * _rows(panel)
    slanted = figure.x_scale == "category" and _slanted(figure)
    return (270 if len(figure.panels) > 8 else 340) + 50 * slanted


def panel(figure: Figure, one: Panel) -> Spec:
    """A panel for the page, which draws title and legend itself and sets the width and what is `hidden`."""
    found = _panel(figure, one, _on_page, _looks(figure, _on_page))
    found["transform"].insert(0, {"filter": "indexof(hidden, datum.name) < 0"})
    size = {"height": height(figure, one), "autosize": {"type": "fit", "contains": "padding"}}
    return found | size


def config(colour: Colour = _on_page) -> Spec:
    """How everything looks that is not data."""
    ink, muted, grid = (colour(f"${name}") for name in ("ink", "muted", "grid"))
    axis = {
        "labelColor": muted, "titleColor": muted, "gridColor": grid, "domainColor": grid, "tickColor": grid,
        "titleFontWeight": "normal", "labelFontSize": 11, "titleFontSize": 11.5, "labelOverlap": "greedy",
    }  # fmt: skip
    return {
        "font": FONT,
        "background": None,
        "aria": False,
        "mark": {"aria": False},
        "view": {"stroke": None},
        "axis": axis,
        "axisY": {"minExtent": 34},
        "title": {"color": ink, "anchor": "start", "frame": "group", "fontSize": 12},
        "legend": {"labelColor": ink, "labelFontSize": 11},
    }


def stack(figure: Figure) -> Spec:
    """Panels over one another for the page, which sets the width, and `at`: the time under the pointer."""
    panels = _stacked(figure, _on_page, _looks(figure, _on_page))
    where = {"x": {"datum": {"expr": "at"}, "type": "quantitative"}}
    rule = {"type": "rule", "color": _on_page("$muted"), "clip": True}
    for one in panels:
        one["layer"].append({"data": {"values": [{}]}, "mark": rule, "encoding": where})
    side = {"axisY": {"minExtent": SIDE - 14, "maxExtent": SIDE - 14}}
    return {"params": [{"name": "at", "value": -1}], "vconcat": panels, "config": side} | _SHARED


def _stacked(figure: Figure, colour: Colour, looks: Looks) -> list[Spec]:
    most = max(_numbers(figure.panels, "x"), default=1.0)
    panels = []
    for index, one in enumerate(figure.panels):
        found = _panel(figure, one, colour, looks)
        x = _x(figure) | {"scale": {"domain": [0, most], "nice": False}}
        if index + 1 < len(figure.panels):
            x["axis"] = {"labels": False, "ticks": False, "title": None, "grid": False}
        for layer in found["layer"]:
            layer["encoding"] |= {"x": x}
        title = text(", ".join(filter(None, [one.title, one.y_label])))
        panels.append(found | {"title": title, "height": 104 if index == 0 else 52})
    return panels


def _file_spec(figure: Figure) -> Spec:
    """The figure with its panels, title, caption and legend, on white."""
    columns = max(1, min(figure.columns, len(figure.panels)))
    width = 380 if columns > 1 else 640
    total = columns * (width + 60)
    looks = _looks(figure, _in_file, _legend(figure, total))
    if figure.shared_x:
        inner = _SHARED | {"vconcat": [p | {"width": width} for p in _stacked(figure, _in_file, looks)]}
    else:
        panels = []
        for one in figure.panels:
            high = 30 * _rows(one) if is_bars(figure) else 150 if len(figure.panels) > 8 else 220
            size = {"width": width, "height": high, "title": text(one.title)}
            panels.append(_panel(figure, one, _in_file, looks) | size)
        inner = {"concat": panels, "columns": columns, "spacing": 22}
    caption = {
        "text": textwrap.wrap(wording.plain(figure.caption, LONGEST), int(total / 5.6)), "orient": "bottom",
        "fontSize": 10.5, "fontWeight": "normal", "color": _in_file("$muted"), "offset": 12,
    }  # fmt: skip
    title = textwrap.wrap(wording.plain(figure.title, LONGEST), int(total / 8))
    return {
        "$schema": SCHEMA,
        "title": {"text": title, "fontSize": 15, "offset": 14},
        "vconcat": [inner | {"title": caption}],
        "config": config(_in_file) | {"background": "white"},
        "padding": 12,
    }


def _legend(figure: Figure, width: int) -> Spec | None:
    first = {name: s for name, s in figure.names.items() if s.mark != "box" and not s.named_at}
    if len(first) < 2:
        return None
    marks = {s.mark for s in first.values()}
    shape = "circle" if marks == {"points"} else "stroke" if marks & {"line", "points"} else "square"
    longest = max(len(text(name)) for name in first)
    return {
        "values": [legend_key(s) for s in first.values()], "labelExpr": "split(datum.label, '\\n')[0]",
        "title": None, "orient": "bottom", "direction": "horizontal", "labelLimit": 600,
        "columns": max(1, int(width / (longest * 6 + 34))),
        "symbolType": shape, "symbolStrokeWidth": 2, "symbolOpacity": 1,
    }  # fmt: skip


def _looks(figure: Figure, colour: Colour, legend: Spec | None = None) -> Looks:
    """Colour, dashes and opacity of series, the same in all panels."""
    every = {legend_key(s): s for p in figure.panels for s in p.series}

    def by_key(found: list[Any]) -> Spec:
        scale = {"domain": list(every), "range": found}
        return {"field": "key", "type": "nominal", "scale": scale, "legend": legend}

    return {
        "color": by_key([colour(s.colour) for s in every.values()]),
        "strokeDash": by_key([DASHES[s.dash] for s in every.values()]),
        "opacity": {"field": "fade", "type": "quantitative", "scale": None, "legend": None},
    }


def _panel(figure: Figure, one: Panel, colour: Colour, by: Looks) -> Spec:
    lists = [n for n in _FLAT if n in ("x", "y") or any(_listed(s)[n] for s in one.series)]
    shared: Spec = {
        "data": {"values": [_row(figure, s, i, lists) for i, s in enumerate(one.series)]},
        "transform": [{"flatten": lists}, {"calculate": _TIP, "as": "tip"}],
    }
    if is_bars(figure):
        return shared | _bars(figure, one, by)
    return shared | {"layer": list(_layers(figure, one, by, colour))}


def _listed(series: Series) -> dict[str, Sequence[Any] | None]:
    return {name: getattr(series, field) for name, field in _FLAT.items()}


def _row(figure: Figure, series: Series, place: int, flat: Sequence[str]) -> Spec:
    """A series as one row, whose lists the specification unfolds: half the letters of a row a point."""
    found: Spec = {"key": legend_key(series), "name": text(series.name), "mark": series.mark, "order": place}
    found["fade"] = float(series.colour.partition("/")[2] or 1)
    lists = {name: list(values or ()) for name, values in _listed(series).items()}
    for name in ("x", "y", "note"):
        lists[name] = [text(v) if isinstance(v, str) else v for v in lists[name]]
    if series.mark == "box":
        label = next((p.y_label for p in figure.panels if p.y_label and series in p.series), figure.y_label)
        found["unit"] = f" {text(label.rpartition(', ')[2])}"
    if series.markers or series.mark == "points":
        found["dot"] = 64 if series.mark == "points" else 34
    return found | {name: lists[name] for name in flat}


def _layers(figure: Figure, one: Panel, by: Looks, colour: Colour) -> Iterable[Spec]:
    marks = {s.mark for s in one.series}
    y = _y(figure, one)
    place = {"x": _x(figure), "y": y}
    tip = {"tooltip": {"field": "tip"}}

    def layer(keep: str, mark: Spec, **encoding: Any) -> Spec:
        return {"transform": [{"filter": keep}], "mark": mark, "encoding": place | encoding}

    if "box" in marks:
        yield from _boxes(one, place, tip, colour(one.series[0].colour))
    if "area" in marks:
        stacked = {"y": y | {"stack": "zero"}, "color": by["color"], "order": {"field": "order"}}
        yield layer("datum.mark == 'area'", {"type": "area", "opacity": 0.55}, **stacked)
    if any(s.low and s.high for s in one.series):
        ends = {"y": y | {"field": "low"}, "y2": {"field": "high"}, "color": by["color"]}
        bar = {"type": "errorbar", "ticks": {"size": 6}, "thickness": 1.3}
        valid = "isValid(datum.low) && isValid(datum.high) && isValid(datum.y)"
        yield layer(valid + " && datum.low > 0" * (figure.y_scale == "log"), bar, **ends)
    if "line" in marks:
        line = {"type": "line", "strokeWidth": 1.8}
        # Two series may have one name and one look, such as the ends of a band.
        detail = {"detail": {"field": "order"}}
        yield layer("datum.mark == 'line' && isValid(datum.y)", line, **by, **detail)
    if any(s.markers or s.mark == "points" for s in one.series if s.mark in ("line", "points")):
        size = {"field": "dot", "type": "quantitative", "scale": None, "legend": None}
        dot = {"type": "circle", "opacity": 0.9}
        yield layer("isValid(datum.dot) && isValid(datum.y)", dot, color=by["color"], size=size, **tip)
    if not figure.shared_x and any(s.mark == "line" and not s.markers for s in one.series):
        # Lines without points answer the pointer too.
        unseen = {"type": "circle", "opacity": 0, "size": 90}
        yield layer("datum.mark == 'line' && !isValid(datum.dot) && isValid(datum.y)", unseen, **tip)
    for at, where in _NAMED.items():
        names = [s for s in one.series if s.named_at == at and s.x]
        if names:
            i = 0 if at == "begin" else -1
            values = [{"x": s.x[i], "y": s.y[i], "name": text(s.name)} for s in names]
            words = {"type": "text", "fontSize": 10, "color": colour("$muted"), **where}
            named = place | {"text": {"field": "name"}}
            yield {"data": {"values": values}, "mark": words, "encoding": named}


def _boxes(one: Panel, place: Spec, tip: Spec, colour: str) -> Iterable[Spec]:
    many = sum(len(s.y) for s in one.series) > MANY_BOXES
    size = max(4, min(26, 260 // max(1, len(place["x"]["scale"]["domain"]))))
    box: Spec = {"type": "boxplot", "color": colour, "size": size, "outliers": many and {"size": 10}}
    box["box"] = {"fillOpacity": 0.16, "stroke": colour}
    box["median"] = {"stroke": colour, "strokeWidth": 1.6}
    yield {"mark": box, "encoding": place}
    if not many:
        dot = {"type": "circle", "size": 12, "opacity": 0.65, "color": colour}
        yield {"transform": [{"filter": "isValid(datum.y)"}], "mark": dot, "encoding": place | tip}


def _bars(figure: Figure, one: Panel, by: Looks) -> Spec:
    rows = list(dict.fromkeys(text(y) for s in one.series for y in s.y))
    x: Spec = {"field": "x", "type": "quantitative", "axis": {"title": text(figure.x_label), "tickCount": 6}}
    if figure.x_range:
        x["scale"] = {"domain": list(figure.x_range)}
    y = {"field": "y", "type": "nominal", "sort": rows, "axis": {"title": None, "labelLimit": 260}}
    order, tip = {"field": "order"}, {"field": "tip"}
    encoding = {"x": x, "y": y, "order": order, "color": by["color"], "tooltip": tip}
    return {"mark": {"type": "bar", "height": 19}, "encoding": encoding}


def _slanted(figure: Figure) -> bool:
    """Whether the categories are too many or too long to stand upright; the same in all panels."""
    categories = figure.categories or []
    return len(categories) > 8 or sum(map(len, categories)) > 36


def _x(figure: Figure) -> Spec:
    axis: Spec = {"title": text(figure.x_label), "format": ",~f", "grid": False}
    if figure.x_scale == "category":
        angle = {"labelAngle": -40 if _slanted(figure) else 0, "labelLimit": 150}
        found: Spec = {"field": "x", "type": "nominal", "axis": {"title": axis["title"], **angle}}
        return found | {"scale": {"domain": [text(c) for c in figure.categories or []]}}
    scale: Spec = {"type": figure.x_scale, "nice": False}
    values = [x for x in _numbers(figure.panels, "x") if x > 0 or figure.x_scale == "linear"]
    low, high = min(values, default=1.0), max(values, default=1.0)
    if figure.x_scale == "log":
        ratio = (high / low) ** 0.04 if high > low else 1.5
        scale["domain"] = [low / ratio, high * ratio]
        axis["values"] = _ticks(low, high)
    else:
        room = (high - low) * 0.04 or 0.5
        scale["domain"] = [low - room, high + room]
    if figure.x_ticks:
        axis["values"] = figure.x_ticks
        if figure.x_texts:
            ticks, texts = json.dumps(figure.x_ticks), json.dumps(figure.x_texts)
            axis["labelExpr"] = f"{texts}[indexof({ticks}, datum.value)]"
    return {"field": "x", "type": "quantitative", "scale": scale, "axis": axis}


def _y(figure: Figure, one: Panel) -> Spec:
    scale: Spec = {"type": figure.y_scale, "nice": False}
    axis: Spec = {"format": ",~f", "title": text(one.y_label or figure.y_label)}
    if figure.shared_x:
        axis |= {"tickCount": 3, "title": None, "format": ",.4~g"}
        scale["nice"] = 3
    elif figure.y_scale == "log":
        values = [v for v in _numbers(figure.panels, "y", "low", "high") if v > 0]
        low, high = min(values, default=1.0), max(values, default=1.0)
        scale["domain"] = [low / 1.1, high * 1.1]
        axis["values"] = _ticks(low, high)
    elif figure.y_from_zero:
        scale["domain"] = [0, _top(figure, one)]
    return {"field": "y", "type": "quantitative", "scale": scale, "axis": axis}


def _ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 of each decade between; the decades alone where that makes too many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) <= 4 else (1,)
    found = [float(f"{step}e{decade}") for decade in decades for step in steps]
    return [tick for tick in found if low / 1.1 <= tick <= high * 1.1] or [low, high]


def _top(figure: Figure, one: Panel) -> float:
    """The end of an axis that starts at zero.

    Panels are compared by eye, so all of one unit share it; rows of boxes share it by row, or those of one
    stream would be flat lines under those of eight.
    """
    beside = figure.panels
    if any(s.mark == "box" for s in one.series):
        columns = max(1, figure.columns)
        row = next(i for i, p in enumerate(beside) if p is one) // columns
        beside = beside[row * columns : (row + 1) * columns]
    panels = [p for p in beside if p.y_label == one.y_label]
    return max(_numbers(panels, "y", "high"), default=1.0) * 1.06 or 1.0


def _numbers(panels: Sequence[Panel], *names: str) -> list[float]:
    lists = (_listed(s)[name] or () for p in panels for s in p.series for name in names)
    return [float(v) for values in lists for v in values if isinstance(v, int | float)]
