#!/usr/bin/env python3
"""Makes tests/vectors/wire.txt from docs/protocol.md alone, sharing no code with petrel.

Usage: make_vectors.py > wire.txt      write the vectors
       make_vectors.py --check FILE    compare with FILE (exit 77 without the cryptography module)

One vector a line: its kind, then name=value; byte strings in hexadecimal, numbers in decimal.
"""
import hashlib
import hmac
import struct
import sys

try:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
except ImportError:
    print("python3-cryptography is not installed", file=sys.stderr)
    sys.exit(77)

SECRET = bytes(range(32))
SESSION_ID = bytes(range(0x40, 0x50))
SESSION_SECRET = bytes(range(0x80, 0xA0))


def pattern(size, start=0):
    return bytes((start + 7 * i) % 256 for i in range(size))


def expand(prk, info, size):
    """HKDF-Expand, RFC 5869 section 2.3."""
    out, block, count = b"", b"", 0
    while len(out) < size:
        count += 1
        block = hmac.new(prk, block + info + bytes([count]), hashlib.sha256).digest()
        out += block
    return out[:size]


def be(value, size):
    return value.to_bytes(size, "big")


def nonce(iv, number):
    return bytes(a ^ b for a, b in zip(iv, be(number, 12)))


def seal(suite, key, iv, number, clear, plain):
    cipher = {"aes-256-gcm": AESGCM, "chacha20-poly1305": ChaCha20Poly1305}[suite](key)
    return clear + cipher.encrypt(nonce(iv, number), plain, clear)


def handshake_key(direction):
    prk = hmac.new(b"petrel 1 handshake", SECRET, hashlib.sha256).digest()
    both = expand(prk, SESSION_ID + bytes([direction]), 44)
    return both[:32], both[32:]


STREAM_LANE = 16


def packet_key(direction, lane, epoch):
    secret = expand(SESSION_SECRET, b"petrel 1 lane" + bytes([direction, lane]), 32)
    both = expand(secret, b"petrel 1 key" + be(epoch, 4), 44)
    return both[:32], both[32:]


def line(name_of_kind, **fields):
    shown = (f"{name}={value.hex() if isinstance(value, bytes) else value}"
             for name, value in fields.items())
    return " ".join([name_of_kind, *shown])


def handshake_packets():
    cases = [(0, 0, 0, 0, pattern(300), 1200), (0, 5, 220, 300, pattern(74, 9), 0),
             (1, 0, 300, 0, pattern(260, 3), 0), (1, 70000, 374, 260, b"", 0),
             (1, 2**40 - 1, 65536, 65000, pattern(536), 0)]
    for direction, number, acknowledged, offset, data, padded in cases:
        key, iv = handshake_key(direction)
        clear = b"\x01" + SESSION_ID + be(number, 5)
        plain = be(acknowledged, 4) + be(offset, 4) + be(len(data), 2) + data
        plain += bytes(max(0, padded - len(clear) - len(plain) - 16))
        yield line("handshake", secret=SECRET, id=SESSION_ID, direction=direction, number=number,
                   acknowledged=acknowledged, offset=offset, padded=padded, data=data, key=key,
                   packet=seal("aes-256-gcm", key, iv, number, clear, plain))


def open_packets():
    client, server, cookie = b"client's", b"\x00\x02server", pattern(32, 11)
    cases = [(bytes(8), client, bytes(32), 0, 0, 0, pattern(300), 1200),
             (bytes(8), client, cookie, 1, 0, 0, pattern(300), 1200),
             (client, server, b"", 0, 300, 0, pattern(700, 3), 0),
             (server, client, b"", 2, 700, 300, pattern(400, 9), 0),
             (server, client, b"", 2**40 - 1, 65536, 65000, pattern(536), 0)]
    for to, sender, shown, number, acknowledged, offset, data, padded in cases:
        packet = b"\x08" + to + sender + shown + be(number, 5) + be(acknowledged, 4)
        packet += be(offset, 4) + be(len(data), 2) + data
        packet += bytes(max(0, padded - len(packet)))
        yield line("open", to=to, sender=sender, cookie=shown, number=number,
                   acknowledged=acknowledged, offset=offset, padded=padded, data=data,
                   packet=packet)
    key = pattern(32, 77)
    for family, address, port, epoch in [(4, bytes([192, 0, 2, 1]) + bytes(12), 40000, 1),
                                         (6, bytes.fromhex("20010db8") + bytes(11) + b"\x07",
                                          65535, 70000)]:
        text = bytes([family]) + address + be(port, 2) + client + be(epoch, 4)
        made = be(epoch, 4) + hmac.new(key, text, hashlib.sha256).digest()[:28]
        yield line("cookie", key=key, family=family, address=address, port=port, id=client,
                   epoch=epoch, packet=b"\x09" + client + made)


def wishes():
    for limit, policy, fixed, rate, rtt, loss in [(0, 0, 0, 0, 0, 0),
                                                  (2**64 - 1, 2, 1, 10**9, 60000000, 1000000)]:
        yield line("wishes", limit=limit, policy=policy, fixed=fixed, rate=rate, rtt=rtt,
                   loss=loss, bytes=be(limit, 8) + bytes([policy]) + be(fixed, 8) + be(rate, 8) +
                   be(rtt, 4) + be(loss, 4))


