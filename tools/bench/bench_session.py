"""What the comparisons share: the card, running programs, and keeping every line of JSON that they print."""

import datetime
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
# There, or beside the folder in a bundle.
sys.path.append(str(HERE.parent))
import command_line  # noqa: E402


def document_lengths(name):
    """Those of qwen-bench; runtime/benchmark/Documents.h says how they are chosen."""
    return [int(part) for part in (HERE / f"{name}.inc").read_text().split(",")]


# Lengths of a pack's documents.
SEVEN_RAGGED = document_lengths("seven_ragged")
SEVEN_HALVING = document_lengths("seven_halving")


def fail(text):
    sys.exit(f"{Path(sys.argv[0]).name}: error: {text}")


def text_of(values):
    return ",".join(str(value) for value in values)


def find_tool(folder, name):
    """build/tools/qwenrun/qwenrun, or qwenrun where all programs lie in one folder; None where it is not there."""
    return next((path for path in (folder / name / name, folder / name) if path.is_file()), None)


def query_gpu(fields):
    """Values of the first GPU, as text."""
    command = ["nvidia-smi", "--id=0", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        fail(f"nvidia-smi: {error}")
    return [value.strip() for value in done.stdout.split(",")]


class MemoryWatch:
    """The most memory of the GPU in use while it is open, less what was in use before."""

    def __enter__(self):
        self.before = self.most = int(query_gpu("memory.used")[0])
        self.closing = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while not self.closing.wait(0.3):
            self.most = max(self.most, int(query_gpu("memory.used")[0]))

    def __exit__(self, *_):
        self.closing.set()
        self.thread.join()

    def bytes(self):
        return (self.most - self.before) << 20


class Session:
    """Runs programs and keeps every line of JSON that they print."""

    def __init__(self, options, describe):
        """`describe` makes a short line of a row, for the terminal."""
        self.options = options
        self.describe = describe
        self.rows = []
        self.failures = []
        self.environment = os.environ | {
            "PYTHONUNBUFFERED": "1", "TRITON_CACHE_AUTOTUNING": "1", "TRITON_CACHE_DIR": str(options.cache / "triton"),
            "TORCHINDUCTOR_CACHE_DIR": str(options.cache / "inductor")}
        if options.peer_path:
            paths = [str(options.peer_path), os.environ.get("PYTHONPATH", "")]
            self.environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        self.log = open(options.log, "w", encoding="utf-8")
        # Rows as they come, should this program not reach its end.
        self.raw = open(options.rows, "w", encoding="utf-8", buffering=1)

    def add(self, row):
        self.rows.append(row)
        self.raw.write(json.dumps(row) + "\n")

    def write(self):
        """All rows again, with what was added to them since."""
        self.raw.close()
        self.options.rows.write_text("".join(json.dumps(row) + "\n" for row in self.rows))

    def keep(self, line, **more):
        """Parses a line; returns the row where it is one."""
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            return None
        if not isinstance(row, dict) or "bench" not in row:
            return None
        row |= more
        self.add(row)
        if "error" in row:
            self.failures.append(row["error"])
        print(self.describe(row), flush=True)
        return row

    def fail(self, text):
        self.failures.append(text)
        self.add({"bench": "failure", "error": text})

    def run(self, label, command, **more):
        """Runs a program to its end; returns its rows."""
        print(f"-- {label}", flush=True)
        done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=self.log, text=True,
                              env=self.environment, check=False)
        if done.returncode != 0:
            self.fail(f"{label} ended with status {done.returncode}; see {self.options.log.name}")
        return [row for row in (self.keep(line, **more) for line in done.stdout.splitlines()) if row]

    def tool(self, name):
        return find_tool(self.options.bin, name)


def check_program(option, command):
    """What is missing is known before minutes of measurements."""
    if not command.split() or shutil.which(command.split()[0]) is None:
        fail(f"{option}: no program '{command}'")


def check_programs(options, *tools):
    for name in tools:
        if find_tool(options.bin, name) is None:
            fail(f"no {name} in {options.bin}")
    check_program("--peer-python", options.peer_python)
    if options.peer_path and not options.peer_path.is_dir():
        fail(f"--peer-path: no folder '{options.peer_path}'")


def machine_row():
    card, driver, memory = query_gpu("name,driver_version,memory.total")
    version = HERE / "VERSION"  # of a bundle, which is no repository of its own
    if version.is_file():
        commit = version.read_text().strip()
    else:
        commit = subprocess.run(["git", "-C", HERE, "rev-parse", "HEAD"], stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True, check=False).stdout.strip()
    return {"bench": "machine", "card": card, "driver": driver, "memory_mib": int(memory), "commit": commit,
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]).replace(f"{HERE.parent}/", ""),
            "python": sys.version.split()[0]}


def open_results(options, suffix=""):
    """Names the files of a run in the folder of results after its date and card; returns the row of the machine."""
    machine = machine_row()
    options.name = f"{machine['date'][:10]}-{machine['card'].lower().replace(' ', '-')}{suffix}"
    options.output.mkdir(parents=True, exist_ok=True)
    options.log, options.rows = options.output / f"{options.name}.log", options.output / f"{options.name}.jsonl"
    return machine


def add_common_arguments(parser):
    parser.add_argument("--bin", type=Path, required=True, help="folder of qwen-bench and, for missing plans, qwenc")
    parser.add_argument("--plan-dir", type=Path, required=True, help="folder of plans, as make_plans names them")
    parser.add_argument("--model", default="qwen3.8-27b", help="config whose widths the steps have")
    parser.add_argument("--peer-python", default=sys.executable, help="a Python that has torch and transformers")
    parser.add_argument("--peer-path", type=Path, help="folder of further Python packages (flash-linear-attention)")
    parser.add_argument("--cache", type=Path, default=Path("/tmp/qwen-bench-cache"),
                        help="folder for what Triton and inductor compile; kept from run to run")
    parser.add_argument("-o", "--output", type=Path, default=HERE / "results", help="folder for the results")
