# SPDX-License-Identifier: Apache-2.0
"""Uses the library from another language: its API is functions and plain structs.

    ctypes_smoke.py LIBRARY
"""
import ctypes
import sys
from ctypes import (POINTER, byref, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_uint64,
                    c_void_p)

HF_OK, HF_BUSY, HF_INVALID = 0, 1, 11


class Options(ctypes.Structure):
    _fields_ = [
        ("wait_ms", c_int64), ("lease_ms", c_int64), ("max_hold_ms", c_int64),
        ("owner", c_uint64), ("cancel", c_void_p), ("on_lost", c_void_p), ("arg", c_void_p),
        ("kind", c_uint32), ("permits", c_uint32), ("capacity", c_uint32), ("flags", c_uint32),
    ]


def load(path):
    hf = ctypes.CDLL(path)
    signatures = {
        "hf_open_v": (c_int32, [c_char_p, c_void_p, c_size_t, POINTER(c_void_p)]),
        "hf_close": (None, [c_void_p]),
        "hf_acquire_v": (c_int32, [c_void_p, c_char_p, POINTER(Options), c_size_t,
                                   POINTER(c_void_p)]),
        "hf_release": (c_int32, [c_void_p]),
        "hf_held": (c_int32, [c_void_p]),
        "hf_fence": (c_uint64, [c_void_p]),
        "hf_result_name": (c_char_p, [c_int32]),
        "hf_error_detail": (c_char_p, []),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(hf, name)
        function.restype, function.argtypes = result, arguments
    return hf


def main():
    hf = load(sys.argv[1])

    def expect(wanted, result):
        names = [hf.hf_result_name(r).decode() for r in (wanted, result)]
        detail = hf.hf_error_detail().decode()
        assert result == wanted, "wanted {}, got {}: {}".format(*names, detail)

    def acquire(owner):
        hold = c_void_p()
        options = Options(owner=owner)
        size = ctypes.sizeof(options)
        result = hf.hf_acquire_v(client, b"smoke", byref(options), size, byref(hold))
        return result, hold

    client = c_void_p()
    expect(HF_OK, hf.hf_open_v(b"memory:", None, 0, byref(client)))

    result, hold = acquire(owner=1)
    expect(HF_OK, result)
    assert hf.hf_held(hold) == 1
    assert hf.hf_fence(hold) > 0

    result, none = acquire(owner=2)
    expect(HF_BUSY, result)
    assert none.value is None, "a failed acquire must leave NULL"

    expect(HF_OK, hf.hf_release(hold))
    hf.hf_close(client)

    expect(HF_INVALID, hf.hf_open_v(b"not a url", None, 0, byref(client)))
    assert client.value is None, "a failed open must leave NULL"
    assert hf.hf_error_detail() != b""


main()