def hellos():
    for low, high, role, lanes, aes, base, credit, largest in [
            (1, 1, 1, 4, 1, 0x12345670, 0, 1472), (1, 255, 2, 16, 0, 0xFFFFFFF0, 2**32 - 1, 65535),
            (2, 3, 2, 1, 1, 0, 96, 1200)]:
        data = b"ptrl" + bytes([low, high, role, lanes, aes]) + be(base, 4) + be(credit, 4)
        yield line("hello", low=low, high=high, role=role, lanes=lanes, aes=aes, base=base,
                   credit=credit, largest=largest, bytes=data + be(largest, 2))


def frame_vectors():
    """(name, fields, bytes) of each kind of frame."""
    ack = dict(largest=0x0102030405, time=0x0A0B0C0D0E0F, delay=0x11121314, packets=0x212223242526,
               bytes=0x313233343536, duplicates=0x41424344, drops=0x51525354, credit=0x61626364,
               bitmap=pattern(5, 0xF0))
    sizes = dict(largest=5, time=6, delay=4, packets=6, bytes=6, duplicates=4, drops=4, credit=4)
    encoded = b"\x02" + b"".join(be(ack[name], size) for name, size in sizes.items())
    yield "ack", ack, encoded + be(5, 2) + ack["bitmap"]
    zero = {name: 0 for name in sizes} | {"bitmap": b""}
    yield "ack", zero, b"\x02" + bytes(39) + be(0, 2)
    yield "ping", {}, b"\x01"
    data = pattern(40, 1)
    yield ("control", dict(offset=2**48 - 40, data=data),
           b"\x03" + be(2**48 - 40, 6) + be(40, 2) + data)
    yield "window", dict(end=262144), b"\x04" + be(262144, 6)
    yield "challenge", dict(token=0x0123456789ABCDEF), b"\x05" + be(0x0123456789ABCDEF, 8)
    yield "response", dict(token=0xFEDCBA9876543210), b"\x06" + be(0xFEDCBA9876543210, 8)
    yield "rtt", dict(us=83211), b"\x07" + be(83211, 4)
    yield ("done", dict(result=1, files=7, blocks=2**33, control=70000),
           b"\x08\x01" + struct.pack(">QQ", 7, 2**33) + be(70000, 6))
    yield "bye", {}, b"\x09"
    text = "the disk is full".encode()
    yield "abort", dict(kind=8, text=text), b"\x0a\x08" + be(len(text), 2) + text
    yield "standby", {}, b"\x0b"


def sealed(suite, direction, lane, number, base, kind, body):
    key, iv = packet_key(direction, lane, number >> 22)
    connection = base + (0 if lane == STREAM_LANE else lane)
    clear = bytes([kind]) + be(connection, 4) + be(number, 5)
    return dict(suite=suite, secret=SESSION_SECRET, direction=direction, lane=lane, number=number,
                connection=connection, type=kind, key=key,
                packet=seal(suite, key, iv, number, clear, body))


def data_packets():
    base = 0xABCDEF00
    cases = [("aes-256-gcm", 0, 0, 0, 0x10, 0, 0, pattern(1)),
             ("aes-256-gcm", 0, 3, 2**22 - 1, 0x14, 1, 1048575, pattern(1)),
             ("aes-256-gcm", 0, 3, 2**22, 0x11, 2**28 - 1, 1374, pattern(1374)),
             ("aes-256-gcm", 1, 15, 2**40 - 1, 0x17, 0x0ABCDEF, 0x12345, pattern(200)),
             ("chacha20-poly1305", 1, 0, 3 * 2**22 + 5, 0x12, 5, 0, pattern(1000)),
             ("aes-256-gcm", 0, STREAM_LANE, 7, 0x10, 2, 3, pattern(2000))]
    for suite, direction, lane, number, kind, block, offset, data in cases:
        body = be(block << 20 | offset, 6) + data
        yield line("data", block=block, offset=offset, data=data,
                   **sealed(suite, direction, lane, number, base, kind, body))


def control_packets():
    body = b"".join(encoded for _, _, encoded in frame_vectors())
    for suite, padding in [("aes-256-gcm", 0), ("chacha20-poly1305", 100)]:
        yield line("packet", body=body + bytes(padding),
                   **sealed(suite, 1, 2, 77, 0x55555550, 0x24, body + bytes(padding)))


def ports_packets():
    for ports in [[], [(4, 40000), (6, 65535)]]:
        entries = b"".join(bytes([family]) + be(port, 2) for family, port in ports)
        yield line("ports", count=len(ports), bytes=b"\x02" + bytes([len(ports)]) + entries)
    for ports in [[], [60001, 60002, 61000]]:
        entries = b"".join(be(port, 2) for port in ports)
        yield line("open-ports", count=len(ports), bytes=b"\x05" + bytes([len(ports)]) + entries)


def all_lines():
    yield "# Made by tests/vectors/make_vectors.py from docs/protocol.md."
    yield from hellos()
    yield from handshake_packets()
    yield from open_packets()
    yield from wishes()
    for name, fields, encoded in frame_vectors():
        yield line("frame-" + name, **fields, encoded=encoded)
    yield from data_packets()
    yield from control_packets()
    yield from ports_packets()


def main():
    text = "".join(one + "\n" for one in all_lines())
    if sys.argv[1:2] != ["--check"]:
        sys.stdout.write(text)
        return 0
    with open(sys.argv[2], encoding="ascii") as file:
        same = file.read() == text
    print("the vectors are what the script makes" if same else "the vectors differ: make them anew")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
