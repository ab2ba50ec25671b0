"""What a reader has to know about the machine to trust a figure: versions, processor, settings."""
import os
import platform
import subprocess
import time

import counters

VERSIONS = {"iperf3": ["iperf3", "--version"], "curl": ["curl", "--version"], "nginx": ["nginx", "-v"],
            "ssh": ["ssh", "-V"], "rsync": ["rsync", "--version"], "openssl": ["openssl", "version"],
            "python": ["python3", "--version"]}
SYSCTLS = ("net/core/rmem_max", "net/core/wmem_max", "net/core/rmem_default", "net/core/wmem_default",
           "net/core/netdev_max_backlog", "net/ipv4/tcp_rmem", "net/ipv4/tcp_wmem",
           "net/ipv4/tcp_congestion_control", "net/ipv4/tcp_available_congestion_control",
           "net/core/default_qdisc", "kernel/sched_rt_runtime_us")


def first_line(words):
    path = dict(os.environ, PATH=os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin")
    try:
        done = subprocess.run(words, capture_output=True, text=True, env=path, timeout=20,
                              stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0] if lines else None


def read(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def value_of(text, key, separator):
    """The value behind the first line that begins with key."""
    for line in text.splitlines():
        name, found, value = line.partition(separator)
        if found and name.strip() == key:
            return value.strip().strip('"')
    return None


def offloads():
    """ethtool's state of each interface, where ethtool is."""
    found = {}
    for device in os.listdir("/sys/class/net"):
        try:
            done = subprocess.run(["ethtool", "-k", device], capture_output=True, text=True, timeout=20)
        except OSError:
            return None
        found[device] = [line.split(":")[0].strip() for line in done.stdout.splitlines()
                         if ": on" in line]
    return found


def busy_share(seconds=1.0):
    """Of all processors, what other work has of them now. A load average would still count our own last run."""
    before = counters.processors(read("/proc/stat"))
    time.sleep(seconds)
    after = counters.processors(read("/proc/stat"))
    hundredths = after.get("processor.busy", 0) - before.get("processor.busy", 0)
    return round(min(1.0, hundredths / 100 / seconds / (os.cpu_count() or 1)), 3)


def machine(petrel):
    """Of the machine on which this runs."""
    memory = value_of(read("/proc/meminfo"), "MemTotal", ":")
    here = os.path.dirname(os.path.abspath(__file__))
    return {
        "petrel": first_line([petrel, "--version"]),
        "petrel_sha256": (first_line(["sha256sum", petrel]) or "").split(" ")[0],
        "revision": first_line(["git", "-C", here, "describe", "--always", "--dirty"]),
        "versions": {name: version for name, words in VERSIONS.items()
                     if (version := first_line(words))},
        "kernel": platform.release(), "architecture": platform.machine(),
        "system": value_of(read("/etc/os-release"), "PRETTY_NAME", "="),
        "processor": value_of(read("/proc/cpuinfo"), "model name", ":"),
        "processors": os.cpu_count(), "memory": memory, "load": read("/proc/loadavg"), "busy_share": busy_share(),
        "sysctls": {name.replace("/", "."): " ".join(value.split()) for name in SYSCTLS
                    if (value := read(f"/proc/sys/{name}"))},
        "offloads": offloads(), "awake": "PETREL_LAB_AWAKE" in os.environ,
    }
