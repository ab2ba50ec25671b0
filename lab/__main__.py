"""petrel-lab matrix, report, fit, compare: started by petrel-lab, which tells where it is itself in
PETREL_LAB. See petrel-lab(1)."""
import argparse
import datetime
import fnmatch
import glob
import json
import os
import shutil
import sys

import cell_run
import emulated
import guess
import matrix_file
import model
import pack
import published
import report
import results
import rows
import session
import two_hosts
import veth
from matrix_file import MatrixError

RESULTS = "results"


def lab_program():
    return os.environ.get("PETREL_LAB") or shutil.which("petrel-lab") or "petrel-lab"


def petrel_program(named):
    """Named, or beside petrel-lab, built or installed, or on the path."""
    folder = os.path.dirname(lab_program())
    for path in (named, os.path.join(folder, "petrel"), os.path.join(folder, "..", "cli", "petrel")):
        if path and os.access(path, os.X_OK):
            return os.path.abspath(path)
    found = shutil.which(named or "petrel")
    if not found:
        raise MatrixError("no petrel here: --petrel PATH names it")
    return found


def named(cell, patterns):
    return any(fnmatch.fnmatchcase(cell.name, pattern) for pattern in patterns)


def narrow(matrix, options):
    """Leaves in the matrix what the command line asks for."""
    only, groups = set(filter(None, options.only)), set(filter(None, options.group))
    unknown = {one for one in only if not any(named(cell, [one]) for cell in matrix.cells)}
    unknown |= groups - {group for cell in matrix.cells for group in cell.groups}
    if unknown:
        raise MatrixError(f"{matrix.path}: no such cell or group: {', '.join(sorted(unknown))} "
                          "(--list shows them)")
    if only or groups:
        matrix.cells = [cell for cell in matrix.cells
                        if named(cell, only) or groups & set(cell.groups)]
    wanted = options.programs.split(",") if options.programs else None
    for cell in matrix.cells:
        cell.place = options.place
        cell.cap_size(options.size)
        if options.repetitions:
            cell.repetitions = options.repetitions
        if wanted:
            cell.programs = [program for program in cell.programs if program.name in wanted]
    matrix.cells = [cell for cell in matrix.cells if cell.programs]
    if not matrix.cells:
        raise MatrixError(f"{matrix.path}: nothing left to run")


def duration_words(matrix, options):
    guesses = guess.matrix_s(matrix, not options.no_calibration, options.attempts)
    likely, most = (sum(one[which] for one in guesses) / 60 for which in (1, 2))
    return f"about {likely:.0f} minutes, {most:.0f} at most"


def print_list(matrix, options):
    for cell, likely, most in guess.matrix_s(matrix, not options.no_calibration, options.attempts):
        print(f"{cell.name:<28} {' '.join(cell.groups):<10} {likely:>4.0f} to {most:>4.0f} s  "
              f"{', '.join(program.name for program in cell.programs)}")
        for bar in cell.bars:
            print(f"{'':<28} bar: {bar.text}")
    print(f"\n{len(matrix.cells)} cells, {duration_words(matrix, options)}")


def newest(pattern):
    found = sorted(glob.glob(pattern), key=os.path.getmtime)
    return found[-1] if found else None


def results_path(matrix, options):
    if options.out:
        return options.out
    folder = os.path.join(RESULTS, matrix.name)
    stamp = datetime.datetime.now().strftime("%Y-%m-%d-%H%M%S")
    return (options.resume and newest(f"{folder}-*.jsonl")) or f"{folder}-{stamp}.jsonl"


def add_matrix_options(parser):
    parser.add_argument("matrix", metavar="MATRIX", help="a file, or the name of a ready matrix")
    parser.add_argument("--out", default="", help="results/NAME-DATE.jsonl unless given")
    parser.add_argument("--resume", action="store_true", help="what the results hold is not run again")
    parser.add_argument("--only", nargs="+", default=[], metavar="CELL",
                        help="names or patterns such as '1gbit-*'")
    parser.add_argument("--group", nargs="+", default=[])
    parser.add_argument("--programs", default="", metavar="NAME[,NAME]", help="only these")
    parser.add_argument("--repetitions", "--runs", type=int, default=0, metavar="N")
    parser.add_argument("--attempts", type=int, default=3, metavar="N", help="at a run while the host of this "
                        "virtual machine takes its processors for others")
    parser.add_argument("--size", default="0", help="at most this size, for a quick look")
    parser.add_argument("--emulator", choices=("auto", "petrel", "netem"), default="auto")
    parser.add_argument("--hosts", default="", metavar="[USER@]A,[USER@]B")
    parser.add_argument("--hosts-from", default="", metavar="SCRIPT", help="prints two; called with 'down' at "
                        "the end")
    parser.add_argument("--ssh-config", default="", help="for both hosts, and for the first to reach the second")
    parser.add_argument("--addresses", default="", metavar="A,B", help="as the hosts reach each other, where "
                        "that is not by the names after --hosts")
    parser.add_argument("--folder", default="/var/tmp", help="for cells whose files are on disk")
    parser.add_argument("--petrel", default="", help="the petrel under test")
    parser.add_argument("--label", default="", help="what this machine is called in reports")
    parser.add_argument("--no-calibration", action="store_true",
                        help="do not ask iperf3 and ping what the path is like; the report says so")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--list", action="store_true", help="only say what would run")


