"""Checks that the processor supports the compiled module, which would otherwise end the process with SIGILL."""

import platform
from pathlib import Path

# The instruction sets of x86-64-v3, by their names in /proc/cpuinfo.
NEEDED = {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "abm", "xsave"}


def require_instructions(listed: Path = Path("/proc/cpuinfo"), machine: str | None = None) -> None:
    """Raises ImportError if instruction sets are missing. Passes if the system does not list them."""
    if (machine or platform.machine()) != "x86_64":
        return
    try:
        with listed.open(encoding="ascii", errors="replace") as lines:
            flags = next((set(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), None)
    except OSError:
        return
    missing = NEEDED - flags if flags else set()
    if missing:
        raise ImportError(
            f"periscope: this processor or virtual machine lacks {', '.join(sorted(missing))}; the module is compiled "
            "for x86-64-v3 (processors with AVX2, from about 2013 on)"
        )
