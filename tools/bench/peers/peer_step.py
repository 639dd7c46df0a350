#!/usr/bin/env python3
"""Times training steps of the Hugging Face peer on one GPU; prints a line of JSON for each configuration.

usage: peer_step.py --documents 1602,841,... fla:packed:ckpt:4 compiled:packed:keep:12 ...
       peer_step.py --documents 1602,841,... --serve     (a configuration a line on standard input)

With "count" and a blank before a configuration its GPU operations are counted, by a profile, instead. Profile last: what
a profiler leaves behind may slow what follows.

A configuration is kernels:batch:activations:layers. Kernels: torch = transformers' fallback; fla = FLA's fused kernels,
otherwise eager; compiled = fla with torch.compile of each decoder layer, the strongest form PyTorch has today. Batch: packed
or padded. Activations: ckpt = checkpointing of each layer, keep = none recomputed. A step is forward, backward and fused
AdamW in bf16, without gradient clipping. Times are those between the ends of steps that follow each other without a wait.
"""

import gc
import sys
import time

import torch

import peer_model
import peer_options
import peer_timing
import peer_triton


def parse_configuration(text):
    parts = text.strip().split(":")
    if not peer_options.is_form(parts[:3]) or len(parts) != 4 or not parts[3].isdigit():
        raise ValueError(f"expected kernels:batch:activations:layers, found '{text.strip()}'")
    return *parts[:3], int(parts[3])


def compile_layers(model):
    """Each decoder layer on its own; a layer that falls back to eager is an error, not a slower peer."""
    torch._dynamo.config.recompile_limit = 64
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    for layer in model.model.layers:
        layer.compile(dynamic=False)


def count_gpu_operations(step):
    """Kernels and copies that one step launches."""
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        step()
        torch.cuda.synchronize()
    events = trace.profiler.kineto_results.events()
    return sum(event.device_type() == torch.autograd.DeviceType.CUDA for event in events)


def time_steps(step, steps):
    """Milliseconds between the ends of steps that are enqueued one after the other."""
    ends = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    ends[0].record()
    for end in ends[1:]:
        step()
        end.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) for before, after in zip(ends, ends[1:])]


def prepare(configuration, lengths):
    """The step of a configuration, run until everything is compiled, and what its results say of it."""
    kernels, form, activations, layers = configuration
    started = time.monotonic()
    peer_model.choose_kernels(fused=kernels != "torch")
    model = peer_model.build(layers, "varlen" if form == "packed" else "sdpa", activations == "ckpt")
    if kernels == "compiled":
        compile_layers(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    batch, real_tokens = (peer_model.packed_batch if form == "packed" else peer_model.padded_batch)(lengths)

    def step():
        model(**batch, use_cache=False).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(3):
        step()
    torch.cuda.synchronize()
    return step, {"side": "peer", "peer": "transformers", "kernels": kernels, "batch": form, "activations": activations,
                  "layers": layers, "tokens": sum(lengths), "real_tokens": real_tokens, "documents": lengths,
                  "warm_up_s": round(time.monotonic() - started, 2)}


def measure(configuration, lengths, steps):
    step, facts = prepare(configuration, lengths)
    torch.cuda.reset_peak_memory_stats()
    times = time_steps(step, steps)
    return {"bench": "step", **facts, **peer_timing.summary(times), "step_ms": [round(x, 3) for x in times],
            "peak_bytes": torch.cuda.max_memory_allocated(), "peak_reserved_bytes": torch.cuda.max_memory_reserved()}


def count(configuration, lengths):
    step, facts = prepare(configuration, lengths)
    return {"bench": "operations", **facts, "gpu_operations": count_gpu_operations(step)}


def answer(line, options):
    """The result of one line: a configuration to time, or "count" and one whose GPU operations to count."""
    word, _, rest = line.strip().partition(" ")
    try:
        if word == "count":
            return count(parse_configuration(rest), options.documents)
        return measure(parse_configuration(line), options.documents, options.steps)
    except (ValueError, RuntimeError) as error:
        return {"bench": "step", "side": "peer", "error": f"{line.strip()}: {str(error).splitlines()[0]}"}


def main():
    parser = peer_options.parser_of_steps(__doc__.splitlines()[0])
    parser.add_argument("--serve", action="store_true", help="read configurations from standard input")
    parser.add_argument("configurations", nargs="*", metavar="kernels:batch:activations:layers")
    options = parser.parse_args()
    if bool(options.configurations) == options.serve:
        parser.error("expected configurations, or --serve")
    if not torch.cuda.is_available():
        parser.error("torch finds no GPU")
    peer_triton.compile_in_parallel()
    peer_timing.emit(bench="versions", side="peer", **peer_timing.versions())
    for line in sys.stdin if options.serve else options.configurations:
        result = answer(line, options)
        # What belonged to the model is gone by now. Its memory is handed back before the result is: whoever reads that
        # measures next, perhaps in another process.
        gc.collect()
        torch.cuda.empty_cache()
        peer_timing.emit(**result)


if __name__ == "__main__":
    main()
