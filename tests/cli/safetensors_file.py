"""Reads safetensors files without any package."""

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
    """-> {name: values} of a file of F32 and F64, in whatever order."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header, tensors = json.loads(data[8:8 + length]), {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] in ("F32", "F64"):
            begin, stop = (8 + length + o for o in entry["data_offsets"])
            tensors[name] = array.array({"F64": "d", "F32": "f"}[entry["dtype"]], data[begin:stop])
    return tensors
