"""scp, as the system has it; `scp/bbr` runs its TCP on BBR."""
from drivers import _copy, _tcp

TITLE = "scp"
KINDS = ("copy",)
VARIANTS = _tcp.CONTROLS
NEEDS = {"near": ["scp"], "far": []}
PACKAGES = "openssh-client"
PROCESSES = ("scp", "ssh", "sshd", "sftp-server")


def settings(place, job):
    version = place.near.run("ssh", "-V").stderr.strip()
    ciphers = place.near.run("ssh", *place.ssh_options, "-G", place.ssh_host).stdout
    first = next((line for line in ciphers.splitlines() if line.startswith("ciphers ")), "")
    return f"{version}\n{first}\n{_tcp.tcp_settings(place)}"


def run(place, job):
    return _copy.run_command(place, job, ["scp", "-q", *place.ssh_options, *place.operands(job)])
