#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A service that checks tokens: Fence-Token does for lock holders what If-Match does for versions.

    server.py [PORT]           0: any free port; the first line of output names it

    PUT /orders/42             Fence-Token: 1794805158885882
        200   written; the next writer must have this token or a higher one
        412   a later holder has written: stop, and do not try again under this token
        428   there is no token
    GET /orders/42             what was written, with the token it was written under

From a shell:

    holdfast run orders:42 \\
        sh -c 'curl -f -X PUT -H "Fence-Token: $HOLDFAST_FENCE" -d billed URL'
"""
import http.server
import sys
import threading

BODY_MAX = 65536


class Resources:
    """Value and highest token of each path. The comparison and the write are one step."""

    def __init__(self):
        self.lock = threading.Lock()
        self.known = {}

    def put(self, path, token, value):
        with self.lock:
            highest, _ = self.known.get(path, (0, b""))
            if token < highest:
                return highest
            self.known[path] = token, value
            return token

    def get(self, path):
        with self.lock:
            return self.known.get(path)


class Handler(http.server.BaseHTTPRequestHandler):
    resources = Resources()
    timeout = 10

    def do_PUT(self):
        token = self.headers.get("Fence-Token", "")
        length = self.headers.get("Content-Length", "0")
        if not token.isascii() or not token.isdigit():
            return self.answer(428, b"send the token of your lock in Fence-Token\n")
        if not length.isdigit() or int(length) > BODY_MAX:
            return self.answer(413, b"the value is too long\n")
        value = self.rfile.read(int(length))
        highest = self.resources.put(self.path, int(token), value)
        if highest != int(token):
            return self.answer(412, b"a later holder has written\n", highest)
        return self.answer(200, b"written\n", highest)

    def do_GET(self):
        found = self.resources.get(self.path)
        if found is None:
            return self.answer(404, b"nothing was written\n")
        token, value = found
        return self.answer(200, value, token)

    def answer(self, status, body, token=None):
        self.send_response(status)
        if token is not None:
            self.send_header("Fence-Token", str(token))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8042
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
        server.serve_forever()


main()
