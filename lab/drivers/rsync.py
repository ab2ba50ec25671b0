"""rsync over SSH; `rsync/bbr` runs its TCP on BBR."""
import shlex

from drivers import _copy, _tcp

TITLE = "rsync over SSH"
KINDS = ("copy",)
VARIANTS = _tcp.CONTROLS
NEEDS = {"near": ["rsync"], "far": ["rsync"]}
PACKAGES = "rsync"
PROCESSES = ("rsync", "ssh", "sshd")


def settings(place, job):
    version = place.near.run("rsync", "--version").stdout.splitlines()[0]
    return f"{version}\n{_tcp.tcp_settings(place)}"


def run(place, job):
    return _copy.run_command(place, job, ["rsync", "--whole-file", "-e",
                                          shlex.join(["ssh", *place.ssh_options]),
                                          *place.operands(job)])
