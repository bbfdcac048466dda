"""What benches share: ports, children that end with the bench, gateways, what a process uses."""

import json
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_port(port, limit_s=30):
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"nobody listens on {port}")


def cpu_ns(pid):
    """Run time of all threads, user and system."""
    return sum(int((p / "schedstat").read_text().split()[0])
               for p in pathlib.Path(f"/proc/{pid}/task").iterdir())


class Children:
    def __init__(self):
        self.all = []

    def start(self, argv, **kw):
        child = subprocess.Popen([str(a) for a in argv], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, **kw)
        self.all.append(child)
        return child

    def stop(self):
        for child in reversed(self.all):
            child.send_signal(signal.SIGTERM)
        for child in reversed(self.all):
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()

    def sluice(self, build, folder, rules, wrapper=(), program=None):
        """A gateway with one worker and these rules: its pid."""
        build, api = pathlib.Path(build), free_port()
        child = self.start([*wrapper, program or build / "bin" / "sluiced", "--plugins",
                            build / "lib" / "sluice" / "plugins", "--api-listen",
                            f"127.0.0.1:{api}", "--state", pathlib.Path(folder) / f"sluice-{api}.db",
                            "--workers", "1", "--log-level", "warn", "--drain-timeout", "1"])
        wait_port(api, 300)
        for rule in rules:
            urllib.request.urlopen(urllib.request.Request(
                f"http://127.0.0.1:{api}/netlox/v1/config/loadbalancer", json.dumps(rule).encode(),
                {"Content-Type": "application/json"}), timeout=30)
        return child.pid


def rule(port, endpoints, **arguments):
    """A rule's body; endpoints are ports, or ports with what their rows say besides."""
    rows = [e if isinstance(e, tuple) else (e, {}) for e in endpoints]
    return {"serviceArguments": {"externalIP": "127.0.0.1", "port": port, "protocol": "tcp",
                                 "mode": 4, "sel": 0, **arguments},
            "endpoints": [{"endpointIP": "127.0.0.1", "targetPort": p, "weight": 1, **more}
                          for p, more in rows]}


class Callgrind:
    """A gateway under callgrind: what it executes while something else happens."""

    def __init__(self, children, build, folder, rules):
        # A copy without the plugin checker beside it: under valgrind its scan would run out of
        # time.
        program = shutil.copy(pathlib.Path(build) / "bin" / "sluiced", folder)
        self.folder = pathlib.Path(folder)
        self.pid = children.sluice(
            build, folder, rules, program=program,
            wrapper=["valgrind", "--tool=callgrind", "--instr-atstart=yes",
                     f"--callgrind-out-file={folder}/cg.%p"])

    def instructions(self, act):
        """Instructions of all threads, and what act() returned. A profile is left in the folder."""
        subprocess.run(["callgrind_control", "-z", str(self.pid)], capture_output=True, check=True)
        out = act()
        text = subprocess.run(["callgrind_control", "-e", str(self.pid)], capture_output=True,
                              text=True, check=True).stdout
        totals = [int(n.replace(",", ""))
                  for n in re.findall(r"(?m)^\s*Th\s*\d+\s+([\d,]+)", text)]
        return sum(totals), out

    def dump(self, name):
        subprocess.run(["callgrind_control", f"--dump={name}", str(self.pid)], capture_output=True,
                       check=True)


def syscalls(pid, folder, act):
    """System calls of all threads by strace, and what act() returned."""
    log = pathlib.Path(folder) / "strace.txt"
    tracer = subprocess.Popen(["strace", "-c", "-f", "-p", str(pid), "-o", str(log)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1)
    out = act()
    tracer.send_signal(signal.SIGINT)
    tracer.wait(20)
    total = re.search(r"(?m)^\s*100\.00\s+\S+\s+\S+\s+(\d+)", log.read_text())
    return int(total[1]), out
