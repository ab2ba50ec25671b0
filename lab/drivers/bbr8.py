"""iperf3: 8 x TCP, BBR; plain memory to memory, neither encrypted nor verified."""
from drivers import _tcp

TITLE = "8 x TCP, BBR"
KINDS = ("copy", "stream")
VARIANTS = ()
NEEDS = {"near": ["iperf3"], "far": ["iperf3"]}
PACKAGES = "iperf3"
PROCESSES = ("iperf3",)


def settings(place, job):
    return _tcp.tcp_settings(place)


def run(place, job):
    return _tcp.run_iperf(place, job, "bbr", 8)
