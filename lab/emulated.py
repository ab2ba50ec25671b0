"""Starts one cell on this machine: an emulated link between two network namespaces, sshd at its far
end, and this program again at its near end (`inside`). Everything there ends with one process."""
import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile

import ends

HERE = os.path.dirname(os.path.abspath(__file__))
PREFIX = "petrel-lab-"
PR_SET_PDEATHSIG = 1


def with_hosts():
    """The script that starts sshd; it stands beside the others, installed or in the source tree."""
    for path in (os.path.join(HERE, "with-hosts"), os.path.join(HERE, "..", "scripts", "with-hosts")):
        if os.path.exists(path):
            return os.path.abspath(path)
    raise RuntimeError("the script with-hosts is missing beside the lab")


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def sweep(folder):
    """Removes what a lab that was killed has left in a folder of ours."""
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        owner = name[len(PREFIX):].split("-")[0]
        if name.startswith(PREFIX) and owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def new_folder(parent):
    sweep(parent)
    return tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=parent)


def free_bytes(folder):
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def environment_of(temp, petrel, lab):
    home = os.path.join(temp, "home")
    return dict(os.environ, PETREL=petrel, PETREL_LAB=lab, PETREL_TEMP=temp, PETREL_FAR_HOME=home,
                PETREL_CONFIG="none", XDG_STATE_HOME=os.path.join(temp, "state"),
                PETREL_HOSTS_UID=str(os.getuid()))


def words_of(cell, emulator, job_path, lab):
    """What makes the link, and at its near end starts us again."""
    inside = [with_hosts(), "--inside", sys.executable, HERE, "inside", job_path]
    if cell.direct or emulator == "netem":
        return ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable,
                HERE, "veth", job_path, "--", *inside]
    return [lab, "link", *cell.link_options(), "--", *inside]


def start(cell, emulator, job_path, temp, petrel, lab):
    """A process whose standard output is JSON lines; end it with ends.end_all."""
    environment = environment_of(temp, petrel, lab)
    if cell.direct or emulator == "netem":
        environment["PETREL_HOSTS_UID"] = "0"
    return subprocess.Popen(words_of(cell, emulator, job_path, lab), env=environment,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, start_new_session=True, preexec_fn=die_with_parent)


def probe(lab):
    """Why no link can be made here, or None."""
    done = subprocess.run([lab, "link", "--", "true"], capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr.strip()


@contextlib.contextmanager
def place(folder):
    """Inside: both ends as ends.Place, from what with-hosts and petrel-lab leave in the environment."""
    temp, far_exec = os.environ["PETREL_TEMP"], os.environ["PETREL_LAB_FAR_EXEC"].split()
    config = os.environ["PETREL_SSH_CONFIG"]
    sides = {}
    for name in ("near", "far"):
        sides[name] = os.path.join(folder, name)
        os.makedirs(sides[name], exist_ok=True)
    near = ends.End("near", [], os.environ["PETREL_LAB_NEAR"], sides["near"], temp)
    far = ends.End("far", far_exec, os.environ["PETREL_LAB_FAR"], sides["far"], temp)
    yield ends.Place(near, far, os.environ["PETREL_HOST"], ["-F", config], os.environ["PETREL"],
                     os.environ["PETREL"], os.environ["PETREL_LAB"],
                     os.environ.get("PETREL_LAB_LINK"))
