"""Refuses a processor without the instructions that the compiled module needs, before it ends the process by SIGILL."""

import platform
from pathlib import Path

# Those of x86-64-v3 that the names of Linux's list tell.
NEEDED = {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "abm", "xsave"}


def require_instructions(listed: Path = Path("/proc/cpuinfo"), machine: str | None = None) -> None:
    """Raises ImportError, which names what is missing. Says nothing where the system does not list instructions."""
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
            f"periscope: this processor, or its virtual machine, lacks {', '.join(sorted(missing))}; the module is "
            "compiled for x86-64-v3 (processors with AVX2, from about 2013 on)"
        )
