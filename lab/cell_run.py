"""Runs one cell between two ends that are there already: calibrates the path, then every program in
turns (A B A B), and hands out a dict for each. Knows nothing of files of results or of emulators."""
import json
import os
import statistics
import subprocess
import time
import traceback

import counters
import ends
import results
from drivers import _copy, _tcp
from watcher import Watcher, link_counters

ALONE_S, BEFORE_S, TOGETHER_S, JUDGED_S = 20, 5, 25, 15 # of a flow beside a program


class Job:
    """What a driver is asked for, once; see drivers/__init__.py."""

    def __init__(self, place, cell, program, source):
        self.place, self.direction, self.size = place, cell.direction, cell.size
        self.limit_s, self.stream_s = cell.time_limit_s, cell.stream_s
        self.variant, self.rate_bps = program.variant, cell.rate_bps
        self.rtt_s = cell.rtt_s
        self.socket_buffers, self.visit = cell.socket_buffers, cell.words["visit"]
        self.words, self.source = cell.words, source
        self.target_folder = os.path.join(place.receiver(self.direction).folder, "target")
        self.target = os.path.join(self.target_folder, "file")

    def hopeless(self, left_s):
        """Whether even a line that were full from now on could not carry what is missing: that a copy does
        not finish is as sure then as when its time is up."""
        counted = link_counters(self.place) if self.rate_bps else None
        way = "forward" if self.direction == "push" else "back"
        return bool(counted) and self.size - counted[way]["delivered"]["bytes"] > self.rate_bps / 8 * left_s

    def clear(self):
        """An empty folder for the destination: programs may use what lies beside it."""
        self.place.receiver(self.direction).sh('rm -rf "$1" && mkdir "$1"', self.target_folder,
                                               check=True)


# ---- before the runs ----

def tune(place, buffers):
    """TCP as a careful user sets it, or as the system comes; real hosts are left as they are."""
    if not place.owned:
        return
    settings = ["net.ipv4.tcp_no_metrics_save=1"]
    if buffers == "tuned":
        settings += ["net.ipv4.tcp_rmem=4096 131072 268435456",
                     "net.ipv4.tcp_wmem=4096 16384 268435456"]
    for end in place.ends():
        for setting in settings:
            end.sh('sysctl -q -w "$1" 2>/dev/null', setting)


def make_source(place, cell):
    """A file of random bytes at the sending end, kept for later cells of the same size, and its hash."""
    end = place.sender(cell.direction)
    path = os.path.join(end.folder, "source", f"random-{cell.size}")
    end.sh('mkdir -p "${1%/*}"; [ "$(stat -c %s "$1" 2>/dev/null)" = "$2" ] || '
           '{ rm -f "${1%/*}"/*; head -c "$2" /dev/urandom >"$1"; ' + ends.SHA256 + ' <"$1" >"$1.sha256"; }',
           path, str(cell.size), check=True, timeout=1800)
    return path, end.read(f"{path}.sha256").split()[0]


def ping(place):
    done = place.near.sh('ping -n -q -c 10 -i 0.1 -w 5 "$1"', place.far.address)
    found = {}
    for line in done.stdout.splitlines():
        if "packet loss" in line:
            found["ping_loss_percent"] = float(line.split("%")[0].split()[-1])
        if line.startswith("rtt "):
            least, mean, most, _ = line.split("=")[1].split()[0].split("/")
            found.update(rtt_ms=float(mean), rtt_min_ms=float(least), rtt_max_ms=float(most))
    return found


def iperf_once(place, *words, seconds=2):
    server = place.far.start(["iperf3", "-s", "-1", "-p", str(_tcp.PORT)])
    try:
        place.far.wait_port(_tcp.PORT)
        used = place.near.measured(["iperf3", "-c", place.far.address, "-p", str(_tcp.PORT), "-J", "-t",
                                    str(seconds), *words], seconds + 20)
        return json.loads(used.stdout)["end"]
    except (ValueError, KeyError, RuntimeError):
        return {}
    finally:
        server.stop()


def calibrate(place, cell):
    """What other programs than petrel say of the path."""
    tune(place, cell.words["tcp-buffers"])
    found = ping(place)
    end = iperf_once(place, "-C", "bbr", *(["-R"] if cell.direction == "pull" else []),
                     seconds=2 if cell.rtt_s < 0.05 else 3)
    if "sum_received" in end:
        found["tcp_bbr_mbit"] = end["sum_received"]["bits_per_second"] / 1e6
    rate = cell.rate_bps * 0.9 or 10**9
    end = iperf_once(place, "-u", "-l", "1372", "-b", f"{rate:.0f}",
                     *(["-R"] if cell.direction == "pull" else []))
    if "sum" in end:
        found.update(udp_sent_mbit=rate / 1e6, udp_mbit=end["sum"]["bits_per_second"] / 1e6,
                     udp_loss_percent=end["sum"]["lost_percent"], udp_jitter_ms=end["sum"]["jitter_ms"])
    return found


