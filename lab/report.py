"""One page, complete in itself, of files of results: misses first, then tables and plots in which every number
leads to the line of results that it comes from."""
import datetime
import hashlib
import json
import os
import sys

import model
import plots
import published
import results
from plots import escape
from quantities import show_rate, show_size
from results import number, rate_words

HERE = os.path.dirname(os.path.abspath(__file__))
BUSY_MOST = 0.1
RAW_LEFT_OUT = ("file", "line", "raw", "id")


def asset(name):
    with open(os.path.join(HERE, "page", name), encoding="utf-8") as file:
        return file.read()


def table(head, rows):
    """Rows are lists of ready <td>; head is plain words."""
    top = "".join(f"<th>{escape(word)}</th>" for word in head)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def td(words, kind=""):
    return f'<td class="{kind}">{words}</td>' if kind else f"<td>{words}</td>"


def to_line(run, words):
    return f'<a href="#{run["id"]}">{words}</a>'


def nearest(program, figure, value):
    """The run whose figure is nearest to a median: where a link leads."""
    runs = [run for run in program.good if run.get(figure) is not None]
    return min(runs, key=lambda run: abs(run[figure] - value)) if runs else None


def figure_td(program, figure, digits, kind=""):
    value = program.median(figure) if program else None
    if value is None:
        return td("-", kind)
    return td(to_line(nearest(program, figure, value), number(value, digits)), kind)


def rate_td(program, best=False):
    """A median with least and most, each linked to its line."""
    if program is None or not program.runs:
        return td("-")
    if not program.finished:
        run = next((run for run in program.good if "floor_mb_per_s" in run), program.runs[0])
        crossed = run.get("crossed_mb_per_s") if program.floor else None
        small = f" <small>{crossed:.2g} crossed</small>" if crossed else ""
        return td(to_line(run, escape(rate_words(program))) + small, "" if program.floor else "bad")
    words = to_line(nearest(program, "mb_per_s", program.rate), number(program.rate))
    if len(program.good) > 1 and program.least is not None:
        ends = [to_line(nearest(program, "mb_per_s", value), number(value))
                for value in (program.least, program.most)]
        words += f" <small>{ends[0]} to {ends[1]}</small>"
    return td(words, "best" if best else "")


def ratio_td(figures, other):
    ratio, floor = figures.ratio(other)
    if ratio is None:
        return td("-")
    run = nearest(figures.petrel, "mb_per_s", figures.petrel.rate)
    words = f"{'≥ ' if floor else ''}{ratio:.2f}"
    return td(to_line(run, words), "bad" if ratio < 1 and not floor else "")


def best_of(figures):
    bound = [one for one in figures.others() if one.bound]
    return max(bound, key=lambda one: one.bound) if bound else None


