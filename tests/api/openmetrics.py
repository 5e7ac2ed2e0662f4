# SPDX-License-Identifier: Apache-2.0
"""Parses hf_metrics_text as strictly as the OpenMetrics specification allows.

    openmetrics.py LIBRARY
"""
import ctypes
import re
import sys
from ctypes import byref, c_char_p, c_int32, c_size_t, c_void_p

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf'({NAME})(?:\{{([a-zA-Z_][a-zA-Z0-9_]*)="([^"\\\n]*)"\}})? ([^ ]+)')
NUMBER = re.compile(r"\d+(\.\d+)?")
SUFFIXES = {"counter": ["_total"], "gauge": [""], "info": ["_info"],
            "histogram": ["_bucket", "_count", "_sum"]}


class Family:
    def __init__(self, name):
        self.name, self.type, self.unit, self.help = name, None, None, None
        self.samples = []  # suffix, label, label's value, number


def parse(text):
    """Returns the families by name. Asserts every rule of the specification."""
    assert text.endswith("# EOF\n"), "the text must end with # EOF and a newline"
    families, current = {}, None
    for line in text[:-len("# EOF\n")].splitlines():
        assert line and line == line.strip(), f"an extra blank: {line!r}"
        if line.startswith("# "):
            _, keyword, name, rest = line.split(" ", 3)
            assert keyword in ("TYPE", "UNIT", "HELP"), line
            assert re.fullmatch(NAME, name), line
            if current is None or current.name != name:
                assert name not in families, f"the lines of {name} are not together"
                current = families[name] = Family(name)
            assert not current.samples, f"{line} comes after its samples"
            field = keyword.lower()
            assert getattr(current, field) is None, f"repeated: {line}"
            setattr(current, field, rest)
            continue
        add_sample(current, line)
    return families


def add_sample(family, line):
    found = SAMPLE.fullmatch(line)
    assert found, f"not a sample: {line!r}"
    name, label, value, number = found.groups()
    assert family and family.type in SUFFIXES, f"no type before {line}"
    suffix = name[len(family.name):]
    assert name.startswith(family.name) and suffix in SUFFIXES[family.type], line
    assert NUMBER.fullmatch(number), line
    assert (label is None) == (suffix not in ("_bucket", "_info")), line
    key = (suffix, label, value)
    assert key not in [sample[:3] for sample in family.samples], f"repeated: {line}"
    family.samples.append((*key, float(number)))


def microseconds(seconds):
    """A whole number, because sums of fractions differ in their last digit."""
    return round(seconds * 1e6)


def check_histogram(family):
    buckets = [(value, number) for suffix, label, value, number in family.samples
               if suffix == "_bucket" and label == "le"]
    bounds = [float(value.replace("+Inf", "inf")) for value, _ in buckets]
    counts = [number for _, number in buckets]
    assert bounds == sorted(set(bounds)) and buckets[-1][0] == "+Inf", f"{family.name}: {bounds}"
    assert counts == sorted(counts), f"{family.name}: buckets must be cumulative"
    others = {suffix: number for suffix, _, _, number in family.samples if suffix != "_bucket"}
    assert others["_count"] == counts[-1], f"{family.name}: the last bucket must count all"
    most = sum(microseconds(bound) * count for bound, count in zip(
        bounds[:-1], [b - a for a, b in zip([0, *counts], counts)]))
    assert microseconds(others["_sum"]) <= most, f"{family.name}: the sum exceeds its buckets"


def check_all(families):
    for family in families.values():
        assert family.type and family.help and family.samples, family.name
        if family.unit is not None:
            assert family.name.endswith("_" + family.unit), family.name
        if family.type == "histogram":
            check_histogram(family)


def only(families, name):
    (sample,) = families[name].samples
    return sample[3]


def load(path):
    hf = ctypes.CDLL(path)
    hf.hf_error_detail.restype = c_char_p
    hf.hf_open_v.argtypes = [c_char_p, c_void_p, c_size_t, c_void_p]
    hf.hf_try_lock.argtypes = [c_void_p, c_char_p, c_void_p]
    hf.hf_release.argtypes = hf.hf_close.argtypes = [c_void_p]
    hf.hf_metrics_text.argtypes = [c_void_p, c_char_p, c_size_t]
    hf.hf_metrics_text.restype = c_int32
    return hf


def main():
    hf = load(sys.argv[1])
    client, hold = c_void_p(), c_void_p()

    def do(result):
        assert result == 0, hf.hf_error_detail().decode()

    def text():
        buffer = ctypes.create_string_buffer(32768)
        do(hf.hf_metrics_text(client, buffer, len(buffer)))
        return buffer.value.decode()

    do(hf.hf_open_v(b"memory:", None, 0, byref(client)))
    families = parse(text())
    check_all(families)
    assert only(families, "holdfast_acquired") == 0

    for _ in range(7):
        do(hf.hf_try_lock(client, b"x", byref(hold)))
        do(hf.hf_release(hold))
    do(hf.hf_try_lock(client, b"x", byref(hold)))
    families = parse(text())
    check_all(families)
    assert only(families, "holdfast_acquired") == 8
    assert only(families, "holdfast_released") == 7
    assert only(families, "holdfast_held") == 1
    counts = {family.name: number for family in families.values()
              for suffix, _, _, number in family.samples if suffix == "_count"}
    assert counts == {"holdfast_wait_seconds": 8, "holdfast_hold_seconds": 7}, counts
    do(hf.hf_release(hold))
    hf.hf_close(client)
    check_the_check()


def check_the_check():
    """The checks above find wrong texts."""
    good = ("# TYPE a histogram\n# HELP a x\n" 'a_bucket{le="1.0"} 1\na_bucket{le="+Inf"} 2\n'
            "a_count 2\na_sum 1.0\n# EOF\n")
    wrong = [("# EOF\n", ""), ("a_count 2", "a_count 3"), ('"1.0"} 1', '"1.0"} 3'),
             ('a_bucket{le="+Inf"} 2\n', ""), ("a_sum 1.0", "a_total 1.0"), ("a_sum", "b_sum"),
             ("# TYPE a histogram\n", ""), ("a_sum 1.0\n", "a_sum 1.0\n\n"), ("1.0\n#", "1,0\n#")]
    check_all(parse(good))
    for old, new in wrong:
        try:
            check_all(parse(good.replace(old, new)))
        except (AssertionError, ValueError, KeyError, IndexError):
            continue
        raise SystemExit(f"the checks accept a wrong text: {old!r} -> {new!r}")


if __name__ == "__main__":
    main()
