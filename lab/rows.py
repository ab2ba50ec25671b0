"""A table in the terminal, or in Markdown, a row as soon as a cell is done; missed bars last."""
import published
from results import STOLEN_MOST, number, rate_words


def columns(programs):
    return ["cell", *programs, "ceiling", "/ceiling", "x best other", "lost %", "resent %", "MB memory",
            "s/GB", "bars"]


def verdict_words(figures):
    verdicts = figures.verdicts()
    unjudged = "; ".join(words for _, met, words in verdicts if met is None)
    ties = "; ".join(words for bar, met, words in verdicts if met and bar and bar.is_tie())
    if figures.misses():
        said = "MISS: " + "; ".join(figures.misses())
    elif unjudged:
        said = f"not judged: {unjudged}"
    else:
        said = ("met" + (f" ({ties})" if ties else "")) if verdicts else "-"
    if figures.stolen() > STOLEN_MOST:
        said += f" (the host took {figures.stolen():.0f} % of the processors)"
    return said


def cell_words(figures, programs):
    petrel, others = figures.petrel, [one for one in figures.others() if one.bound]
    best = max(others, key=lambda one: one.bound) if others else None
    ratio, floor = figures.ratio(best)

    def of(figure, digits):
        return number(petrel.median(figure), digits) if petrel else "-"

    def both(figure, digits):
        ends = [of(f"{end}_{figure}", digits) for end in ("sender", "receiver")]
        return "-" if ends == ["-", "-"] else "+".join(ends)

    return [figures.cell.name, *(rate_words(figures.program(name)) for name in programs),
            number(figures.cell.ceiling()), number(figures.of_ceiling(petrel), 3),
            (">" if floor else "") + number(ratio, 2), of("loss_percent", 2), of("resent_percent", 2),
            both("rss_mb", 0), both("cpu_s_per_gb", 2), verdict_words(figures)]


class Table:
    def __init__(self, matrix, markdown):
        self.markdown = markdown
        self.programs = list(dict.fromkeys(program.name for cell in matrix.cells
                                           for program in cell.programs))
        self.width = max(len(cell.name) for cell in matrix.cells)
        # In documents others' published figures stand beside ours.
        self.theirs = published.BY_FORM.get(matrix.form, {}) if markdown else {}
        self.their_columns = published.columns(matrix.form) if markdown else []
        print("MB/s of 10^6 bytes, medians; '<': did not finish in time, so slower than that\n")
        self.print(self.with_theirs(columns(self.programs), self.their_columns))
        if markdown:
            self.print(["---"] * (len(columns(self.programs)) + len(self.their_columns)))

    def print(self, words):
        if self.markdown:
            print("| " + " | ".join(words) + " |", flush=True)
        else:
            head = f"{words[0]:<{self.width}}"
            print(head, *(f"{word:>9}" for word in words[1:-1]), words[-1], flush=True)

    @staticmethod
    def with_theirs(words, theirs):
        return [words[0], *theirs, *words[1:]]

    def show(self, figures):
        known = self.theirs.get(figures.cell.name, {})
        self.print(self.with_theirs(cell_words(figures, self.programs),
                                    [known.get(column, "-") for column in self.their_columns]))


def print_agreement(pairs, within):
    """Medians of two files of results side by side; returns how many programs in cells with a rate are further
    apart than `within`. Without a rate the processors decide, and nothing is asked."""
    print(f"{'cell':<28} {'program':<12} {'first':>9} {'second':>9} {'apart':>8}")
    apart = 0
    for one, other in pairs:
        for program in one.programs:
            second = other.program(program.name)
            if second is None:
                continue
            if program.finished and second.finished:
                share = abs(program.rate - second.rate) / min(program.rate, second.rate)
                words, far = f"{share * 100:.1f} %", share > within
            else: # both unfinished agree: neither has a median
                words, far = "-", program.finished != second.finished
            judged = bool(one.cell.rate_bps)
            apart += judged and far
            verdict = "" if judged and not far else "too far apart" if judged else "no rate: not judged"
            print(f"{one.cell.name:<28} {program.name:<12} {rate_words(program):>9} {rate_words(second):>9} "
                  f"{words:>8} {verdict}".rstrip())
    print(f"\n{apart} further apart than {within * 100:g} %" if apart else f"\nall within {within * 100:g} %")
    return apart


def print_misses(all_figures):
    """Returns how many cells missed a bar."""
    judged = [figures for figures in all_figures
              if any(met is not None for _, met, _ in figures.verdicts())]
    missed = [figures for figures in all_figures if figures.misses()]
    missed.sort(key=lambda figures: figures.of_ceiling(figures.petrel) or 0)
    print(f"\n{len([one for one in judged if one not in missed])} of {len(judged)} cells with bars met "
          "them" + (", misses first:" if missed else ""))
    for figures in missed:
        print(f"  {figures.cell.name}: {'; '.join(figures.misses())}")
    return len(missed)


def print_comparison(ours, theirs, names):
    """Medians of each program in the same cells of two places."""
    print(f"\n{'cell':<28} {'program':<12} {names[0]:>16} {names[1]:>16} {'difference':>11}")
    for one, other in zip(ours, theirs):
        for program in one.programs:
            second = other.program(program.name)
            change = f"{(program.rate / second.rate - 1) * 100:+.1f} %" \
                if program.rate and second and second.rate else "-"
            print(f"{one.cell.name:<28} {program.name:<12} {rate_words(program):>16} "
                  f"{rate_words(second):>16} {change:>11}")
