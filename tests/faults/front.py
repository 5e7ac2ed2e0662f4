# SPDX-License-Identifier: Apache-2.0
"""A program between clients and the server at PORT of a test.

    front.py sentinel PORT | cluster PORT | tls PORT CERTIFICATES

Prints its own port and process id, and serves until its parent dies.

sentinel  Answers as a Sentinel that names PORT as the primary. Faults of the server are then faults
          behind a Sentinel that does not change.
cluster   Forwards to PORT, a node with all slots. In its answers the node's port is replaced by
          this program's port, so that clients stay here.
tls       Terminates TLS and forwards the bytes to PORT unchanged, so that a bad network there is a
          bad network under TLS.
"""
import asyncio
import contextlib
import ctypes
import os
import re
import signal
import ssl
import sys

ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def bulk(*texts):
    return b"".join(b"$%d\r\n%s\r\n" % (len(t), t) for t in (text.encode() for text in texts))


async def read_command(reader):
    count = int((await reader.readline())[1:] or 0)
    words = []
    for _ in range(count):
        size = int((await reader.readline())[1:])
        words.append((await reader.readexactly(size + 2))[:-2].decode())
    return [word.upper() for word in words]


async def be_sentinel(reader, writer, port):
    while words := await read_command(reader):
        if words[:2] == ["SENTINEL", "MASTER"]:
            fields = bulk("name", words[2].lower(), "ip", "127.0.0.1", "port", str(port),
                          "flags", "master", "config-epoch", "1")
            writer.write(b"*10\r\n" + fields)
        elif words[0] == "SENTINEL":
            writer.write(b"*2\r\n" + bulk("127.0.0.1", str(port)))
        elif words[0] == "SUBSCRIBE":
            writer.write(b"*3\r\n" + bulk("subscribe", words[1].lower()) + b":1\r\n")
        else:
            writer.write(b"+PONG\r\n" if words[0] == "PING" else b"-ERR unknown command\r\n")
        await writer.drain()


async def copy_stream(reader, writer, change=lambda data: data):
    while data := await reader.read(65536):
        writer.write(change(data))
        await writer.drain()


def own_port(writer):
    """Returns a function that replaces the node's port in an answer to CLUSTER SLOTS."""
    port = b"%d" % writer.get_extra_info("sockname")[1]
    address = rb"(\$9\r\n127\.0\.0\.1\r\n:)\d+\r\n"
    return lambda data: re.sub(address, rb"\g<1>" + port + b"\r\n", data)


async def forward(reader, writer, port):
    """Forwards both ways. When one side closes or resets, the other side is reset immediately."""
    back_reader, back_writer = await asyncio.open_connection("127.0.0.1", port)
    change = own_port(writer) if sys.argv[1] == "cluster" else bytes
    try:
        ways = [asyncio.ensure_future(copy_stream(reader, back_writer)),
                asyncio.ensure_future(copy_stream(back_reader, writer, change))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
    finally:
        back_writer.transport.abort()


async def serve(mode, port, certificates=None):
    context = None
    if mode == "tls":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{certificates}/good.crt", f"{certificates}/good.key")
    handler = be_sentinel if mode == "sentinel" else forward

    async def handle(reader, writer):
        with contextlib.suppress(OSError, EOFError, ValueError, IndexError):
            await handler(reader, writer, port)
        writer.transport.abort()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], os.getpid(), flush=True)
    await server.serve_forever()


asyncio.run(serve(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