def facts_of(place, cell):
    """Both ends as they are while the cell runs: the link's settings, offloads, what sockets may have."""
    counted = link_counters(place)
    found = {"link": cell.link_options() if cell.place == "petrel" else cell.conditions(),
             "emulator_offload": counted["offload"] if counted else None}
    for end in place.ends():
        text = end.sh(f'for device in {counters.DEVICES}; do '
                      'echo "$device $(ip -o link show "$device" | sed "s/.* mtu \\([0-9]*\\).*/\\1/")" '
                      '$(ethtool -k "$device" 2>/dev/null | sed -n "s/: on.*//p"); done; '
                      'sysctl net.ipv4.tcp_rmem net.ipv4.tcp_wmem net.core.rmem_max net.core.wmem_max 2>/dev/null')
        found[end.name] = text.stdout.splitlines()
    return found


# ---- one run ----

def arrival(place, job, result, expected):
    """After the clock has stopped: the hash of what came, or how much of it."""
    if "seconds" not in result:
        return
    if not result["finished"]:
        result["arrived_bytes"] = _copy.arrived(place, job)
        return
    end = place.receiver(job.direction)
    came = end.sh(f'{ends.SHA256} <"$1"', job.target, timeout=1800).stdout.split()
    result["sha256"] = came[0] if came else None
    result["sha256_equal"] = result["sha256"] == expected
    result["arrived_bytes"] = job.size
    if not result["sha256_equal"]:
        raise RuntimeError("what arrived has another SHA-256 than what was sent")


def rate(job, result):
    """MB/s of what was asked for; of a run that did not finish the most it can have been, and what
    had really come."""
    if "rate_mb_per_s" in result:
        result["mb_per_s"] = result.pop("rate_mb_per_s")
    elif result["finished"]:
        result["mb_per_s"] = job.size / result["seconds"] / 1e6
        result["command_mb_per_s"] = job.size / result["command_seconds"] / 1e6
    else:
        result["floor_mb_per_s"] = job.size / job.limit_s / 1e6
        result["arrived_mb_per_s"] = result["arrived_bytes"] / result["seconds"] / 1e6
        result["ended_early"] = result["seconds"] < job.limit_s
        if "emulator" in result: # the surer witness: nginx removes at once what it has of a broken PUT
            way = result["emulator"]["forward" if job.direction == "push" else "back"]
            result["crossed_mb_per_s"] = way["delivered"]["bytes"] / result["seconds"] / 1e6


def ends_of(job, result):
    """Which of near and far sent, and processor time for each GB."""
    near, far = result["near"], result["far"]
    sender, receiver = (near, far) if job.direction == "push" else (far, near)
    gigabytes = (result.get("arrived_bytes") or
                 result.get("mb_per_s", 0) * 1e6 * result.get("stream_seconds", 0)) / 1e9
    for name, end in (("sender", sender), ("receiver", receiver)):
        if end["rss_mb"] is not None:
            result[f"{name}_rss_mb"] = end["rss_mb"]
        if end["cpu_s"] is not None and gigabytes > 0.001:
            result[f"{name}_cpu_s_per_gb"] = round(end["cpu_s"] / gigabytes, 3)


def link_figures(job, result, counted):
    """The emulator as a witness."""
    way = counted["forward" if job.direction == "push" else "back"]
    lost = way["dropped_loss"] + way["dropped_queue"] + way["dropped_policer"]
    result["link_loss_percent"] = 100 * lost / max(1, way["packets"])
    result["queue_ms"] = way["queue_ms"]["mean"]
    result["emulator_cpu_s"] = counted["cpu_seconds"]
    result["emulator_faults"] = sum(way[name] for name in (
        "dropped_memory", "dropped_write", "device_drops_sent", "device_drops_received"))
    result["emulator"] = {name: counted[name] for name in ("forward", "back")}


