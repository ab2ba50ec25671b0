"""Two real hosts instead of an emulated link: --hosts A,B or --hosts-from SCRIPT.

This machine only directs: it runs commands on A (near) and B (far) through ssh, and A reaches B by ssh as
well, with its own keys or the forwarded agent. Rate and round trip are the path's own; losses are added at the
receiver by nftables where that is allowed. Folders and rules live as long as the standard input of a shell
over there, so they go when this program does, however it ends.
"""
import os
import shlex
import subprocess
import sys

import ends
from emulated import die_with_parent
from matrix_file import MatrixError

FOLDERS = ('t=$(mktemp -d "${TMPDIR:-/tmp}/petrel-host-XXXXXX") || exit; '
           'b=$(mktemp -d "$1/petrel-host-XXXXXX" 2>/dev/null || mktemp -d "$t/big-XXXXXX"); '
           'trap "" HUP INT TERM; echo "$t $b"; cat >/dev/null; rm -rf "$t" "$b"')
TABLE = "petrel_lab"
RULES = ("table inet {table} {{ chain in {{ type filter hook input priority -300; "
         "ip saddr {sender} meta l4proto {{ tcp, udp }} numgen random mod 1000000 < {parts} drop; }}; }}")
# nft's path is not everybody's; without root, sudo where it asks for nothing.
LOSSES = ('PATH=$PATH:/usr/sbin:/sbin; root=; [ "$(id -u)" = 0 ] || root="sudo -n"; '
          'trap "" HUP INT TERM; $root nft delete table inet "$1" 2>/dev/null; '
          '$root nft "$2" || exit; echo ready; cat >/dev/null; $root nft delete table inet "$1"')


def ssh_words(options):
    """For this machine."""
    return ["ssh", "-A", "-o", "BatchMode=yes", *(["-F", options["config"]] if options["config"] else []),
            "-o", "ControlMaster=auto", "-o", f"ControlPath={options['temp']}/%h", "-o",
            "ControlPersist=30"]


def parse(options):
    """Fills options.hosts from the command line or the script; MatrixError."""
    if options.hosts_from:
        done = subprocess.run([options.hosts_from], stdout=subprocess.PIPE, text=True)
        words = done.stdout.split()
        options.hosts = words
        if done.returncode or len(words) != 2:
            end(options)
            raise MatrixError(f"{options.hosts_from} ended with {done.returncode} and printed "
                              f"{len(words)} words: two hosts were expected")
    elif options.hosts:
        options.hosts = options.hosts.split(",")
    if options.hosts and (len(options.hosts) != 2 or any(not host or host.startswith("-")
                                                         for host in options.hosts)):
        end(options)
        raise MatrixError("--hosts takes two, as in --hosts user@a,user@b")


def end(options):
    """Tells the script that made the hosts to take them down; once."""
    if options.hosts_from:
        script, options.hosts_from = options.hosts_from, ""
        if subprocess.run([script, "down"], stdout=sys.stderr).returncode:
            print(f"petrel-lab: '{script} down' failed: look whether its hosts are gone", file=sys.stderr)


def words(options, temp):
    """What the process that runs a cell has to know, for its job file."""
    return {"hosts": options.hosts, "config": options.ssh_config and os.path.abspath(options.ssh_config),
            "addresses": options.addresses.split(",") if options.addresses else
            [host.rpartition("@")[2] for host in options.hosts],
            "folder": options.folder, "temp": temp, "petrel": options.petrel}


