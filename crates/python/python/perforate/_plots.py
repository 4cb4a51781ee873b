"""Charts of comparisons and sweeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from ._packages import package
from ._results import ESTIMATES

if TYPE_CHECKING:
    import altair
    import matplotlib.figure

    from ._estimate import Estimate
    from ._results import Comparison, Scheme
    from ._sweep import Sweep


class Panel(NamedTuple):
    """One figure of every scheme."""

    title: str
    #: Format of a value.
    form: str
    #: Value and half the width of its interval.
    values: Sequence[tuple[float, float]]


def panels(comparison: Comparison, counter: Optional[str]) -> list[Panel]:
    """Data of a comparison's chart."""
    schemes = list(comparison)
    if counter is not None:
        return [Panel(counter, "{:,.4g}", [(scheme[counter], 0.0) for scheme in schemes])]
    if any(scheme.speed is None for scheme in schemes):
        return panels(comparison, "walks")
    speeds = [_pair(scheme.speed) for scheme in schemes]
    panel = Panel(f"speed ÷ {comparison.reference}", "{:.2f}×", speeds)
    if any(scheme.saving is not None for scheme in schemes):
        savings = [_pair(scheme.saving, 100.0) for scheme in schemes]
        return [panel, Panel("free translation saves (% of time)", "{:.1f} %", savings)]
    shares = [_pair(scheme.translation_share, 100.0) for scheme in schemes]
    return [panel, Panel("waiting for translation (% of time)", "{:.1f} %", shares)]


def _pair(estimate: Optional[Estimate], scale: float = 1.0) -> tuple[float, float]:
    if estimate is None:
        return (0.0, 0.0)
    return (estimate.value * scale, (estimate.half_width or 0.0) * scale)


def title(comparison: Comparison) -> str:
    """Title of a comparison's chart."""
    first = comparison.runs[0]
    return f"{first.workload} on {first.machine}"


def plot(comparison: Comparison, counter: Optional[str]) -> matplotlib.figure.Figure:
    """Bars by matplotlib."""
    pyplot = package("matplotlib.pyplot", "plot")
    drawn = panels(comparison, counter)
    schemes = list(comparison)
    figure, axes = pyplot.subplots(
        1, len(drawn), figsize=(1.5 + 4.2 * len(drawn), 0.9 + 0.42 * len(schemes)), squeeze=False, sharey=True
    )
    places = range(len(schemes))
    for axis, panel in zip(axes[0], drawn):
        means, halves = zip(*panel.values)
        axis.barh(places, means, xerr=halves, color=[scheme.colour for scheme in schemes], ecolor="#444444")
        for place, (mean, half) in zip(places, panel.values):
            axis.annotate(
                panel.form.format(mean), (mean + half, place), xytext=(4, 0), textcoords="offset points", va="center"
            )
        axis.set_xlim(0, max(mean + half for mean, half in panel.values) * 1.22 or 1.0)
        axis.set_title(panel.title, fontsize=10, loc="left")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_yticks(list(places), [scheme.name for scheme in schemes])
    axes[0][0].invert_yaxis()
    figure.suptitle(title(comparison), fontsize=11)
    figure.tight_layout()
    pyplot.close(figure)  # whoever asked shows it, once
    found: matplotlib.figure.Figure = figure
    return found


def chart(comparison: Comparison, counter: Optional[str]) -> altair.TopLevelMixin:
    """Bars by altair."""
    alt = package("altair", "chart")
    schemes = list(comparison)
    drawn = [_bars(alt, schemes, panel) for panel in panels(comparison, counter)]
    found: altair.TopLevelMixin = alt.hconcat(*drawn).properties(title=title(comparison))
    return found