def run_once(place, cell, program, source, expected):
    job = Job(place, cell, program, source)
    job.clear()
    before = [counters.snapshot(end) for end in place.ends()]
    link_counters(place, reset=True)
    watcher = Watcher(place, cell.direction, program.driver.PROCESSES) if place.emulator else None
    result = {"began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    try:
        result.update(beside(place, cell, program, job) if "beside" in cell.words
                      else program.driver.run(place, job))
    finally:
        samples = watcher.end() if watcher else None
    counted = link_counters(place)
    after = [counters.snapshot(end) for end in place.ends()]
    changed = [counters.difference(*both) for both in zip(before, after)]
    result["machine_cpu_s"] = changed[0].get("processor.busy", 0) / 100
    result["counters"] = {end.name: one for end, one in zip(place.ends(), changed)}
    result["own_drops"] = sum(map(counters.drops, changed))
    if counted:
        link_figures(job, result, counted)
    if samples:
        result["timeline"] = samples
    arrival(place, job, result, expected)
    rate(job, result)
    ends_of(job, result)
    job.clear()
    return result


# ---- a TCP flow beside the program ----

def start_flow(place, cell, seconds):
    server = place.far.start(["iperf3", "-s", "-1", "-p", str(_tcp.PORT)])
    place.far.wait_port(_tcp.PORT)
    shape = ["-b", str(cell.beside_rate_bps)] if cell.beside_rate_bps else []
    words = ["iperf3", "-c", place.far.address, "-p", str(_tcp.PORT), "-C", cell.words["beside"], "-t",
             str(seconds), "-J", "--get-server-output", *shape,
             *(["-R"] if cell.direction == "pull" else [])]
    client = subprocess.Popen(place.near.command(*words), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, text=True)
    return server, client


def flow_mbit(server, client):
    """What the receiver saw in the last seconds, by its own intervals."""
    try:
        report = json.loads(client.communicate(timeout=120)[0])
        intervals = report.get("server_output_json", report)["intervals"]
        rates = [one["sum"]["bits_per_second"] for one in intervals if one["sum"]["seconds"] > 0.5]
        return statistics.mean(rates[-JUDGED_S:]) / 1e6
    except (ValueError, KeyError, statistics.StatisticsError) as fault:
        raise RuntimeError(f"the flow of iperf3 failed: {fault}") from None
    finally:
        client.kill()
        server.stop()


def beside(place, cell, program, job):
    """A flow alone, then the same with the program beside it; rates of the time when both have
    settled."""
    alone = flow_mbit(*start_flow(place, cell, ALONE_S))
    flow = start_flow(place, cell, BEFORE_S + TOGETHER_S)
    running = None
    try:
        time.sleep(BEFORE_S)
        running = program.driver.start_beside(place, job)
        time.sleep(TOGETHER_S - JUDGED_S)
        began, at = running.bytes(), time.monotonic()
        time.sleep(JUDGED_S - 1)
        moved, seconds = running.bytes() - began, time.monotonic() - at
        if not running.running():
            raise RuntimeError(f"{program.name} ended early (give it more to do, 'size'): "
                               f"{running.stop()[-300:]}")
        kept = flow_mbit(*flow)
        return {"finished": True, "rate_mb_per_s": moved / seconds / 1e6, "command": running.words,
                "alone_mbit": alone, "beside_mbit": kept, "kept_percent": 100 * kept / alone,
                "near": {"cpu_s": None, "rss_mb": None}, "far": {"cpu_s": None, "rss_mb": None},
                "detail": {"judged_seconds": seconds}}
    finally:
        if running:
            running.stop()
        flow[1].kill()
        flow[0].stop()


# ---- the whole cell ----

def stolen_since(before, place):
    return max(counters.stolen_percent(counters.difference(one, counters.processors(end.read("/proc/stat"))))
               for one, end in zip(before, place.ends()))


def run_calmly(place, cell, program, source, expected, attempts):
    """Runs once, and again while the host took too much of the processors meanwhile; yields a line for each.
    Whether it runs again hangs on that alone, never on what came out."""
    for attempt in range(1, attempts + 1):
        began = time.monotonic()
        before = [counters.processors(end.read("/proc/stat")) for end in place.ends()]
        try:
            result = run_once(place, cell, program, source, expected)
        except RuntimeError as fault:
            result = {"failed": str(fault), "finished": False}
        except Exception: # a driver's own fault: told, and the other programs go on
            result = {"failed": traceback.format_exc(limit=-2)[-600:], "finished": False}
        result["stolen_percent"] = stolen_since(before, place)
        yield {**result, "attempt": attempt, "wall_s": round(time.monotonic() - began, 2)}
        if result["stolen_percent"] <= results.STOLEN_MOST:
            return


def run_cell(place, cell, wanted, attempts, told):
    """Runs what `wanted` lists as (program, repetition), in its order; `told` gets a dict each, and one
    of what each program is really configured to do."""
    tune(place, cell.words["tcp-buffers"])
    told({"kind": "place", **facts_of(place, cell)})
    source, expected = make_source(place, cell)
    told_settings = set()
    for program, repetition in wanted:
        for result in run_calmly(place, cell, program, source, expected, attempts):
            told({"kind": "run", "program": program.name, "repetition": repetition, **result})
        if program.name not in told_settings: # as they are after it has run with them
            told_settings.add(program.name)
            told({"kind": "settings", "program": program.name,
                  "text": program.driver.settings(place, Job(place, cell, program, source))})
