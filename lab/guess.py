"""How long a matrix takes, for whoever waits for it: likely, by the model of petrel estimate, and at most, by the
limits of time."""
import model
from drivers import _tcp

CELL_S, CALIBRATION_S, RUN_S = 3, 7, 1 # a link with sshd; ping and iperf3; servers and counters
BESIDE_S = 56
STREAM_S = 4                           # what petrel bench needs besides its stream
MAKE_PER_S, HASH_PER_S = 250e6, 700e6  # random bytes that are written and hashed; hashing alone
LIKE = {"petrel": "petrel", "scp": "scp", "rsync": "scp", "bbr8": "bbr8", "bbr": "bbr8"} # others: one TCP stream


def copy_s(cell, program):
    """By the model, or until it is ended as one that cannot be in time."""
    base = program.name.split("/")[0]
    one = model.load()["programs"][LIKE.get("bbr" if program.variant == "bbr" else base, "cubic")]
    seconds = model.seconds(one["constants"], one["payload"], cell.rtt_s, cell.loss, cell.rate_bps, cell.size)
    if seconds < cell.time_limit_s:
        return seconds
    return max(1, cell.time_limit_s - (cell.size * 8 / cell.rate_bps if cell.rate_bps else 0))


def run_s(cell, program):
    """(likely, at most) of one run."""
    if "beside" in cell.words:
        return BESIDE_S, BESIDE_S
    if cell.stream_s or program.driver.KINDS[-1] == "stream":
        seconds = _tcp.stream_seconds(cell) + RUN_S + (STREAM_S if program.name.startswith("petrel") else 0)
        return seconds, seconds
    visits = 2 if cell.words["visit"] == "repeated" and program.name.startswith("petrel") else 1
    more = RUN_S + cell.size / HASH_PER_S
    return copy_s(cell, program) * visits + more, cell.time_limit_s * visits + more


def cell_s(cell, calibrate=True, attempts=1):
    runs = [run_s(cell, program) for program in cell.programs]
    more = CELL_S + (CALIBRATION_S if calibrate else 0)
    likely, most = (cell.repetitions * sum(run[which] for run in runs) for which in (0, 1))
    return more + likely, more + most * attempts


def matrix_s(matrix, calibrate=True, attempts=1):
    """[(cell, likely, at most)]: a source of random bytes is made once for cells of a size that follow each
    other, a path calibrated once."""
    found, size, paths = [], 0, set()
    for cell in matrix.cells:
        likely, most = cell_s(cell, calibrate and cell.path_hash() not in paths, attempts)
        make = cell.size / MAKE_PER_S if cell.size != size and not cell.stream_s else 0
        found.append((cell, likely + make, most + make))
        paths.add(cell.path_hash())
        size = cell.size if not cell.stream_s else size
    return found
