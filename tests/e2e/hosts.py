"""Two hosts for tests of the real program: scripts/with-hosts, and what tests do between them.

A test file ends in hosts.main(). Started by meson as FILE PETREL PETREL_LAB [TEST...], it starts
itself again on the near host of a pair with a short clean path; 77 where there can be none.
"""
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PETREL = os.environ.get("PETREL", "")
HOST = os.environ.get("PETREL_HOST", "")
CONFIG = os.environ.get("PETREL_SSH_CONFIG", "")
TEMP = os.environ.get("PETREL_TEMP", "")
FAR_HOME = os.environ.get("PETREL_FAR_HOME", "")
FAR_EXEC = os.environ.get("PETREL_LAB_FAR_EXEC", "").split()
BUILD = os.path.dirname(os.path.dirname(os.path.dirname(PETREL)))
HOOKS = os.path.join(BUILD, "src", "cli", "petrel-hooks")
HOSTILE = os.path.join(BUILD, "tests", "e2e", "petrel-hostile")
ATTACK = os.path.join(BUILD, "tests", "e2e", "petrel-attack")
MIB = 1 << 20
TIMEOUT = 60


def main(options=("--rtt", "2ms")):
    if sys.argv[1:2] == ["--inside"]:
        # What runs in the background of a script has it ignored, and would hand that on.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        share_connection()
        program = unittest.main(argv=[sys.argv[0], *sys.argv[2:]], exit=False)
        subprocess.run([*ssh_words(), "-O", "exit", HOST], stderr=subprocess.DEVNULL)
        sys.exit(0 if program.result.wasSuccessful() else 1)
    environment = dict(os.environ, PETREL=os.path.realpath(sys.argv[1]),
                       PETREL_LAB=os.path.realpath(sys.argv[2]))
    probe = subprocess.run([environment["PETREL_LAB"], "link", "--", "true"])
    if probe.returncode:
        print("skipped: no two hosts here (see the line above)", file=sys.stderr)
        sys.exit(77)
    os.execve(os.path.join(ROOT, "scripts", "with-hosts"),
              ["with-hosts", *options, "--", sys.executable, os.path.abspath(sys.argv[0]),
               "--inside", *sys.argv[3:]], environment)


def share_connection():
    """One ssh connection for all tests: a handshake for each would take most of their time."""
    with open(CONFIG, "a") as config:
        config.write(f"    ControlPath {TEMP}/control-%h-%p\n")
    os.chmod(TEMP, 0o755)
    subprocess.run([*ssh_words(), "-oControlMaster=yes", "-oControlPersist=120", "-N", "-f", HOST],
                   check=True)


def ssh_words():
    return ["ssh", "-F", CONFIG]


def is_root():
    """Whether we are root outside of any user namespace: may become somebody else, and mount."""
    return os.environ["PETREL_HOSTS_UID"] == "0"


def unprivileged(*words):
    """The same command as a user whom modes bind."""
    if is_root():
        return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *words]
    return ["unshare", "--user", "--map-user=65534", *words]


def network_of(process, run=()):
    """Which network namespace a process is in, as the kernel names it."""
    return subprocess.check_output([*run, "readlink", f"/proc/{process}/ns/net"], text=True).strip()


@functools.cache
def own_networks():
    return network_of("self"), network_of("self", FAR_EXEC)


def is_ours(process):
    """Whether it runs on one of the two hosts of this test; others may run beside it."""
    try:
        return os.readlink(f"/proc/{process}/ns/net") in own_networks()
    except OSError:
        return False


def own_processes():
    """Ids of the processes that run our petrel, here or on the far host."""
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if os.readlink(f"/proc/{entry}/exe") in (PETREL, HOOKS, HOSTILE) and is_ours(entry):
                    found.add(int(entry))
            except OSError:
                pass
    return found


def link(*words):
    """petrel-lab about the link that the tests run on: stats, set."""
    if "PETREL_LAB_LINK" not in os.environ:
        raise unittest.SkipTest("there is no folder for the socket that controls the link")
    name = os.path.basename(os.environ["PETREL_LAB_LINK"])
    done = subprocess.run([os.environ["PETREL_LAB"], words[0], name, *words[1:]], check=True,
                          stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout) if words[0] == "stats" else None


