"""curl to nginx: HTTP/2 over TLS 1.3, a WebDAV PUT (or a GET when pulling), a server of its own each
time. nginx answers a PUT when the file stands there whole. `curl/bbr` runs its TCP on BBR."""
import os

from drivers import _copy, _tcp

TITLE = "curl to nginx, HTTP/2"
KINDS = ("copy",)
VARIANTS = _tcp.CONTROLS
NEEDS = {"near": ["curl", "openssl"], "far": ["nginx", "openssl"]}
PACKAGES = "curl nginx-light openssl"
PROCESSES = ("curl", "nginx")
PORT = 8443
CONFIG = """daemon off; pid {temp}/nginx.pid; error_log {temp}/nginx.log; worker_processes 1;
{user}events {{ }}
http {{
    access_log off; client_max_body_size 0; client_body_temp_path {folder}/body;
    client_body_buffer_size 1m; http2_body_preread_size 16m; http2_chunk_size 64k;
    server {{
        listen {port} ssl http2; ssl_certificate {temp}/tls.pem; ssl_certificate_key {temp}/tls.key;
        ssl_protocols TLSv1.3;
        location / {{ root {root}; dav_methods PUT; }}
    }}
}}
"""


def config(place, job):
    user = "user root;\n" if place.far.run("id", "-u").stdout.strip() == "0" else ""
    root = job.target_folder if job.direction == "push" else os.path.dirname(job.source)
    # The body's temporary file on the same file system, so that its arrival is a rename.
    return CONFIG.format(temp=place.far.temp, folder=place.far.folder, root=root, user=user, port=PORT)


def settings(place, job):
    server = place.far.sh("nginx -v 2>&1").stdout.strip()
    client = place.near.run("curl", "--version").stdout.splitlines()[0]
    return f"{client}\n{server}\n{config(place, job)}{_tcp.tcp_settings(place)}"


def prepare(place, job):
    far = place.far
    if not far.read(f"{far.temp}/tls.pem"):
        far.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                "-nodes", "-days", "2", "-subj", "/CN=far", "-keyout", f"{far.temp}/tls.key", "-out",
                f"{far.temp}/tls.pem", check=True)
    far.write(f"{far.temp}/nginx.conf", config(place, job))
    _tcp.use_control(place, job.variant or "cubic")


def run(place, job):
    prepare(place, job)
    file = os.path.basename(job.target if job.direction == "push" else job.source)
    words = ["curl", "-sS", "-k", "--http2", "--tlsv1.3", "--fail",
             *(["-T", job.source] if job.direction == "push" else ["-o", job.target]),
             f"https://{place.far.address}:{PORT}/{file}"]
    server = place.far.start(["nginx", "-e", f"{place.far.temp}/nginx.log", "-c",
                              f"{place.far.temp}/nginx.conf"])
    try:
        place.far.wait_port(PORT)
        used = place.near.measured(words, job.limit_s, hopeless=job.hopeless)
        if not used.in_time: # counted before nginx throws away what it has of the body
            body = place.far.sh('find "$1" -type f -printf "%b\\n" 2>/dev/null',
                                f"{place.far.folder}/body").stdout.split()
            came = max((int(blocks) * 512 for blocks in body), default=0)
    finally:
        far = server.stop()
    if used.in_time and used.code:
        log = place.far.read(f"{place.far.temp}/nginx.log")[-200:]
        raise RuntimeError(f"curl ended with {used.code}: {used.stderr.strip()[-300:]} {log}")
    result = {"finished": used.in_time, "seconds": used.seconds, "command_seconds": used.seconds,
              "command": words, "near": used.figures(), "far": {"cpu_s": far[0], "rss_mb": far[1]},
              "detail": {}}
    if not used.in_time and job.direction == "push":
        result["arrived_bytes"] = came
    return result
