"""Plots as inline SVG. Colours and fonts come from the page's style sheet (classes p0 to p7), so that they
follow the reader's light or dark; each figure is readable without colour by its marks and titles."""
import html
import math

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 14, 46


def escape(text):
    return html.escape(str(text), quote=True)


def steps(most):
    """Three to six round numbers from 0 up to at least `most`."""
    if most <= 0:
        return [0, 1]
    raw = most / 4
    unit = 10 ** math.floor(math.log10(raw))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= raw)
    return [round(step * at, 10) for at in range(math.ceil(most / step - 1e-9) + 1)]


def text(x, y, words, anchor="middle", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def frame(title, y_title, ticks, height=HEIGHT):
    """The opening of a figure with its horizontal lines; y as a function of a value."""
    top, bottom = TOP, height - BOTTOM

    def y_of(value):
        return bottom - (bottom - top) * min(value, ticks[-1]) / ticks[-1]
    out = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'
           f"<title>{escape(title)}</title>"]
    for tick in ticks:
        out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y_of(tick):.1f}" '
                   f'y2="{y_of(tick):.1f}"/>')
        out.append(text(LEFT - 6, y_of(tick) + 4, f"{tick:g}", "end"))
    out.append(text(14, (top + bottom) / 2, y_title,
                    more=f' transform="rotate(-90 14 {(top + bottom) / 2:.0f})"'))
    return out, y_of


MARKS = ('<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/>',
         '<rect x="{l:.1f}" y="{t:.1f}" width="8" height="8"/>',
         '<path d="M{x:.1f} {t:.1f}l5 9h-10z"/>', '<path d="M{x:.1f} {t:.1f}l5 5-5 5-5-5z"/>')


def mark(series, x, y, title, link):
    shape = MARKS[series % len(MARKS)].format(x=x, y=y, l=x - 4, t=y - 4.5)
    return f'<a href="#{link}"><g class="p{series % 8} mark"><title>{escape(title)}</title>{shape}</g></a>'


def legend(names):
    items = "".join(f'<li><svg viewBox="-7 -7 14 14" class="key"><g class="p{at % 8} mark">'
                    f"{MARKS[at % len(MARKS)].format(x=0, y=0, l=-4, t=-4.5)}</g></svg>{escape(name)}</li>"
                    for at, name in enumerate(names))
    return f'<ul class="legend">{items}</ul>'


def lines(title, x_title, y_title, x_names, series):
    """Values over evenly spaced names: series are (name, [(index, value, hover text, link)])."""
    most = max((value for _, points in series for _, value, _, _ in points), default=0)
    out, y_of = frame(title, y_title, steps(most))

    def x_of(at):
        return LEFT + (WIDTH - LEFT - RIGHT) * (at + 0.5) / len(x_names)
    for at, name in enumerate(x_names):
        out.append(text(x_of(at), HEIGHT - BOTTOM + 16, name))
    out.append(text((LEFT + WIDTH) / 2, HEIGHT - 8, x_title))
    for number, (_, points) in enumerate(series):
        path = " ".join(f"{x_of(at):.1f},{y_of(value):.1f}" for at, value, _, _ in points)
        out.append(f'<polyline class="p{number % 8} line" points="{path}"/>')
        out += [mark(number, x_of(at), y_of(value), hover, link) for at, value, hover, link in points]
    return "".join(out) + "</svg>" + legend([name for name, _ in series])


def bars(title, y_title, names, series, line=None):
    """Groups of bars, lying, one group a name: series are (name, [(value, hover, link) or None])."""
    bar, gap, left = 11, 10, 190
    group = bar * len(series) + gap
    height = TOP + group * len(names) + 40
    most = max((one[0] for _, values in series for one in values if one), default=0)
    ticks = steps(max(most, line or 0))

    def x_of(value):
        return left + (WIDTH - left - 40) * value / ticks[-1]
    out = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'
           f"<title>{escape(title)}</title>"]
    bottom = TOP + group * len(names)
    for tick in ticks:
        out.append(f'<line class="grid" x1="{x_of(tick):.1f}" x2="{x_of(tick):.1f}" y1="{TOP}" '
                   f'y2="{bottom}"/>' + text(x_of(tick), bottom + 16, f"{tick:g}"))
    out.append(text((left + WIDTH) / 2, bottom + 34, y_title))
    for at, name in enumerate(names):
        y = TOP + group * at
        out.append(text(left - 8, y + group / 2, name, "end"))
        for number, (_, values) in enumerate(series):
            if values[at]:
                value, hover, link = values[at]
                out.append(f'<a href="#{link}"><rect class="p{number % 8} bar" x="{left}" '
                           f'y="{y + number * bar:.1f}" width="{max(1, x_of(value) - left):.1f}" '
                           f'height="{bar - 1}"><title>{escape(hover)}</title></rect></a>')
    if line:
        out.append(f'<line class="bound" x1="{x_of(line):.1f}" x2="{x_of(line):.1f}" y1="{TOP}" '
                   f'y2="{bottom}"/>')
    return "".join(out) + "</svg>" + legend([name for name, _ in series])


def over_time(title, y_title, series):
    """Curves over seconds: series are (name, [(seconds, value)])."""
    most_y = max((value for _, points in series for _, value in points), default=0)
    most_x = max((at for _, points in series for at, _ in points), default=1)
    height = 200
    out, y_of = frame(title, y_title, steps(most_y), height)
    ticks = steps(most_x)

    def x_of(at):
        return LEFT + (WIDTH - LEFT - RIGHT) * at / ticks[-1]
    for tick in ticks:
        out.append(text(x_of(tick), height - BOTTOM + 16, f"{tick:g}"))
    out.append(text((LEFT + WIDTH) / 2, height - 10, "seconds"))
    for number, (_, points) in enumerate(series):
        path = " ".join(f"{x_of(at):.1f},{y_of(value):.1f}" for at, value in points)
        out.append(f'<polyline class="p{number % 8} line" points="{path}"/>')
    return "".join(out) + "</svg>" + legend([name for name, _ in series])
