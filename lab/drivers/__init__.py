"""Programs under test, one file each; README.md in this folder is the template for another. iperf3
with this or that TCP is one driver with several names (IPERF in _tcp.py).

A driver is a module (or an object) with

    TITLE      how tables call it
    KINDS      what it can do: "copy" a file, "stream" for a time, "beside" a TCP flow
    VARIANTS   what may stand behind a slash in a matrix, () for nothing
    NEEDS      programs that have to be installed, by end: {"near": [...], "far": [...]}
    PACKAGES   where a Debian system has them from, for the message
    PROCESSES  names of its processes (as in /proc/PID/comm), for memory over time
    settings(place, job)  what it is really configured to do, as text; asked after it ran
    run(place, job)       does it once; returns a dict, see below

job has source, target, target_folder (paths), size, direction, limit_s, stream_s, variant, words (of the
matrix), rtt_s and rate_bps, the link's, 0 for no limit, and hopeless, a function for End.measured that ends a
copy early when it cannot be in time any more. run returns

    finished   False when the limit of time ended it
    seconds    what a copy took, by this program's own account or that of the whole command
    command_seconds   of the whole command
    rate_mb_per_s     of a stream, instead of seconds
    near, far  {"cpu_s", "rss_mb"} of its processes at each end, None where unknown
    command    the words that were run
    detail     what else the program said, a dict

and raises RuntimeError, with the program's own words, when it failed.
"""
import importlib
import os

from drivers import _tcp


def names():
    here = os.path.dirname(os.path.abspath(__file__))
    return sorted([name[:-3] for name in os.listdir(here)
                   if name.endswith(".py") and not name.startswith("_")] + list(_tcp.IPERF))


def find(name):
    """The driver of a program, or None."""
    if name in _tcp.IPERF:
        return _tcp.IPERF[name]
    return importlib.import_module(f"drivers.{name}") if name in names() else None