class Report:
    def __init__(self, paths):
        self.lines = [line for path in paths for line in results.load(path)]
        for at, line in enumerate(self.lines, 1):
            line["id"] = f"r{at}"
        self.cells = results.cells(self.lines)
        if not self.cells:
            raise ValueError(f"no runs in {', '.join(paths)}")
        self.begins = [line for line in self.lines if line["kind"] == "begin"]
        self.matrices = list(dict.fromkeys(figures.matrix for figures in self.cells))

    def of(self, matrix):
        return [figures for figures in self.cells if figures.matrix is matrix]

    # ---- what a reader has to know first ----

    def losses(self):
        """Missed bars, and cells in which another program was faster than petrel."""
        found = []
        for figures in self.cells:
            where = f"{figures.matrix.name}, {figures.cell.name}"
            for words in figures.misses():
                found.append((figures, f"<b>{escape(where)}</b>: {escape(words)}"))
            best = best_of(figures)
            ratio, floor = figures.ratio(best)
            if ratio is not None and ratio < 1 and not floor and not figures.misses():
                found.append((figures, f"<b>{escape(where)}</b>: {escape(best.name)} was faster, petrel "
                                       f"reached {ratio:.2f} of it"))
        return found

    def first_run(self, figures):
        return figures.petrel.runs[0] if figures.petrel else figures.runs[0]

    def caveats(self):
        runs = [run for figures in self.cells for run in figures.runs]
        found = []
        if any(run.get("emulator_faults") for run in runs):
            bad = [run for run in runs if run.get("emulator_faults")]
            found.append(f"In {to_line(bad[0], f'{len(bad)} runs')} the emulator itself dropped packets: they "
                         "say less about the link than they should.")
        own = [run for run in runs if run.get("own_drops")]
        if own:
            words = f"{len(own)} run{'s' if len(own) > 1 else ''}"
            found.append(f"In {to_line(own[0], words)} the ends themselves dropped packets, in their "
                         "sockets or interfaces (own_drops in the raw lines): the path did not lose these.")
        again = sum(figures.attempts - len(figures.runs) for figures in self.cells)
        if again:
            found.append(f"{again} run{'s' if again > 1 else ''} during which the host of this virtual machine "
                         f"took more than {results.STOLEN_MOST} % of its processors for others "
                         f"{'were' if again > 1 else 'was'} repeated; of each run the calmest counts.")
        taken = [run for run in runs if results.stolen(run) > results.STOLEN_MOST]
        if taken:
            most = max(taken, key=results.stolen)
            found.append(f"In {len(taken)} of the runs that count the host took more than {results.STOLEN_MOST} % "
                         f"of the processors, at most {to_line(most, f'{results.stolen(most):.0f} %')}: their "
                         "figures are of a slower machine.")
        for matrix in self.matrices:
            words = results.repetitions_words(self.of(matrix))
            if int(words.split()[0]) < 3:
                found.append(f"{escape(matrix.name)} has {words}: how far its figures spread is not known.")
        for begin in self.begins:
            if hashlib.sha256(begin["matrix_text"].encode()).hexdigest() != begin["matrix_sha256"]:
                found.append(f"The matrix {escape(begin['matrix'])} is not the one that was hashed.")
            if begin.get("busy_share", 0) > BUSY_MOST:
                found.append(f"Other work had {begin['busy_share'] * 100:.0f} % of the machine when "
                             f"{to_line(begin, escape(begin['matrix']))} began.")
            if begin.get("awake"):
                found.append(f"{to_line(begin, escape(begin['matrix']))} ran while loops of idle priority kept the "
                             "processors from going to sleep, which this virtual machine's host ends late.")
            if begin["absent"]:
                found.append(f"Not installed, so left out of {to_line(begin, escape(begin['matrix']))}: "
                             f"{escape(', '.join(begin['absent']))}.")
        hashes = {}
        for begin in self.begins:
            hashes.setdefault(begin["matrix"], set()).add(begin["matrix_sha256"])
        found += [f"The matrix {escape(name)} was changed between runs; the bars of the last are used."
                  for name, all_hashes in hashes.items() if len(all_hashes) > 1]
        if not any(line["kind"] == "calibration" for line in self.lines):
            found.append("The paths were not calibrated by other programs.")
        faults = [line for line in self.lines if line["kind"] == "fault"]
        found += [f"{to_line(line, 'A cell failed as a whole')}: {escape(line['text'][-250:])}" for line in faults]
        if all(begin["host_label"] == "one machine" for begin in self.begins):
            found.append("Both ends and the link shared the processors of one machine: what needs more "
                         "processor than there is shows as a lower rate, not as a slower link.")
        return found

    def summary(self):
        judged = [figures for figures in self.cells if any(met is not None for _, met, _ in figures.verdicts())]
        missed = [figures for figures in self.cells if figures.misses()]
        losses = "".join(f"<li>{words} {to_line(self.first_run(figures), '(line)')}</li>"
                         for figures, words in self.losses())
        caveats = "".join(f"<li>{words}</li>" for words in self.caveats())
        met = len([one for one in judged if one not in missed])
        return (f'<p>{len(self.cells)} cells, {sum(len(one.runs) for one in self.cells)} runs. <b>{met} of '
                f"{len(judged)}</b> cells with bars met them all.</p><h2 id=\"losses\">Misses and losses</h2>"
                + (f"<ul>{losses}</ul>" if losses else "<p>No bar was missed, and no program was faster.</p>")
                + f'<h2 id="caveats">Caveats</h2><ul>{caveats}</ul>')

    # ---- tables ----

    def rift_table(self, cells):
        """Loss by round trip, each rate with theirs and ours side by side."""
        rates = list(dict.fromkeys(figures.cell.words["rate"] for figures in cells))
        rows = {}
        for figures in cells:
            words = figures.cell.words
            name = (words["loss"] + (" correlated" if "correlation" in words else ""), words["rtt"])
            rows.setdefault(name, {})[words["rate"]] = figures
        head = ["loss", "round trip"]
        for rate in rates:
            head += [f"{rate}: RIFT", "petrel", "its HTTPS", "curl", "curl/bbr"]
        body = []
        for (loss, rtt), by_rate in rows.items():
            row = [td(escape(loss)), td(escape(rtt))]
            for rate in rates:
                figures = by_rate.get(rate)
                theirs = published.RIFT.get(figures.cell.name, {}) if figures else {}
                row += [td(theirs.get("RIFT", "-"), "theirs"), rate_td(figures and figures.petrel),
                        td(theirs.get("its HTTPS", "-"), "theirs"),
                        *(rate_td(figures and figures.program(name)) for name in ("curl", "curl/bbr"))]
            body.append(row)
        return table(head, body)

    def form_table(self, matrix, cells):
        """Their rows and columns, ours beside them."""
        columns = published.columns(matrix.form)
        theirs = published.BY_FORM[matrix.form]
        programs = list(dict.fromkeys(program.name for one in cells for program in one.programs))
        rows = []
        for figures in cells:
            known = theirs.get(figures.cell.name, {})
            rows.append([td(escape(figures.cell.name)),
                         *(td(escape(known.get(column, "-")), "theirs") for column in columns),
                         *(rate_td(figures.program(name)) for name in programs),
                         ratio_td(figures, best_of(figures))])
        return table(["cell", *columns, *(f"{name}, MB/s" for name in programs), "petrel / best other"], rows)

    def cell_row(self, figures, programs):
        petrel, cell = figures.petrel, figures.cell
        fastest = max((one.bound or 0 for one in figures.programs), default=0)
        share = figures.of_ceiling(petrel)
        verdicts = "; ".join(
            f'<span class="{"good" if met else "soft" if met is None else "bad"}">'
            f'{escape(bar.text if bar else "besides")}: {escape(words)}</span>'
            for bar, met, words in figures.verdicts()) or "-"
        run = self.first_run(figures)
        return [td(escape(cell.name)), *(rate_td(one, bool(one) and one.bound == fastest)
                                         for one in map(figures.program, programs)),
                td(number(cell.ceiling())), td(to_line(run, number(share, 3)) if share else "-"),
                ratio_td(figures, best_of(figures)), td(verdicts, "words"), figure_td(petrel, "loss_percent", 2),
                figure_td(petrel, "resent_percent", 2), figure_td(petrel, "queue_ms", 1),
                figure_td(petrel, "sender_rss_mb", 0), figure_td(petrel, "receiver_rss_mb", 0),
                figure_td(petrel, "sender_cpu_s_per_gb", 2), figure_td(petrel, "receiver_cpu_s_per_gb", 2),
                figure_td(petrel, "kept_percent", 0)]

    def all_table(self, cells):
        programs = list(dict.fromkeys(program.name for one in cells for program in one.programs))
        return table(["cell", *programs, "ceiling", "/ ceiling", "/ best other", "bars", "lost %", "resent %",
                      "queue ms", "sender MB", "receiver MB", "sender s/GB", "receiver s/GB",
                      "flow keeps %"], [self.cell_row(figures, programs) for figures in cells])

    def calibration_table(self, cells):
        rows = []
        for figures in cells:
            for one in figures.calibrations[-1:]:
                cell = figures.cell
                rows.append([td(escape(cell.name)), td(show_rate(cell.rate_bps)), td(f"{cell.rtt_s * 1e3:g} ms"),
                             td(f"{cell.loss * 100:g} %"), td(to_line(one, number(one.get("rtt_ms"), 2))),
                             td(number(one.get("tcp_bbr_mbit"))), td(number(one.get("udp_mbit"))),
                             td(number(one.get("udp_loss_percent"), 2))])
        if not rows:
            return ""
        return "<h3>Calibration by ping and iperf3</h3>" + table(
            ["cell", "rate", "round trip", "loss", "ping, ms", "TCP (BBR), Mbit/s", "UDP, Mbit/s",
             "UDP lost %"], rows)

    # ---- plots ----

    def plot_of_losses(self, cells):
        """Goodput by loss, a line for each program and round trip, a figure for each rate."""
        out = []
        groups = {}
        for figures in cells:
            words = figures.cell.words
            if not {"burst", "correlation", "beside"} & set(words):
                kind = words["rate"], words.get("stream", ""), words["size"], words["tcp-buffers"]
                groups.setdefault(kind, []).append(figures)
        for (rate, stream, size, buffers), group in groups.items():
            losses = sorted({figures.cell.loss for figures in group})
            if len(losses) < 2:
                continue
            series = {}
            for figures in sorted(group, key=lambda one: (one.cell.rtt_s, one.cell.loss)):
                for program in (figures.petrel, best_of(figures)):
                    if program and program.rate:
                        which = f"{'petrel' if program is figures.petrel else 'best other'}, " \
                                f"{figures.cell.words['rtt']}"
                        run = nearest(program, "mb_per_s", program.rate)
                        series.setdefault(which, []).append(
                            (losses.index(figures.cell.loss), program.rate,
                             f"{program.name}, {figures.cell.name}: {program.rate:.1f} MB/s", run["id"]))
            what = f"streams of {stream}" if stream else f"copies of {show_size(group[0].cell.size)}"
            title = f"Goodput by loss, {show_rate(group[0].cell.rate_bps)}, {what}" + \
                (", default buffers" if buffers == "default" else "")
            out.append(f"<div><h3>{escape(title)}</h3>" + plots.lines(
                title, "loss", "MB/s", [f"{loss * 100:g} %" for loss in losses],
                sorted(series.items(), key=lambda one: not one[0].startswith("petrel"))) + "</div>")
        return "".join(out)

    def plot_bars(self, cells, title, unit, value_of, line=None, petrel_only=False):
        programs = list(dict.fromkeys(program.name for one in cells for program in one.programs))
        if petrel_only:
            programs = [name for name in programs if name.split("/")[0] == "petrel"]
        series = []
        for name in programs:
            values = []
            for figures in cells:
                program = figures.program(name)
                value = value_of(figures, program) if program and program.good else None
                values.append((value, f"{name}, {figures.cell.name}: {value:.3g} {unit}",
                               program.good[0]["id"]) if value else None)
            if any(values):
                series.append((name, values))
        if not series:
            return ""
        return f"<div><h3>{escape(title)}</h3>" + plots.bars(
            title, unit, [figures.cell.name for figures in cells], series, line) + "</div>"

    def time_plots(self, cells):
        out = []
        for figures in cells:
            rate, memory = [], []
            for program in figures.programs:
                run = next((run for run in program.good if len(run.get("timeline", ())) > 2), None)
                if run is None:
                    continue
                line = [[0, 0, 0, 0], *run["timeline"]]
                rate.append((program.name, [((a[0] + b[0]) / 2, (b[1] - a[1]) / 1e6 / (b[0] - a[0]))
                                            for a, b in zip(line, line[1:]) if b[0] > a[0]]))
                memory.append((program.name, [(at[0], at[2] + at[3]) for at in run["timeline"]]))
            if rate:
                name = figures.cell.name
                out.append(f"<div><h3>{escape(name)}</h3>"
                           + plots.over_time(f"{name}: rate over time", "MB/s on the link", rate)
                           + plots.over_time(f"{name}: memory over time, both ends", "MB", memory) + "</div>")
        if not out:
            return ""
        return f'<details><summary>Rate and memory over time, {len(out)} cells</summary><div class="figures">' \
            f'{"".join(out)}</div></details>'

    def plots_of(self, cells):
        with_ceiling = [figures for figures in cells if figures.cell.ceiling()]
        return '<div class="figures">' + self.plot_of_losses(cells) + self.plot_bars(
            with_ceiling, "Share of the ceiling (the dashed line)", "of the ceiling",
            lambda figures, program: figures.of_ceiling(program), 1.0) + self.plot_bars(
            cells, "Processor time of both ends", "s/GB",
            lambda figures, program: program.processor()) + "</div>" + self.time_plots(cells)

    # ---- the rest ----

    def calculator(self):
        constants = json.dumps(model.load()).replace("</", "<\\/")
        fields = "".join(f'<div><label for="{name}">{title}</label><input id="{name}" value="{value}" '
                         f'placeholder="{value}"></div>' for name, title, value in (
                             ("rtt", "Round trip", "100ms"), ("loss", "Loss", "1%"),
                             ("rate", "Rate of the line, or none", "1gbit"), ("size", "Size", "10GiB")))
        return (f'<h2 id="estimate">How long would a copy take?</h2><form id="calculator" '
                f'onsubmit="return false">{fields}</form><p id="fault" class="bad" hidden>Write them like '
                '100ms, 1%, 1gbit and 10GiB.</p><div class="scroll"><table><thead><tr><th></th><th>takes</th>'
                "<th>then runs at</th><th>petrel is</th><th>off by</th></tr></thead><tbody "
                'id="answer"></tbody></table></div><p class="soft">A model with a few constants a program, '
                f"{escape(model.load()['fitted_on'])}; \"off by\" is its median error in cells that were held out "
                "of the fit. <code>petrel estimate</code> says the same.</p>"
                f'<script type="application/json" id="model">{constants}</script>')

    def machine(self):
        out = []
        for begin in self.begins:
            facts = {name: begin.get(name) for name in (
                "began", "host_label", "system", "kernel", "processor", "processors", "memory", "petrel",
                "emulator", "loss_tool")}
            rows = [[td(escape(name.replace("_", " "))), td(escape(value), "words")] for name, value in facts.items()]
            rows += [[td(escape(name)), td(escape(value), "words")]
                     for name, value in {**begin["versions"], **begin["sysctls"]}.items()]
            rows.append([td("sha256 of the matrix"), td(begin["matrix_sha256"], "words")])
            out.append(f"<details><summary>{to_line(begin, escape(begin['matrix']))}, {escape(begin['began'])}"
                       f"</summary>{table(['', ''], rows)}<pre>{escape(begin['matrix_text'])}</pre></details>")
        seen = {}
        for line in self.lines:
            if line["kind"] == "settings":
                seen.setdefault((line["program"], line["text"]), line)
        configurations = "".join(f"<h3>{to_line(line, escape(name))}</h3><pre>{escape(text)}</pre>"
                                 for (name, text), line in seen.items())
        return f'<h2 id="machine">Machine and matrices</h2>{"".join(out)}<details><summary>What each program was ' \
            f"really configured to do</summary>{configurations}</details>"

    def raw(self):
        out = []
        for line in self.lines:
            name = f"{escape(line['file'])}:{line['line']}" if line["line"] else escape(line["file"])
            shown = json.dumps({key: value for key, value in line.items()
                                if key not in RAW_LEFT_OUT and key != "matrix_text"})
            out.append(f'<pre id="{line["id"]}"><b>{name}</b> {escape(shown)}</pre>')
        return f'<details id="raw"><summary>All {len(out)} lines of results</summary>{"".join(out)}</details>'

    def html(self):
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
        parts = []
        for matrix in self.matrices:
            cells = self.of(matrix)
            parts.append(f'<h2 id="{escape(matrix.name)}">{escape(matrix.name)}: {escape(matrix.about)}</h2>'
                         f"<p>{results.repetitions_words(cells)} of each program in each cell"
                         f"{escape(results.machine_words(self.lines, matrix))}.</p>")
            if matrix.form in published.BY_FORM:
                parts.append(f"<p>In the form of {escape(published.SOURCES[matrix.form])}. Grey: theirs, as "
                             "published, on their machines; the rest: measured here.</p>")
                parts.append(self.rift_table(cells) if matrix.form == "rift" else self.form_table(matrix, cells))
                parts.append("<h3>All cells</h3>")
            parts += [self.all_table(cells), self.plots_of(cells), self.calibration_table(cells)]
        links = "".join(f'<a href="#{name}">{title}</a> ' for name, title in (
            ("losses", "misses"), ("caveats", "caveats"), *((one.name, one.name) for one in self.matrices),
            ("estimate", "calculator"), ("method", "method"), ("machine", "machine"), ("raw", "raw lines")))
        return (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
                f'content="width=device-width, initial-scale=1"><title>petrel: measured</title><style>'
                f"{asset('style.css')}</style></head><body><h1>petrel, measured</h1><p class=\"soft\">Made {now} "
                f"by petrel-lab report. {links}</p>{self.summary()}{''.join(parts)}{self.calculator()}"
                f"{asset('method.html')}{self.machine()}{self.raw()}<script>{asset('calculator.js')}</script>"
                "</body></html>\n")


def write(paths, out):
    text = Report(paths).html()
    with open(out, "w", encoding="utf-8") as file:
        file.write(text)
    print(f"wrote {out}, {len(text) / 1e6:.1f} MB", file=sys.stderr)
