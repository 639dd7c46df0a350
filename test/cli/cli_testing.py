"""What the command line tests share: running tools, tiny models, token files."""

import hashlib
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest

import numpy as np
from safetensors.numpy import save_file

SOURCE = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = SOURCE / "test" / "golden"
TIED = "tiny-tied-1to1"
UNTIED = "tiny-untied-1to3"
TOKENS = 64  # of a micro-batch

_TOOLS = {
    "qwen-import": "QWEN_IMPORT",
    "qwenc": "QWENC",
    "qwenrun": "QWENRUN",
    "qwen-plan": "QWEN_PLAN",
    "qwen-bench": "QWEN_BENCH",
}


def command(tool, *arguments):
    return [os.environ[_TOOLS[tool]], *map(str, arguments)]


def environment():
    # One thread: these models are too small for more.
    return dict(os.environ, OMP_NUM_THREADS="1")


def run(tool, *arguments, cwd=None):
    """Runs a tool to its end. A hanging tool fails the test."""
    return subprocess.run(
        command(tool, *arguments),
        cwd=cwd,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=240,
    )


def rank_environment():
    """Ranks may be more than processors, also as root in a container."""
    return dict(environment(), OMP_WAIT_POLICY="passive",
                OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                OMPI_MCA_rmaps_base_oversubscribe="1",
                OMPI_MCA_hwloc_base_binding_policy="none")


def rank_command(*groups):
    """qwenrun on several ranks: a group is their number and their arguments."""
    launcher = os.environ.get("QWEN_MPIEXEC")
    if not launcher:
        raise unittest.SkipTest("no mpirun on this machine")
    words = []
    for ranks, *arguments in groups:
        words += [":"] * bool(words) + ["-n", str(ranks)]
        words += command("qwenrun", *arguments)
    return [launcher, *words]


def build_model(path, config=TIED, dtype="f32", tokens=TOKENS, documents=8):
    """Imports one of models/configs to the file `path`."""
    done = run(
        "qwen-import", SOURCE / "models" / "configs" / f"{config}.json",
        "--tokens", tokens, "--max-documents", documents, "--dtype", dtype,
        "-o", path)
    if done.returncode != 0:
        raise AssertionError(done.stderr)


def build_plan(path, *flags, **options):
    """Imports and compiles one of models/configs to the file `path`."""
    model = pathlib.Path(path).with_suffix(".mlir")
    build_model(model, **options)
    done = run("qwenc", model, "-o", path, *flags)
    if done.returncode != 0:
        raise AssertionError(done.stderr)


def token_tensors(lengths, vocabulary=256, seed=1):
    """Random documents of these lengths; all but first tokens supervised."""
    generator = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    tokens = generator.integers(0, vocabulary, offsets[-1]).astype(np.int32)
    mask = np.ones(offsets[-1], np.uint8)
    mask[offsets[:-1]] = 0
    return {"tokens": tokens, "document_offsets": offsets, "loss_mask": mask}


def write_tokens(path, tensors, **metadata):
    save_file(tensors, path, metadata={"format": "qwen-tokens-1", **metadata})


def read_raw_safetensors(path):
    """Header (a dictionary) and data of a safetensors file."""
    content = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8:8 + length]), content[8 + length:]


def write_raw_safetensors(path, header, data):
    """Writes header and data as they are, however wrong."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def with_small_disk(folder, size, call):
    """The call, run where `folder` is a file system of `size` of its own;
    nothing where this machine lets no user have one."""
    prefix = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
              f'mount -t tmpfs -o size={size} none "$0" && exec "$@"',
              str(folder)]
    try:
        tried = subprocess.run([*prefix, "true"], capture_output=True)
    except FileNotFoundError:
        return None
    return None if tried.returncode else [*prefix, *call]


def snapshot(folder):
    """Content hash of every file below a folder; folders have None."""
    result = {}
    for path in sorted(pathlib.Path(folder).rglob("*")):
        name = str(path.relative_to(folder))
        result[name] = (hashlib.sha256(path.read_bytes()).hexdigest()
                        if path.is_file() else None)
    return result


def _make_folder(cleanup):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="qwen-cli-"))
    cleanup(shutil.rmtree, folder, ignore_errors=True)
    return folder


class CliTest(unittest.TestCase):
    """A test with a folder of its own, and one that its class shares."""

    @classmethod
    def setUpClass(cls):
        cls.shared = _make_folder(cls.addClassCleanup)

    def setUp(self):
        self.folder = _make_folder(self.addCleanup)

    def run_good(self, tool, *arguments, cwd=None):
        done = run(tool, *arguments, cwd=cwd or self.folder)
        self.assertEqual(done.returncode, 0, done.stderr or done.stdout)
        return done

    def run_into_full_disk(self, tool, *arguments, more=0):
        """Standard output fails as a full disk does; `more` lines are said
        before the error."""
        with open("/dev/full", "w") as full:
            done = subprocess.run(command(tool, *arguments), cwd=self.folder,
                                  env=environment(), stdout=full,
                                  stderr=subprocess.PIPE, text=True,
                                  timeout=240)
        self.assertEqual(done.returncode, 1, done.stderr)
        *before, line = done.stderr.splitlines()
        self.assertEqual(len(before), more, done.stderr)
        self.assertRegex(line, f"^{tool}: error: .*No space left on device$")

    def run_bad(self, tool, *arguments, says=(), cwd=None, faults=1):
        """Expects exit 1, one line a fault, the first of which holds `says`,
        and nothing written."""
        before = snapshot(self.folder)
        done = run(tool, *arguments, cwd=cwd or self.folder)
        lines = done.stderr.splitlines()
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(len(lines), faults, done.stderr)
        self.assertTrue(lines[0].isprintable(), repr(lines[0]))
        self.assertLess(len(lines[0]), 2000)
        for part in [says] if isinstance(says, str) else says:
            self.assertIn(part, lines[0])
        self.assertEqual(snapshot(self.folder), before)
        return lines[0]
