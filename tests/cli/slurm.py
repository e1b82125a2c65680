"""A Slurm cluster of one node on the loopback interface, with all its files in one folder."""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

import pytest

from program import start, unavailable

DAEMONS = ("munged", "slurmctld", "slurmd")
SEARCHED = os.environ["PATH"] + ":/usr/sbin:/sbin"
# `config_overrides`: slurmd accepts more CPUs and memory than the machine has.
CONFIG = """
ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=batch_sched_delay=0,bf_interval=1,sched_interval=1,sched_min_interval=0
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
KillWait=5
MinJobAge=600
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=8000
PartitionName=test Nodes=ALL Default=YES
"""


def wait_until(condition, seconds=120):
    """Returns the first true value of `condition()`. Fails after `seconds`."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"still waiting after {seconds} s"
        time.sleep(0.1)
    return value


def command(*words):
    """Runs a command of Slurm and returns its standard output."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


def processes_with(*texts):
    """Returns the ids of other processes whose environment and command line contain all texts."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
            if int(process.name) != os.getpid() and all(os.fsencode(text) in words for text in texts):
                found.append(int(process.name))
    return found


def free_ports(count):
    """Returns ports that were free just now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def require_slurm():
    """Skips a file of tests without root or without Slurm."""
    if os.geteuid() != 0:
        pytest.skip("a cluster on the loopback interface needs root", allow_module_level=True)
    missing = [name for name in (*DAEMONS, "sbatch") if shutil.which(name, path=SEARCHED) is None]
    if missing:
        unavailable(f"missing {', '.join(missing)}: install slurmctld, slurmd, slurm-client and munge")


@contextlib.contextmanager
def slurm(folder):
    """Runs munged, slurmctld and slurmd until the block ends, then fails if a process is left. Commands of Slurm find
    the cluster through SLURM_CONF."""
    host = socket.gethostname().split(".")[0]
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o400)
    config = folder / "slurm.conf"
    config.write_text(CONFIG.format(host=host, folder=folder, ports=free_ports(2)))
    munge = [f"--{name}={folder}/munge.{end}" for name, end in
             {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}.items()]
    words = {"munged": ["--foreground", "--force", *munge],
             "slurmctld": ["-D", "-f", config], "slurmd": ["-D", "-f", config, "-N", host]}
    running = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(config))
        patch.setenv("PATH", SEARCHED)
        try:
            for name in DAEMONS:
                with open(folder / f"{name}.out", "w") as output:
                    running.append(start(*words[name], program=name, cwd=folder, stdout=output, stderr=output))
                if name == "munged":
                    wait_until((folder / "munge.socket").exists)
            try:
                wait_until(lambda: subprocess.run(["sinfo", "-h", "-o", "%T"], capture_output=True, text=True,
                                                  check=False).stdout.strip() == "idle")
            except AssertionError:
                unavailable("the Slurm cluster does not start on this machine")
            yield
        finally:
            for process in reversed(running):
                process.terminate()
                try:
                    process.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    process.kill()
            left = processes_with(folder)
            for number in left:
                os.kill(number, signal.SIGKILL)
    assert left == []
