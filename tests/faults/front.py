"""front.py sentinel PORT | cluster PORT | tls PORT CERTIFICATES: what a client is to go through to reach a server at PORT.

Prints its own port and process number, and serves until its parent dies.

sentinel  Answers as a Sentinel that knows PORT as the primary, and nothing else: faults of the server are then
          faults behind a Sentinel that stays as it is.
cluster   Goes on to PORT, a node that has all slots; what that says of its own port is changed into this one, so that clients
          stay here.
tls       Ends TLS: bytes go on to PORT as they come, so that a bad network there is one under TLS.
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


async def pump(reader, writer, change=lambda data: data):
    while data := await reader.read(65536):
        writer.write(change(data))
        await writer.drain()


def own_port(writer):
    """In an answer to CLUSTER SLOTS this is where a node is."""
    port = b"%d" % writer.get_extra_info("sockname")[1]
    return lambda data: re.sub(rb"(\$9\r\n127\.0\.0\.1\r\n:)\d+\r\n", rb"\g<1>" + port + b"\r\n", data)


async def pass_on(reader, writer, port):
    """What one side ends, it ends on the other too, at once: a reset is one."""
    back_reader, back_writer = await asyncio.open_connection("127.0.0.1", port)
    change = own_port(writer) if sys.argv[1] == "cluster" else bytes
    try:
        ways = [asyncio.ensure_future(pump(reader, back_writer)),
                asyncio.ensure_future(pump(back_reader, writer, change))]
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
    handler = be_sentinel if mode == "sentinel" else pass_on

    async def handle(reader, writer):
        with contextlib.suppress(OSError, EOFError, ValueError, IndexError):
            await handler(reader, writer, port)
        writer.transport.abort()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], os.getpid(), flush=True)
    await server.serve_forever()


asyncio.run(serve(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