def _bars(alt: Any, schemes: Sequence[Scheme], panel: Panel) -> Any:
    rows = [
        {"scheme": scheme.name, "value": mean, "least": mean - half, "most": mean + half}
        for scheme, (mean, half) in zip(schemes, panel.values)
    ]
    names = [scheme.name for scheme in schemes]
    colours = alt.Scale(domain=names, range=[scheme.colour for scheme in schemes])
    place = alt.Y("scheme:N", sort=names, title=None)
    base = alt.Chart(alt.Data(values=rows))
    bars = base.mark_bar().encode(
        x=alt.X("value:Q", title=panel.title),
        y=place,
        color=alt.Color("scheme:N", scale=colours, legend=None),
        tooltip=["scheme:N", "value:Q"],
    )
    intervals = base.mark_rule().encode(x="least:Q", x2="most:Q", y=place)
    return (bars + intervals).properties(width=300)


def curves(sweep: Sweep, x: Optional[str], y: str) -> tuple[str, dict[str, list[tuple[Any, float]]], Mapping[str, str]]:
    """Data of a sweep's chart: key of the x axis, curve of each scheme, colours."""
    keys = sweep.varied
    along = x if x is not None else keys[0] if keys else "point"
    others = [key for key in keys if key != along]
    found: dict[str, list[tuple[Any, float]]] = {}
    colours: dict[str, str] = {}
    for point, comparison in zip(sweep.points, sweep.comparisons):
        rest = ", ".join(f"{key}={point[key]}" for key in others)
        for scheme in comparison:
            value = _value(scheme, y)
            if value is None:
                continue
            name = f"{scheme.name} ({rest})" if rest else scheme.name
            found.setdefault(name, []).append((point.get(along, 0), value))
            colours[name] = scheme.colour
    return along, found, colours


def _value(scheme: Scheme, y: str) -> Optional[float]:
    if y in ESTIMATES:
        estimate: Optional[Estimate] = getattr(scheme, y)
        return None if estimate is None else estimate.value
    return scheme.ipc if y == "ipc" else scheme[y]


def heading(y: str) -> str:
    """Label of an axis."""
    headings = {
        "speed": "speed ÷ 4KB",
        "saving": "free translation saves (share of time)",
        "translation_share": "waiting for translation (share of time)",
        "ipc": "IPC",
    }
    return headings.get(y, y.replace("_", " "))


#: Greatest odd factor of a number that is written with units of 1024, as in reports.
_GREATEST_ODD = 15
#: Distance below which curves overlap, as a share of the chart's height.
_SAME_PLACE = 0.005
#: Number of letters of names that fit beside each other below a chart.
_MOST_LETTERS = 48
#: Length of a dash and a gap together, for overlapping curves, in points.
_GAPS = 9.0


def is_binary(number: float) -> bool:
    """True of numbers that a reader counts in powers of two, such as 64, 1,536 and 131,072."""
    if number < 0 or number != int(number):
        return False
    odd = int(number)
    while odd and odd % 2 == 0:
        odd //= 2
    return odd <= _GREATEST_ODD


def tick_text(number: float, binary: bool) -> str:
    """A number beside an axis: 128k is 131,072 where ``binary``."""
    if binary:
        for unit, size in (("G", 1 << 30), ("M", 1 << 20), ("k", 1 << 10)):
            if number >= size and number % size == 0:
                return f"{int(number / size)}{unit}"
    return f"{int(number):,}" if number == int(number) else f"{number:.4g}"


def coinciding(curves: Mapping[str, Sequence[tuple[Any, float]]]) -> list[list[str]]:
    """Names of overlapping curves, of which only one would be visible."""
    values = [value for pairs in curves.values() for _, value in pairs]
    # The axis begins at 0 unless a value is negative.
    height = max([0.0, *values]) - min([0.0, *values])
    groups: list[list[str]] = []
    for name, pairs in curves.items():
        for group in groups:
            first = curves[group[0]]
            if (
                len(pairs) > 1
                and [at for at, _ in pairs] == [at for at, _ in first]
                and all(abs(a - b) <= _SAME_PLACE * height for (_, a), (_, b) in zip(pairs, first))
            ):
                group.append(name)
                break
        else:
            groups.append([name])
    return [group for group in groups if len(group) > 1]