def prepare(options):
    """Options as the session wants them."""
    options.command_line = ["petrel-lab", *sys.argv[1:]]
    options.size = matrix_file.q.size_bytes(options.size)
    options.petrel, options.lab = petrel_program(options.petrel), lab_program()
    if options.emulator == "auto": # netem where there are no TUN devices
        options.emulator = "netem" if emulated.probe(options.lab) and not veth.netem_missing() \
            else "petrel"
    options.place = "hosts" if options.hosts or options.hosts_from else options.emulator


def read_matrix(options):
    matrix = matrix_file.load(options.matrix)
    narrow(matrix, options)
    return matrix


def command_matrix(options):
    prepare(options)
    matrix = read_matrix(options)
    if options.list:
        print_list(matrix, options)
        return 0
    path = results_path(matrix, options)
    code, figures = run_matrix(matrix, options, path)
    if code:
        return code
    missed = rows.print_misses(figures)
    print(f"results: {path}; 'petrel-lab report {path}' makes a page of them")
    return 1 if missed else 0


def add_compare_options(parser):
    add_matrix_options(parser)
    parser.add_argument("other", nargs="?", metavar="RESULTS", help="with RESULTS in the place of MATRIX: two "
                        "files of results, which are to agree")
    parser.add_argument("--within", default="5%", metavar="SHARE", help="of two files of results")


def command_compare(options):
    """The same cells on both emulators, then their medians side by side; or two files of results."""
    if options.other:
        return compare_results(options)
    prepare(options)
    path, both = "", []
    for options.emulator in ("netem", "petrel"): # what may be missing first
        options.place = options.emulator
        matrix = read_matrix(options)
        matrix.cells = [cell for cell in matrix.cells if not cell.direct]
        path = path or results_path(matrix, options)
        code, figures = run_matrix(matrix, options, path)
        if code:
            return code
        both.append(figures)
        options.resume = True # the second into the same file
    rows.print_comparison(both[1], both[0], ("petrel-lab link", "netem"))
    print(f"results: {path}")
    return 0


def compare_results(options):
    """1 where medians of the same program in the same cell with a rate are further apart than asked."""
    within = matrix_file.q.share(options.within)
    both = [results.cells(results.load(path)) for path in result_files([options.matrix, options.other])]
    pairs = results.same_cells(*both)
    if not pairs:
        raise ValueError(f"no cell is in both {options.matrix} and {options.other}")
    apart = rows.print_agreement(pairs, within)
    return 1 if apart else 0


def run_matrix(matrix, options, path):
    """An exit status that is not 0 when it was interrupted, and the figures of all cells."""
    session.on_signals()
    run = None
    try:
        two_hosts.parse(options)
        run = session.Session(matrix, options)
        run.check()
        run.log = session.Log(path, options.resume)
        return 0, run_session(run, options, path)
    except session.Interrupted as signal:
        print(f"\npetrel-lab: {signal}: ended, everything taken down; --resume --out {path} goes on",
              file=sys.stderr)
        return 128 + signal.number, []
    finally:
        if run:
            run.end()
        two_hosts.end(options)


def run_session(run, options, path):
    matrix = run.matrix
    print(f"{matrix.name}: {len(matrix.cells)} cells, {duration_words(matrix, run.options)}; results go to {path}\n"
          f"bars are set, sha256 of the matrix {matrix.sha256()[:16]}; left out, not installed: "
          f"{', '.join(sorted(set(run.absent))) or 'nothing'}\n")
    return run.run(rows.Table(matrix, options.markdown).show)


def result_files(named):
    """Named, those that are packed in a folder that is named, or the newest in results/."""
    found = []
    for path in named or [newest(f"{RESULTS}/*.jsonl") or RESULTS]:
        found += pack.packed(path) if os.path.isdir(path) else [path]
    if not found or found == [RESULTS]:
        where = " or ".join(named) or f"{RESULTS}/"
        raise ValueError(f"no results in {where}: petrel-lab matrix makes some")
    missing = [path for path in found if not os.path.isfile(path)]
    if missing:
        raise ValueError(f"{missing[0]}: no such file")
    return found


def add_report_options(parser):
    parser.add_argument("results", nargs="*", metavar="RESULTS")
    parser.add_argument("--out", default="", help="the page; results/report.html unless given")
    parser.add_argument("--markdown", action="store_true", help="a table to standard output instead")