def which(options, temp):
    """A function that tells where a tool is at an end, "" for nowhere; MatrixError when a host cannot be
    reached."""
    known = words(options, temp)

    def look(name, tool):
        host = known["hosts"][name == "far"]
        done = subprocess.run([*ssh_words(known), host, f"PATH=$PATH:{ends.SEARCH}; command -v {tool} || true"],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise MatrixError(f"{host} cannot be reached: {done.stderr.strip()}")
        return done.stdout.strip()
    return look


def start(job_path):
    """Like emulated.start."""
    return subprocess.Popen([sys.executable, os.path.dirname(os.path.abspath(__file__)), "inside", job_path],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            start_new_session=True, preexec_fn=die_with_parent)


class Keeper:
    """A shell over there that holds something until `end`, or until we are gone."""

    def __init__(self, host, ssh, script, *arguments):
        command = shlex.join(["sh", "-c", script, "sh", *arguments])
        self.process = subprocess.Popen([*ssh, host, command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.told = self.process.stdout.readline().split()
        if not self.told:
            raise RuntimeError(f"{host}: {self.process.communicate()[1].strip()[-300:]}")

    def end(self):
        self.process.communicate() # closes its input, waits until it has cleaned up
        return self.process.returncode


class Hosts:
    """Both hosts as an ends.Place, as a context: what was made over there goes at its end."""

    def __init__(self, known, cell):
        self.known, self.cell, self.keepers = known, cell, []

    def make_end(self, name, at):
        known, host = self.known, self.known["hosts"][at]
        ssh = ssh_words(known)
        parent = known["folder"] if self.cell.words["files"] == "disk" else "/dev/shm"
        keeper = Keeper(host, ssh, FOLDERS, parent)
        self.keepers.append(keeper)
        temp, folder = keeper.told
        end_ = ends.End(name, [*ssh, host], known["addresses"][at], folder, temp, shell=True)
        with open(known["petrel"], "rb") as program:
            subprocess.run(end_.command("sh", "-c", 'cat >"$1" && chmod 755 "$1"', "sh", f"{temp}/petrel"),
                           stdin=program, check=True)
        if end_.run(f"{temp}/petrel", "--version").returncode:
            raise RuntimeError(f"{host} cannot run this petrel: --petrel names one that both hosts can, such as "
                               "the static build")
        return end_

    def add_losses(self, place):
        """nftables at the receiver, for the way of the data."""
        cell = self.cell
        if not cell.loss:
            return
        if {"burst", "correlation"} & set(cell.words):
            raise RuntimeError("between real hosts losses are independent: no burst, no correlation")
        pull = cell.direction == "pull"
        sender = place.sender(cell.direction).address
        host = self.known["hosts"][0 if pull else 1]
        resolved = place.receiver(cell.direction).sh('getent ahostsv4 "$1" | head -1', sender).stdout.split()
        rules = RULES.format(table=TABLE, sender=resolved[0] if resolved else sender,
                             parts=round(cell.loss * 1_000_000))
        self.keepers.append(Keeper(host, ssh_words(self.known), LOSSES, TABLE, rules))

    def __enter__(self):
        try:
            near, far = self.make_end("near", 0), self.make_end("far", 1)
            options = ["-o", "StrictHostKeyChecking=accept-new", "-o", f"UserKnownHostsFile={near.temp}/known"]
            if self.known["config"]:
                with open(self.known["config"], encoding="utf-8") as file:
                    near.write(f"{near.temp}/ssh_config", file.read())
                options = ["-F", f"{near.temp}/ssh_config"]
            user, at, _ = self.known["hosts"][1].rpartition("@")
            place = ends.Place(near, far, user + at + far.address, options, f"{near.temp}/petrel",
                               f"{far.temp}/petrel", None, owned=False)
            self.add_losses(place)
            return place
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        for keeper in reversed(self.keepers):
            keeper.end()
        for host in self.known["hosts"]:
            subprocess.run([*ssh_words(self.known), "-O", "exit", host], capture_output=True)


def facts_of(options, temp):
    """Both hosts' kernels and processors, for the line that begins the results."""
    known = words(options, temp)
    script = 'uname -r; nproc; grep -m1 "model name" /proc/cpuinfo; sysctl -a 2>/dev/null | grep -E ' \
             '"net.core.[rw]mem_max|tcp_[rw]mem|tcp_congestion_control"'
    return {host: subprocess.run([*ssh_words(known), host, script], capture_output=True, text=True,
                                 stdin=subprocess.DEVNULL).stdout.splitlines() for host in options.hosts}
