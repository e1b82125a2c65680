"""Reads and writes safetensors files without any package."""

import array
import json
import math
import struct


def read_safetensors(path):
    """-> {name: (shape, values)}. Strict: no gaps, no overlaps, aligned, nothing left over."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    assert length % 8 == 0
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    end, tensors = 0, {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, stop = entry["data_offsets"]
        assert begin == end and stop - begin == 8 * math.prod(entry["shape"]), name
        end = stop
        tensors[name] = (entry["shape"], array.array({"F64": "d", "I64": "q"}[entry["dtype"]],
                                                     data[8 + length + begin:8 + length + stop]))
    assert 8 + length + end == len(data)
    return tensors


def read_tensors(path):
    """-> {name: values} of the tensors in F32 and F64."""
    codes = {"F64": "d", "F32": "f"}
    return {name: array.array(codes[kind], raw) for name, (kind, _, raw) in read_raw(path).items() if kind in codes}


def read_raw(path):
    """-> {name: (type, shape, bytes)}"""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], data[8 + length:][slice(*t["data_offsets"])]) for name, t in header.items()}


def write_raw(path, tensors):
    """The inverse of read_raw."""
    header, data = {}, b""
    for name, (kind, shape, raw) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
