"""petrel itself: a copy started over SSH, or `petrel bench` for a stream.

Variants: fair, background (its policies). The time of a copy is petrel's own, from the first handshake
packet to the receiver's word that all is verified; the whole command stands beside it. `petrel/serve` copies
to a `petrel serve` of its own each time; there is no login to leave out, so that its time is that of the whole
command, as curl's is.
"""
import json
import os
import shlex
import signal
import subprocess
import time

TITLE = "petrel"
KINDS = ("copy", "stream", "beside")
POLICIES = ("auto", "fair", "background")
VARIANTS = (*POLICIES, "serve")
KINDS_OF = {"serve": ("copy",)} # where a variant can do less
REFUSES = {"serve": ("socket-buffers", "visit")} # keys that a variant could not follow
NEEDS = {"near": [], "far": []}
PACKAGES = ""
PROCESSES = ("petrel", "petrel-hooks")
PORT = 4717


def program(place, job):
    """petrel, or where the cell caps socket buffers the one that tests can cap, next to it."""
    # No settings, memory or ssh connections of the user's.
    own = ["PETREL_CONFIG=none", f"XDG_STATE_HOME={place.near.temp}/state", f"XDG_RUNTIME_DIR={place.near.temp}"]
    if job.socket_buffers:
        path = os.path.join(os.path.dirname(place.petrel), "petrel-hooks")
        return [path], [*own, f"PETREL_TEST_BUFFER={job.socket_buffers}"]
    return [place.petrel], own


def way_words(job):
    """How it is to send: what the cell and the variant say."""
    return [*(["--policy", job.variant] if job.variant in POLICIES else []),
            *(["--lanes", job.words["lanes"]] if "lanes" in job.words else [])]


def words_for(place, job, log):
    """The words of a copy but for its operands; the far end's usage goes to `log`."""
    words, environment = program(place, job)
    far = [place.far_petrel] if not job.socket_buffers else words
    far = ["env", *environment, *place.far.time_words(log), *far]
    way = way_words(job)
    if job.visit == "first":
        way += ["--no-memory", "--no-reuse"]
    return [*words, "copy", "-q", *way, *place.ssh_options, "--remote-petrel",
            shlex.join(far)], environment


def settings(place, job):
    return place.near.run(place.petrel, "--version").stdout.strip()


def run(place, job):
    if job.variant == "serve":
        return run_serve(place, job)
    return run_stream(place, job) if job.stream_s else run_copy(place, job)


def run_copy(place, job):
    log = place.far.new_log()
    words, environment = words_for(place, job, log)
    if job.visit == "repeated" and "petrel" not in place.visited: # the first visit, not counted
        place.near.measured([*words, *place.operands(job)], job.limit_s * 3, environment)
        place.visited.add("petrel")
        job.clear()
    used, words, summary = measured(place, job, words, environment, place.operands(job))
    return result_of(used, words, summary, place.far.used(log))


def measured(place, job, words, environment, operands):
    """Runs a copy; returns what it used, its words and its summary, which is None where it has none."""
    events = f"{place.near.temp}/events"
    words = [*words, f"--json={events}", *operands]
    used = place.near.measured(words, job.limit_s, environment, job.hopeless)
    lines = [line for line in map(parsed, place.near.read(events).splitlines()) if line]
    summary = next((line for line in lines if line.get("event") == "summary"), None)
    if used.in_time and (used.code or summary is None):
        raise RuntimeError(f"petrel ended with {used.code}: {used.stderr.strip()[-400:]}")
    return used, words, summary


def result_of(used, words, summary, far):
    result = {"finished": used.in_time, "seconds": used.seconds, "command_seconds": used.seconds,
              "command": words, "near": used.figures(),
              "far": {"cpu_s": far[0], "rss_mb": far[1]}, "detail": {}}
    if summary is not None and used.in_time:
        if summary["kept_bytes"]:
            raise RuntimeError("not all of the file crossed the link: this is no measurement")
        result["seconds"] = summary["transfer_seconds"]
        result["resent_percent"] = 100 * summary["payload_resent"] / max(1, summary["payload_sent"])
        result["loss_percent"] = 100 * summary["packets_lost"] / max(1, summary["packets_sent"])
        result["receiver_drops"] = summary["receiver_drops"]
        result["detail"] = {name: summary[name] for name in (
            "packets_sent", "packets_lost", "datagram_bytes", "lanes", "rtt_seconds",
            "limited_seconds", "remembered_path")}
    return result


