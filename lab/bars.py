"""Bars: what petrel has to reach in a cell, written down before it runs.

    bar: 3x                       three times the fastest other program of the cell
    bar: 0.99x curl               of one of them: below it a loss, to 1/0.99 a tie, then ahead
    bar: above bbr8               more than it
    bar: 0.95 of ceiling          of what the link can carry
    bar: 500 MB/s                 at least
    bar: resent at most 12%       also: sender memory, receiver memory (MB), processor (s/GB, both
                                  ends), queue (ms)
    bar: keeps 45%                what a TCP flow beside petrel keeps of its own rate

A bar may end in `(target N)`: the number under which it is told elsewhere.
"""
import re

FORMS = (
    ("times", re.compile(r"(?P<value>\d+(?:\.\d+)?)x(?: (?P<program>[\w/]+))?")),
    ("above", re.compile(r"above (?P<program>[\w/]+)")),
    ("ceiling", re.compile(r"(?P<value>0?\.\d+|1(?:\.0+)?) of ceiling")),
    ("rate", re.compile(r"(?P<value>\d+(?:\.\d+)?) MB/s")),
    ("resent", re.compile(r"resent at most (?P<value>\d+(?:\.\d+)?) ?%")),
    ("memory", re.compile(r"(?P<end>sender|receiver) memory at most (?P<value>\d+) ?MB")),
    ("processor", re.compile(r"processor at most (?P<value>\d+(?:\.\d+)?) ?s/GB")),
    ("queue", re.compile(r"queue at most (?P<value>\d+(?:\.\d+)?) ?ms")),
    ("keeps", re.compile(r"keeps (?P<value>\d+(?:\.\d+)?) ?%")),
)
TARGET = re.compile(r"\s*\(target (\d+)\)$")


class Bar:
    def __init__(self, text):
        """Raises ValueError with the forms that there are."""
        self.text = text
        target = TARGET.search(text)
        self.target = int(target[1]) if target else 0
        words = TARGET.sub("", text).strip()
        for self.kind, form in FORMS:
            match = form.fullmatch(words)
            if match:
                found = match.groupdict()
                self.value = float(found.get("value") or 1)
                self.program, self.end = found.get("program"), found.get("end")
                if self.kind == "times" and self.value == 0:
                    raise ValueError(f"'{text}' is met by anything")
                return
        raise ValueError(f"'{text}' is no bar; one is '3x', '0.99x curl', 'above bbr8', "
                         "'0.95 of ceiling', '500 MB/s', 'resent at most 12%', 'sender memory at most "
                         "96MB', 'processor at most 1.3 s/GB', 'queue at most 25ms' or 'keeps 45%'")

    def judge(self, figures):
        """Whether it is met by the figures of a cell (see results.figures), and what was reached in
        words; None and a reason where nothing can be said."""
        petrel = figures.petrel
        if petrel is None:
            return False, "petrel has no result"
        if not petrel.finished:
            return False, "petrel failed" if petrel.failures else "petrel did not finish in time"
        if self.kind in ("times", "above"):
            return self.judge_beside(figures, petrel)
        reached, words, least = {
            "ceiling": lambda: (figures.of_ceiling(petrel), "{:.3f} of the ceiling", True),
            "rate": lambda: (petrel.rate, "{:.1f} MB/s", True),
            "resent": lambda: (petrel.median("resent_percent"), "{:.2f} % resent", False),
            "memory": lambda: (petrel.median(f"{self.end}_rss_mb"), "{:.0f} MB", False),
            "processor": lambda: (petrel.processor(), "{:.2f} s/GB", False),
            "queue": lambda: (petrel.median("queue_ms"), "{:.1f} ms", False),
            "keeps": lambda: (petrel.median("kept_percent"), "{:.0f} % kept", True),
        }[self.kind]()
        if reached is None:
            return None, "not measured"
        met = reached >= self.value if least else reached <= self.value
        return met, words.format(reached)

    def judge_beside(self, figures, petrel):
        others = [figures.program(self.program)] if self.program else figures.others()
        others = [other for other in others if other is not None and other.bound]
        if not others:
            return None, f"no result of {self.program or 'another program'}"
        best = max(others, key=lambda other: other.bound)
        ratio = (petrel.rate or 0) / best.bound
        met = ratio > 1 if self.kind == "above" else ratio >= self.value
        more = "at least " if not best.finished else ""
        if self.is_tie():
            word = "ahead" if ratio > 1 / self.value else "not known which" if more else "a tie" if met else "a loss"
            return met, f"{more}{ratio:.3f}x {best.name}, {word}"
        return met, f"{more}{ratio:.2f}x {best.name}"

    def is_tie(self):
        """Whether it asks to be no slower than another but for a little, which is worth a word of its own."""
        return self.kind == "times" and self.value < 1