def wait_until(condition, seconds):
    """Whether the condition came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


class Result:
    def __init__(self, code, stdout, stderr, seconds):
        self.code, self.stdout, self.stderr, self.seconds = code, stdout, stderr, seconds

    def events(self):
        """Each line of stdout as JSON: nothing else may stand there."""
        events = [json.loads(line) for line in self.stdout.splitlines()]
        for event in events:
            assert event["schema"] == 1 and isinstance(event["event"], str), event
        return events


class Case(unittest.TestCase):
    """Each test has a near and a far folder of its own; no process may be left, and no half file,
    unless the test has interrupted a copy and says so by `halves_may_stay`."""

    def setUp(self):
        self.halves_may_stay = False
        self.folder = tempfile.mkdtemp(dir=TEMP, prefix="t")
        os.chmod(self.folder, 0o755)
        self.near = os.path.join(self.folder, "near")
        self.far = os.path.join(self.folder, "far")
        os.mkdir(self.near)
        os.mkdir(self.far)
        os.environ["XDG_STATE_HOME"] = os.path.join(self.folder, "state")

    def tearDown(self):
        gone = wait_until(lambda: not own_processes(), 5)
        left = [] if gone else [open(f"/proc/{p}/cmdline").read() for p in own_processes()]
        halves = [name for _, folders, files in os.walk(self.folder) for name in folders + files
                  if name.startswith(".petrel-")]
        shutil.rmtree(self.folder, ignore_errors=True)
        self.assertTrue(gone, f"still running: {left}")
        if not self.halves_may_stay:
            self.assertEqual(halves, [], "half files are left")

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def write(self, path, size=1000, seed=0, mode=None, text=None):
        """A file of bytes that repeat nowhere near each other; returns its path."""
        path = self.path(path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if text is not None:
            data = text.encode()
        else:
            data = seed.to_bytes(8, "big") + os.urandom(max(0, size - 8))
        with open(path, "wb") as file:
            file.write(data[:size] if text is None else data)
        if mode is not None:
            os.chmod(path, mode)
        return path

    def remote(self, path=""):
        return f"{HOST}:{self.path(path)}"

    def start(self, *words, far_petrel=None, prefix=(), config=True, program=None, **keywords):
        """petrel, running; its stderr goes to a pipe unless told otherwise."""
        options = []
        if config:
            options = ["-F", CONFIG, "--remote-petrel", far_petrel or PETREL]
        first = []
        if words and words[0] in ("copy", "install", "uninstall"):
            first, words = [words[0]], words[1:]
            options = options if first[0] == "copy" else options[:2]
        keywords.setdefault("text", True)
        keywords.setdefault("stdin", subprocess.DEVNULL)
        keywords.setdefault("stdout", subprocess.PIPE)
        keywords.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen([*prefix, program or PETREL, *first, *options, *words], **keywords)

    def finish(self, process, began=None):
        try:
            stdout, stderr = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            stdout, stderr = process.communicate()
            self.fail(f"did not end in {TIMEOUT} s: {stdout}{stderr}")
        return Result(process.returncode, stdout, stderr, time.monotonic() - (began or 0))

    def petrel(self, *words, code=0, **keywords):
        began = time.monotonic()
        result = self.finish(self.start(*words, **keywords), began)
        self.assertEqual(result.code, code, f"petrel {words}: {result.stdout}{result.stderr}")
        return result

    def copy(self, *words, **keywords):
        return self.petrel("copy", *words, **keywords)

    def fails(self, code, says, *words, **keywords):
        """It ends with this code and one sentence of its own that says all of `says`."""
        result = self.copy(*words, code=code, **keywords)
        own = [line for line in result.stderr.splitlines() if line.startswith("petrel: ")]
        self.assertEqual(len(own), 1, result.stderr)
        for part in [says] if isinstance(says, str) else says:
            self.assertIn(part, own[0])
        return result

    def same_file(self, a, b):
        with open(self.path(a), "rb") as one, open(self.path(b), "rb") as other:
            self.assertTrue(one.read() == other.read(), f"{a} and {b} differ")

    def same_tree(self, a, b, root=True):
        """Equal trees; of the two folders themselves only what they hold unless `root`."""
        one, other = tree(self.path(a)), tree(self.path(b))
        if not root:
            del one["."], other["."]
        self.assertEqual(sorted(one), sorted(other))
        for name in one:
            self.assertTrue(one[name] == other[name],
                            f"{name}: {str(one[name])[:200]} became {str(other[name])[:200]}")

    def same_content(self, a, b):
        self.same_tree(a, b, root=False)


def tree(root):
    """What a copy keeps of a tree: types, modes, times, link targets, bytes."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in [".", *folders, *files] if folder == root else folders + files:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            content = None
            if os.path.islink(path):
                content = os.readlink(path)
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    content = file.read()
            mode, when = status.st_mode, status.st_mtime_ns
            if os.path.islink(path):
                mode, when = mode & ~0o7777, 0
            found[os.path.relpath(path, root)] = (oct(mode), when, content)
    return found
