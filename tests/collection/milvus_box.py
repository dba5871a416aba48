"""A real Milvus server that only this machine can reach: ``python milvus_box.py FOLDER``, stopped by closing its input.

Milvus 2.3.5 listens on all addresses whatever its ip settings say. So the server runs in a network namespace of its
own, which has nothing but a loopback, and this process carries connections from 127.0.0.1 outside to the server inside.
Where the system does not allow a namespace, this fails: it never falls back to open ports.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import socket
import struct
import sys
import threading
from pathlib import Path

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
# Milvus waits for its own clock ticks; a small server may tick more often, which makes every test quicker.
TICKS = {"proxy.timeTickInterval": 20, "queryCoord.checkInterval": 50, "queryCoord.distPullInterval": 50}
SERVICES = ("rootCoord", "proxy", "queryCoord", "queryNode", "indexNode", "dataCoord", "dataNode")
libc = ctypes.CDLL(None, use_errno=True)


def enter_empty_network() -> None:
    """From now on, new sockets of this process and its children see only a loopback of their own."""
    if libc.unshare(CLONE_NEWNET) and libc.unshare(CLONE_NEWUSER | CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "The system does not allow the network namespace that Milvus is kept in")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def carry(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 18):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def accept_forever(outside: socket.socket, port: int) -> None:
    while True:
        client, _ = outside.accept()
        try:
            server = socket.create_connection(("127.0.0.1", port))
        except OSError:
            client.close()
            continue
        for pair in ((client, server), (server, client)):
            threading.Thread(target=carry, args=pair, daemon=True).start()


def main(folder: Path) -> None:
    # A socket belongs to the network in which it was made: this one stays outside.
    outside = socket.create_server(("127.0.0.1", 0))
    enter_empty_network()

    from milvus import MilvusServer, MilvusServerConfig

    config = MilvusServerConfig(data_dir=str(folder))
    for service in SERVICES:
        config.set(f"{service}.ip", "127.0.0.1")
    for name, milliseconds in TICKS.items():
        config.set(name, milliseconds)
    server = MilvusServer(config)
    server.start()
    try:
        threading.Thread(target=accept_forever, args=(outside, server.listen_port), daemon=True).start()
        print(outside.getsockname()[1], server.server_proc.pid, flush=True)
        sys.stdin.read()
    finally:
        server.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
