"""The two hosts of a cell as drivers see them: where to run programs and put files.

An End runs commands, here (in a network namespace or not) or through ssh; a Place is both ends and what
lies between. Drivers know nothing else, so the same driver works in both.
"""
import os
import shlex
import signal
import subprocess
import tempfile
import time

SEARCH = "/usr/local/sbin:/usr/sbin:/sbin"
KILL_AFTER_S = 3
LOOK_S = 1 # how often it is asked whether a measured command can still be in time
# sha256sum's own code needs six times as long on many systems; a hash is a hash.
SHA256 = "{ openssl dgst -sha256 -r 2>/dev/null || sha256sum; }"


TIME_IS_UP = 124 # what timeout(1) ends with


def end_early(process):
    """Tells the timeout(1) below env and time that its time is up."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8") as stat:
                parent = int(stat.read().rpartition(")")[2].split()[1])
            if parent == process.pid:
                os.kill(int(entry), signal.SIGALRM)
        except OSError:
            pass # ended meanwhile


class Used:
    """What a measured command took: seconds, code, whether it ended by itself, processor and memory."""

    def __init__(self, code, seconds, stdout, stderr, processor_s, rss_mb):
        self.code, self.seconds, self.stdout, self.stderr = code, seconds, stdout, stderr
        self.processor_s, self.rss_mb = processor_s, rss_mb
        self.in_time = code != TIME_IS_UP

    def figures(self):
        return {"cpu_s": self.processor_s, "rss_mb": self.rss_mb}


class Server:
    """A program that serves at an end until it is stopped; `log` names its usage, see End.used."""

    def __init__(self, end, process, log):
        self.end, self.process, self.log = end, process, log

    def stop(self):
        """Ends it, gently first; idempotent. Returns what it used as (seconds, MB)."""
        self.process.stdin.close() # the guard at the other side then ends it
        try:
            self.process.wait(KILL_AFTER_S * 2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        return self.end.used(self.log)


class End:
    """`run_words` before a command make it run there; `address` is how the other end reaches it;
    `folder` holds big files, `temp` small ones."""

    # Runs "$@" until it ends or standard input does, whichever is first.
    GUARD = ('exec 3<&0; "$@" </dev/null 3<&- & child=$!; '
             '{ cat >/dev/null; kill -TERM $child; sleep %d; kill -KILL $child; } <&3 2>/dev/null & '
             'watch=$!; wait $child; code=$?; kill $watch; exit $code' % KILL_AFTER_S)

    def __init__(self, name, run_words, address, folder, temp, shell=False):
        self.name, self.run_words, self.address = name, list(run_words), address
        self.folder, self.temp, self.shell = folder, temp, shell
        self.counter = 0

    def command(self, *words):
        """The argument vector that runs these words there."""
        if self.shell: # ssh joins its arguments with blanks and hands them to a shell
            return [*self.run_words, shlex.join(words)]
        return [*self.run_words, *words]

    def run(self, *words, check=False, text=None, timeout=120):
        done = subprocess.run(self.command(*words), input=text, capture_output=True, text=True,
                              timeout=timeout, **({} if text is not None else {"stdin": None}))
        if check and done.returncode:
            raise RuntimeError(f"{self.name}: {words[0]} ended with {done.returncode}: "
                               f"{(done.stderr or done.stdout).strip()[-400:]}")
        return done

    def sh(self, script, *arguments, **keywords):
        return self.run("sh", "-c", f"PATH=$PATH:{SEARCH}; {script}", "sh", *arguments, **keywords)

    def read(self, path):
        done = self.run("cat", path)
        return done.stdout if done.returncode == 0 else ""

    def write(self, path, text):
        self.sh('cat >"$1"', path, text=text, check=True)

    def which(self, program):
        return self.sh('command -v "$1"', program).stdout.strip()

    def new_log(self):
        self.counter += 1
        return os.path.join(self.temp, f"used-{self.name}-{self.counter}")

    def time_words(self, log):
        """Put before a command, they write into `log` what `used` reads."""
        return ["/usr/bin/time", "-f", "%M %U %S", "-o", log]

    def used(self, log):
        """(processor seconds, peak MB) of a command that has ended, or (None, None)."""
        words = self.read(log).split("\n")[-2:-1]
        try:
            memory, user, system = words[0].split()
            return round(float(user) + float(system), 3), round(int(memory) * 1024 / 1e6, 1)
        except (IndexError, ValueError):
            return None, None

    def measured(self, words, limit_s, environment=(), hopeless=None):
        """Runs a command to its end or to the limit of time; returns a Used. `hopeless` may be a function
        that is told how many seconds are left and says that they cannot be enough: it ends then."""
        log = self.new_log()
        full = ["env", *environment, *self.time_words(log), "timeout", "-k", str(KILL_AFTER_S),
                f"{limit_s:g}", *words]
        if self.shell: # killed over there, too, when we are
            full = ["sh", "-c", f"PATH=$PATH:{SEARCH}; {self.GUARD}", "sh", *full]
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            began = time.monotonic()
            process = subprocess.Popen(self.command(*full), stdin=subprocess.PIPE, stdout=out, stderr=err)
            code = self.wait(process, began + limit_s, hopeless) # its input stays open meanwhile
            seconds = time.monotonic() - began
            process.stdin.close()
            out.seek(0)
            err.seek(0)
            code = TIME_IS_UP if code == 137 and seconds >= limit_s else code
            return Used(code, seconds, out.read(), err.read(), *self.used(log))

    def wait(self, process, deadline, hopeless):
        """Until it ends, by itself or because it cannot be in time any more; returns its code."""
        while hopeless:
            try:
                return process.wait(LOOK_S)
            except subprocess.TimeoutExpired:
                if hopeless(deadline - time.monotonic()):
                    end_early(process)
                    break
        return process.wait()

    def start(self, words):
        """Starts a server there; it ends with Server.stop, and by itself when this process dies."""
        log = self.new_log()
        process = subprocess.Popen(
            self.command(*self.time_words(log), "sh", "-c", f"PATH=$PATH:{SEARCH}; {self.GUARD}",
                         "sh", *words), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        return Server(self, process, log)

    def wait_port(self, port, seconds=20, kind="tcp"):
        """Until something listens on a port there (on a loaded machine that takes a while);
        RuntimeError."""
        deadline = time.monotonic() + seconds
        listens = {"tcp": "0A", "udp": "07"}[kind]
        while time.monotonic() < deadline:
            table = self.sh(f"cat /proc/net/{kind} /proc/net/{kind}6 2>/dev/null").stdout
            rows = (line.split() for line in table.splitlines())
            if any(row[1].endswith(f":{port:04X}") and row[3] == listens for row in rows if len(row) > 3):
                return
            time.sleep(0.05)
        raise RuntimeError(f"{self.name}: nothing listens on port {port}")


class Place:
    """Both ends. near starts every program; a push sends from near to far.

    ssh_config and ssh_host are how near reaches far; petrel and far_petrel the programs; `emulator`
    the control socket of the link or None; `lab` petrel-lab; `owned`: namespaces of ours, whose
    settings are nobody else's.
    """

    def __init__(self, near, far, ssh_host, ssh_options, petrel, far_petrel, lab, emulator=None,
                 owned=True):
        self.near, self.far = near, far
        self.ssh_host, self.ssh_options = ssh_host, list(ssh_options)
        self.petrel, self.far_petrel, self.lab = petrel, far_petrel, lab
        self.emulator, self.owned = emulator, owned
        self.visited = set() # programs that have been here before: a driver's own note

    def ends(self):
        return (self.near, self.far)

    def sender(self, direction):
        return self.near if direction == "push" else self.far

    def receiver(self, direction):
        return self.far if direction == "push" else self.near

    def remote(self, path):
        return f"{self.ssh_host}:{path}"

    def operands(self, job):
        """Source and destination as scp, rsync and petrel take them on the near host."""
        if job.direction == "push":
            return [job.source, self.remote(job.target)]
        return [self.remote(job.source), job.target]


def end_all(process, patience=10):
    """Ends a process that we started in a session of its own, with all that it started there."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