def _thin(figure: matplotlib.figure.Figure, axis: Any) -> None:
    """Removes labels of the x axis that would touch the label before."""
    figure.draw_without_rendering()
    end = float("-inf")
    for label in axis.get_xticklabels():
        box = label.get_window_extent()
        if box.x0 < end:
            label.set_visible(False)
        else:
            end = box.x1 + 0.5 * box.height


def plot_sweep(sweep: Sweep, x: Optional[str], y: str) -> matplotlib.figure.Figure:
    """Curves by matplotlib."""
    pyplot = package("matplotlib.pyplot", "plot")
    along, found, colours = curves(sweep, x, y)
    figure, axis = pyplot.subplots(figsize=(6.4, 4.0))
    marks = "osD^v<>ph*"
    is_number = all(isinstance(at, (int, float)) for pairs in found.values() for at, _ in pairs)
    numbers = sorted({at for pairs in found.values() for at, _ in pairs}) if is_number else []
    gaps = {
        name: (0.0, (_GAPS * (len(group) - rank) / len(group), _GAPS * rank / len(group)))
        for group in coinciding(found)
        for rank, name in enumerate(group)
        if rank
    }
    used: dict[str, int] = {}
    for name, pairs in found.items():
        rank = used.setdefault(colours[name], -1) + 1
        used[colours[name]] = rank
        pairs = sorted(pairs) if is_number else [(str(at), height) for at, height in pairs]
        axis.plot(
            [at for at, _ in pairs],
            [height for _, height in pairs],
            marker=marks[rank % len(marks)],
            color=colours[name],
            label=name,
            linestyle=gaps.get(name, "-"),
            # Points on the edge are not clipped.
            clip_on=False,
            zorder=3,
        )
    if numbers:
        binary = all(is_binary(number) for number in numbers)
        steps = [after / before for before, after in zip(numbers, numbers[1:]) if before > 0]
        doubles = binary and len(steps) > 0 and all(step in (2, 4, 8) for step in steps)
        if numbers[0] > 0 and (numbers[-1] >= 8 * numbers[0] or doubles):
            axis.set_xscale("log", base=2)
        axis.set_xticks(numbers, [tick_text(number, binary) for number in numbers])
        axis.minorticks_off()
    if all(height >= 0 for pairs in found.values() for _, height in pairs):
        axis.set_ylim(bottom=0)
    axis.set_xlabel(along)
    axis.set_ylabel(heading(y))
    axis.spines[["top", "right"]].set_visible(False)
    same = [", ".join(group[:-1]) + " and " + group[-1] for group in coinciding(found)]
    if same:
        axis.set_title("\n".join(f"The curves of {names} coincide." for names in same), fontsize=8, loc="left")
    axis.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    names = {str(at) for pairs in found.values() for at, _ in pairs}
    if not is_number and sum(len(name) for name in names) > _MOST_LETTERS:
        # Names that do not fit beside each other are rotated.
        for label in axis.get_xticklabels():
            label.set(rotation=30, horizontalalignment="right", rotation_mode="anchor")
    figure.tight_layout()
    if is_number:
        _thin(figure, axis)
    pyplot.close(figure)
    drawn: matplotlib.figure.Figure = figure
    return drawn


def chart_sweep(sweep: Sweep, x: Optional[str], y: str) -> altair.TopLevelMixin:
    """Curves by altair."""
    alt = package("altair", "chart")
    along, found, colours = curves(sweep, x, y)
    rows = [{"x": at, "y": height, "scheme": name} for name, pairs in found.items() for at, height in pairs]
    is_number = all(isinstance(row["x"], (int, float)) for row in rows)
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    drawn: altair.TopLevelMixin = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("x:Q" if is_number else "x:N", sort=None, title=along),
            y=alt.Y("y:Q", title=heading(y)),
            color=alt.Color("scheme:N", scale=scale, title=None),
        )
        .properties(width=420)
    )
    return drawn
