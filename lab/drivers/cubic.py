"""iperf3: TCP, CUBIC; plain memory to memory, neither encrypted nor verified."""
from drivers import _tcp

TITLE = "TCP, CUBIC"
KINDS = ("copy", "stream")
VARIANTS = ()
NEEDS = {"near": ["iperf3"], "far": ["iperf3"]}
PACKAGES = "iperf3"
PROCESSES = ("iperf3",)


def settings(place, job):
    return _tcp.tcp_settings(place)


def run(place, job):
    return _tcp.run_iperf(place, job, "cubic", 1)
