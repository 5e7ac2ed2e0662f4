# SPDX-License-Identifier: Apache-2.0
"""Plots as SVG, written by hand: axes, lines, bars. No library."""
import math
from html import escape

WIDTH = 760
OURS = "Holdfast"  # drawn bolder than others
COLOURS = ["#c2185b", "#1565c0", "#2e7d32", "#ef6c00", "#6a1b9a", "#00838f", "#795548", "#546e7a",
           "#9e9d24"]
FONT = "font-family='DejaVu Sans, Helvetica, Arial, sans-serif'"


def number(value):
    """A number for people: 0.5, 20, 1,000, 3 M."""
    if value >= 1e6:
        return f"{value / 1e6:g} M"
    return f"{value:,.0f}" if value >= 10 else f"{value:.3g}"


def duration(ns):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.3g} ns"


class Scale:
    """Maps values to positions; logarithmic, because values differ by orders of magnitude."""

    def __init__(self, values, begin, end, tight=False):
        self.low, self.high = math.log10(min(values)), math.log10(max(values))
        if not tight:
            self.low = math.floor(self.low)
            self.high = max(self.low + 1, math.ceil(self.high - 1e-9))
        self.begin, self.end = begin, end

    def __call__(self, value):
        part = (math.log10(value) - self.low) / (self.high - self.low)
        return self.begin + part * (self.end - self.begin)

    def ticks(self):
        return [10.0 ** n for n in range(math.ceil(self.low), math.floor(self.high) + 1)]


class Drawing:
    def __init__(self, height, title, note=""):
        self.height, self.title, self.parts = height, title, []
        self.text(WIDTH / 2, 24, title, "middle", 16, weight="bold")
        if note:
            self.text(WIDTH / 2, 43, note, "middle", 12, "#555")

    def text(self, x, y, text, anchor="start", size=12, colour="#222", weight="normal", turn=0):
        turned = f" transform='rotate({turn} {x:.1f} {y:.1f})'" if turn else ""
        self.parts.append(
            f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' font-size='{size}' "
            f"font-weight='{weight}' fill='{colour}' {FONT}{turned}>{escape(text)}</text>")

    def line(self, x1, y1, x2, y2, colour="#ddd", width=1.0):
        self.parts.append(f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' "
                          f"stroke='{colour}' stroke-width='{width}'/>")

    def dot(self, x, y, colour, size=4.0, hollow=False):
        fill = "#fff" if hollow else colour
        self.parts.append(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{size}' fill='{fill}' "
                          f"stroke='{colour}' stroke-width='2'/>")

    def mark(self, x, y, colour):
        """One of many that may overlap."""
        self.parts.append(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3.2' fill='{colour}' "
                          "fill-opacity='0.45'/>")

    def path(self, points, colour, width=2.0):
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f"<polyline points='{places}' fill='none' stroke='{colour}' "
                          f"stroke-width='{width}'/>")

    def write(self, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' "
                       f"height='{self.height}' viewBox='0 0 {WIDTH} {self.height}' role='img'>\n"
                       f"<title>{escape(self.title)}</title>\n"
                       f"<rect width='{WIDTH}' height='{self.height}' fill='#fff'/>\n")
            file.write("\n".join(self.parts) + "\n</svg>\n")


def ranges(path, title, note, rows, label):
    """Each row has a name, a lower and a higher value: a line from dot to ring."""
    height, left, right, top = 110 + 30 * len(rows), 150, WIDTH - 150, 62
    drawing = Drawing(height, title, note)
    scale = Scale([v for _, low, high in rows for v in (low, high)], left, right)
    bottom = top + 30 * len(rows)
    for tick in scale.ticks():
        drawing.line(scale(tick), top, scale(tick), bottom)
        drawing.text(scale(tick), bottom + 18, duration(tick), "middle")
    drawing.text((left + right) / 2, bottom + 38, label, "middle", 12, "#555")
    for i, (name, low, high) in enumerate(rows):
        y, bold = top + 15 + 30 * i, name == OURS
        colour = COLOURS[0 if bold else 1]
        drawing.text(left - 12, y + 4, name, "end", 13, weight="bold" if bold else "normal")
        drawing.line(scale(low), y, scale(high), y, colour, 3)
        drawing.dot(scale(low), y, colour)
        drawing.dot(scale(high), y, colour, hollow=True)
        drawing.text(right + 12, y + 4, f"{duration(low)} · {duration(high)}", "start", 11, "#555")
    drawing.write(path)


def _spread(places, least):
    """Moves labels apart that would overlap."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    moved = list(places)
    for last, this in zip(order, order[1:]):
        moved[this] = max(moved[this], moved[last] + least)
    return moved


def lines(path, title, note, series, across, upward, unit=number, height=420):
    """Each series has a name and points (x, y). Both axes are logarithmic."""
    drawing = Drawing(height, title, note)
    left, right, top, bottom = 84, WIDTH - 170, 62, height - 62
    points = [p for _, own in series for p in own]
    x = Scale([p[0] for p in points], left, right - 8, tight=True)
    y = Scale([p[1] for p in points], bottom, top)
    for tick in y.ticks():
        drawing.line(left, y(tick), right, y(tick))
        drawing.text(left - 8, y(tick) + 4, unit(tick), "end")
    for place in sorted({p[0] for p in points}):
        drawing.line(x(place), top, x(place), bottom, "#eee")
        drawing.text(x(place), bottom + 18, number(place), "middle")
    drawing.line(left, bottom, right, bottom, "#888")
    drawing.text((left + right) / 2, bottom + 40, across, "middle", 12, "#555")
    drawing.text(18, (top + bottom) / 2, upward, "middle", 12, "#555", turn=-90)
    labels = _spread([y(own[-1][1]) + 4 for _, own in series], 15)
    for i, (name, own) in enumerate(series):
        colour, bold = COLOURS[i % len(COLOURS)], name == OURS
        places = [(x(a), y(b)) for a, b in own]
        drawing.path(places, colour, 3.0 if bold else 1.8)
        for place in places:
            drawing.dot(*place, colour, 3.5 if bold else 2.5)
        drawing.text(places[-1][0] + 10, labels[i], f"{name}  {unit(own[-1][1])}", "start", 11.5,
                     colour, "bold" if bold else "normal")
    drawing.write(path)
