"""A table in the terminal, or in Markdown, a row as soon as a cell is done; missed bars last."""
from results import number, rate_words


def columns(programs):
    return ["cell", *programs, "ceiling", "/ceiling", "x best other", "lost %", "resent %", "MB memory",
            "s/GB", "bars"]


def cell_words(figures, programs):
    petrel, others = figures.petrel, [one for one in figures.others() if one.bound]
    best = max(others, key=lambda one: one.bound) if others else None
    ratio, floor = figures.ratio(best)

    def of(figure, digits):
        return number(petrel.median(figure), digits) if petrel else "-"

    def both(figure, digits):
        ends = [of(f"{end}_{figure}", digits) for end in ("sender", "receiver")]
        return "-" if ends == ["-", "-"] else "+".join(ends)

    misses = figures.misses()
    verdicts = [met for _, met, _ in figures.verdicts()]
    verdict = "MISS: " + "; ".join(misses) if misses else "-" if not verdicts else \
        "met" if all(verdicts) else "not judged: " + "; ".join(words for _, met, words in figures.verdicts()
                                                               if met is None)
    return [figures.cell.name, *(rate_words(figures.program(name)) for name in programs),
            number(figures.cell.ceiling()), number(figures.of_ceiling(petrel), 3),
            (">" if floor else "") + number(ratio, 2), of("loss_percent", 2), of("resent_percent", 2),
            both("rss_mb", 0), both("cpu_s_per_gb", 2), verdict]


class Table:
    def __init__(self, matrix, markdown):
        self.markdown = markdown
        self.programs = list(dict.fromkeys(program.name for cell in matrix.cells
                                           for program in cell.programs))
        self.width = max(len(cell.name) for cell in matrix.cells)
        print("MB/s of 10^6 bytes, medians; '<': did not finish in time, so slower than that\n")
        self.print(columns(self.programs))
        if markdown:
            self.print(["---"] * len(columns(self.programs)))

    def print(self, words):
        if self.markdown:
            print("| " + " | ".join(words) + " |", flush=True)
        else:
            head = f"{words[0]:<{self.width}}"
            print(head, *(f"{word:>9}" for word in words[1:-1]), words[-1], flush=True)

    def show(self, figures):
        self.print(cell_words(figures, self.programs))


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