def command_report(options):
    paths = result_files(options.results)
    if not options.markdown:
        out = options.out or os.path.join(os.path.dirname(paths[-1]), "report.html")
        report.write(paths, out)
        return 0
    lines = [line for path in paths for line in results.load(path)]
    cells = results.cells(lines)
    for matrix in dict.fromkeys(figures.matrix for figures in cells):
        part = [figures for figures in cells if figures.matrix is matrix]
        print(f"\n{matrix.name}: {matrix.about}; {results.repetitions_words(part)}"
              f"{results.machine_words(lines, matrix)}. ", end="")
        if matrix.form in published.SOURCES:
            print(f"The first columns, as published: {published.SOURCES[matrix.form]}. Ours: ", end="")
        shown = rows.Table(matrix, True)
        for figures in sorted(part, key=lambda one: not one.misses()): # misses first
            shown.show(figures)
    return 0


def add_pack_options(parser):
    parser.add_argument("results", nargs="*", metavar="RESULTS", help="all in results/ unless given")


def command_pack(options):
    """Compresses results beside where they are, and makes the page of all that are packed there."""
    paths = result_files(options.results or sorted(glob.glob(f"{RESULTS}/*.jsonl")))
    folder = os.path.dirname(paths[-1]) or "."
    for path in paths:
        out = pack.pack(path)
        print(f"{out}: {os.path.getsize(out) / 1e6:.2f} MB of {os.path.getsize(path) / 1e6:.1f}")
    report.write(pack.packed(folder), os.path.join(folder, "measured.html"))
    size = pack.total(folder)
    print(f"{folder}: {size / 1e6:.1f} MB to keep, of {pack.MOST_BYTES / 1e6:.0f} at most")
    return 1 if size > pack.MOST_BYTES else 0


def add_fit_options(parser):
    parser.add_argument("results", nargs="+", metavar="RESULTS")
    parser.add_argument("--out", default="", help="write the constants here, as lab/model.json is")


def command_fit(options):
    lines = [line for path in result_files(options.results) for line in results.load(path)]
    cells = results.cells(lines)
    programs = model.fit(cells)
    model.show(programs)
    if options.out:
        begin = next(line for line in lines if line["kind"] == "begin")
        where = f"fitted to {len(cells)} cells on {begin['processors']} processors ({begin['processor']}), " \
                f"{begin['began'][:10]}"
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump({"fitted_on": where, "programs": programs}, file, indent=1)
            file.write("\n")
    return 0


def read_job(path):
    with open(path, encoding="utf-8") as file:
        job = json.load(file)
    matrix = matrix_file.Matrix(job["path"], job["text"])
    cell = next(cell for cell in matrix.cells if cell.name == job["cell"])
    cell.cap_size(job["cap"])
    return job, cell


def command_veth(words):
    """JOB -- COMMAND: two hosts joined by the kernel, the command on the near one."""
    return veth.become(read_job(words[0])[1], words[2:])


def command_inside(words):
    """At the near end of a link: one cell, its results as JSON lines on standard output."""
    job, cell = read_job(words[0])
    programs = {program.name: program for program in cell.programs}

    def told(line):
        print(json.dumps(line), flush=True)
    if job["hosts"]:
        session.on_signals()
    both = two_hosts.Hosts(job["hosts"], cell) if job["hosts"] else emulated.place(job["folder"])
    with both as place:
        if job["calibrate"]:
            told({"kind": "calibration", **cell_run.calibrate(place, cell)})
        cell_run.run_cell(place, cell,
                          [(programs[name], repetition) for name, repetition in job["wanted"]], job["attempts"], told)
    return 0


COMMANDS = {
    "matrix": (command_matrix, add_matrix_options, "run a matrix of paths and programs"),
    "compare": (command_compare, add_compare_options, "run it on both emulators, or compare two results"),
    "report": (command_report, add_report_options, "make a page of results"),
    "pack": (command_pack, add_pack_options, "compress results to keep them, with their page"),
    "fit": (command_fit, add_fit_options, "fit the model that petrel estimate uses"),
}


def main():
    hidden = {"inside": command_inside, "veth": command_veth}.get("".join(sys.argv[1:2]))
    if hidden:
        return hidden(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="petrel-lab")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (_, add, text) in COMMANDS.items():
        add(commands.add_parser(name, help=text))
    options = parser.parse_args()
    try:
        return COMMANDS[options.command][0](options)
    except BrokenPipeError: # whoever read our table has seen enough
        sys.stderr.close()
        return 141
    except (MatrixError, ValueError, RuntimeError) as fault:
        print(f"petrel-lab: {fault}", file=sys.stderr)
        return 2 if isinstance(fault, (MatrixError, ValueError)) else 1


if __name__ == "__main__":
    sys.exit(main())