# ---- a petrel that listens ----

def server_words(place, job, keys):
    root = job.target_folder if job.direction == "push" else os.path.dirname(job.source)
    return ["env", "PETREL_CONFIG=none", place.far_petrel, "serve", "-q", "--port", str(PORT), "--root",
            f"lab={root}", "--identity", f"{keys}/identity", "--authorized-keys", f"{keys}/authorized_keys",
            "--control=none"]


def key_of(end, petrel, keys):
    """The public key of an end, made the first time."""
    return end.sh('mkdir -p "$1" && chmod 700 "$1" && PETREL_CONFIG=none "$2" key -q --identity "$1/identity"', keys,
                  petrel, check=True).stdout


def serve_operands(place, job):
    remote = f"petrel://{place.far.address}:{PORT}/lab/"
    if job.direction == "push":
        return [job.source, remote + os.path.basename(job.target)]
    return [remote + os.path.basename(job.source), job.target]


def run_serve(place, job):
    """Both keys are there and the client has met the server before, as with any copy but the first: nobody's
    time of asking counts."""
    ours, theirs = f"{place.near.temp}/keys-near", f"{place.far.temp}/keys-far"
    known = key_of(place.far, place.far_petrel, theirs).split()[:2]
    place.far.write(f"{theirs}/authorized_keys", key_of(place.near, place.petrel, ours))
    place.near.write(f"{ours}/known_hosts", f"{place.far.address} {' '.join(known)}\n")
    words, environment = program(place, job)
    words += ["copy", "-q", "--identity", f"{ours}/identity", "--known-hosts", f"{ours}/known_hosts",
              *way_words(job), *(["--no-memory"] if job.visit == "first" else [])]
    server = place.far.start(server_words(place, job, theirs))
    try:
        place.far.wait_port(PORT, kind="udp")
        done = measured(place, job, words, environment, serve_operands(place, job))
    finally:
        far = server.stop()
    result = result_of(*done, far)
    result["detail"]["transfer_seconds"] = result["seconds"]
    result["seconds"] = result["command_seconds"]
    return result


def parsed(line):
    try:
        return json.loads(line)
    except ValueError:
        return None # cut off when it was stopped


def run_stream(place, job):
    words = [place.petrel, "bench", "--no-tcp", "--time", f"{job.stream_s:g}s", "--json",
             *place.ssh_options, "--remote-petrel", place.far_petrel,
             *way_words(job),
             *(["--reverse"] if job.direction == "pull" else []), place.ssh_host]
    used = place.near.measured(words, job.stream_s * 2 + 30, ["PETREL_CONFIG=none"])
    try:
        report = json.loads(used.stdout)["petrel"]
    except (KeyError, ValueError):
        raise RuntimeError(f"petrel bench ended with {used.code}: {used.stderr.strip()[-400:]}") \
            from None
    sender, receiver = report["sender"], report["receiver"]
    ends = {"sender": sender, "receiver": receiver}
    near, far = ("sender", "receiver") if job.direction == "push" else ("receiver", "sender")
    return {"finished": True, "rate_mb_per_s": report["end_to_end_bps"] / 8e6, "command": words,
            "sustained_mb_per_s": report["sustained_bps"] / 8e6, "stream_seconds": job.stream_s,
            "near": bench_usage(ends[near]), "far": bench_usage(ends[far]),
            "detail": {"sender": sender, "receiver": receiver}}


def bench_usage(end):
    return {"cpu_s": end["cpu_seconds"], "rss_mb": end["peak_memory_bytes"] / 1e6}


def start_beside(place, job):
    """Starts an endless copy for a cell with a flow beside it; returns an object with `bytes()` (verified
    so far) and `stop()`."""
    return Running(place, job)


class Running:
    def __init__(self, place, job):
        self.place, self.events = place, f"{place.near.temp}/events-beside"
        words, environment = words_for(place, job, place.far.new_log())
        self.words = ["env", *environment, *words, f"--json={self.events}", *place.operands(job)]
        self.process = subprocess.Popen(place.near.command(*self.words), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def bytes(self):
        lines = map(parsed, self.place.near.read(self.events).splitlines())
        return max((line.get("verified_bytes", 0) for line in lines if line), default=0)

    def running(self):
        return self.process.poll() is None

    def stop(self):
        if self.running():
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
        time.sleep(0.2)
        return (self.process.communicate()[1] or "").strip()
