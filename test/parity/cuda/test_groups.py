"""Generated kernels on a GPU against those for the CPU, on odd shapes.

Compiles groups.mlir for both and lets qwen-bench compare; with --model also the
first block of layers of a model's configuration. Exits with 77 and a reason
where there is no nvJitLink or no GPU.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

SKIP = 77
LOWERING = {
    "cpu": ["-qwen-lower-groups", "-qwen-compile-groups"],
    "gpu": ["-qwen-lower-groups-gpu", "-qwen-compile-groups-gpu"],
}
TARGETS = {"cpu": "x86-64-v3", "gpu": "sm_90a"}


def run(arguments):
    return subprocess.run([str(a) for a in arguments], capture_output=True, text=True)


def skip(reason):
    print("skipped:", reason.strip().splitlines()[0])
    sys.exit(SKIP)


def compile_groups(tools, source, kind, plan, before=()):
    target = TARGETS[kind]
    done = run([tools / "qwen-opt" / "qwen-opt", source, *before, *LOWERING[kind],
                "-qwen-inline-calls", f"-qwen-assign-offsets=target={target}",
                f"-qwen-schedule=target={target}",
                f"-qwen-emit-plan=output={plan}", "-o", "/dev/null"])
    if "needs nvJitLink" in done.stderr:
        skip(done.stderr)
    if done.returncode != 0:
        sys.exit(done.stderr)


def fused_model(tools, config, folder):
    """The fused graph for the GPU, which is then lowered for both."""
    content = json.loads(config.read_text())
    model = content.get("text_config", content)
    block = model["full_attention_interval"]
    model["num_hidden_layers"] = block
    model["layer_types"] = model["layer_types"][:block]
    small = folder / "config.json"
    small.write_text(json.dumps(content))
    graph, fused = folder / "model.mlir", folder / "fused.mlir"
    for arguments in (
            [tools / "qwen-import" / "qwen-import", small, "--tokens=512",
             "--max-documents=8", "-o", graph],
            [tools / "qwenc" / "qwenc", graph, "--target=sm_90a",
             "--stop-after=fusion", "-o", fused]):
        done = run(arguments)
        if done.returncode != 0:
            sys.exit(done.stderr)
    return fused


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=pathlib.Path, required=True)
    parser.add_argument("--groups", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--plans", type=pathlib.Path,
                        help="write the plans there and do not run them")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        source, before = options.groups, ()
        if options.model:
            source = fused_model(options.tools, options.model, folder)
            before = ("-qwen-lower-to-kernels",)
        out = options.plans or folder
        plans = {kind: out / f"{source.stem}.{kind}.fb" for kind in LOWERING}
        for kind, plan in plans.items():
            compile_groups(options.tools, source, kind, plan, before)
        if options.plans:
            return
        done = run([options.tools / "qwen-bench" / "qwen-bench", "groups", plans["gpu"],
                    f"--reference={plans['cpu']}", "--check-only"])
        sys.stdout.write(done.stdout)
        if "CUDA driver" in done.stderr or "no CUDA-capable device" in done.stderr:
            skip(done.stderr)
        if done.returncode != 0:
            sys.exit(done.stderr)


if __name__ == "__main__":
    main()
