"""What the peers share: versions, and times of calls on the GPU."""

import importlib.metadata
import json
import statistics

import torch

PACKAGES = ("torch", "triton", "transformers", "flash-linear-attention", "fla-core")


def versions():
    """Card, driver and package versions, to stand in every result."""
    found = {"card": torch.cuda.get_device_name(), "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def boundaries(lengths, dtype=torch.int32):
    """cu_seqlens of documents of these lengths, on the GPU."""
    return torch.tensor([0, *lengths], dtype=dtype).cumsum(0, dtype=dtype).cuda()


def summary(milliseconds):
    return {"median_ms": round(statistics.median(milliseconds), 4), "min_ms": round(min(milliseconds), 4),
            "max_ms": round(max(milliseconds), 4), "samples": len(milliseconds)}


def emit(**result):
    """One line of JSON, at once."""
    print(json.dumps(result), flush=True)


def time_events(call, warm_up, samples, per_sample):
    """Milliseconds a call; the calls of a sample lie between two device events."""
    for _ in range(warm_up):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(samples):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(per_sample):
            call()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / per_sample)
    return times


def time_call(call, samples=15, per_sample=4, graph=True):
    """Times a call as eager PyTorch runs it and, where it can be captured, as a replayed CUDA graph.

    The faster of the two is the result, so that a peer is never charged for its launches; both medians stand in it.
    """
    eager = summary(time_events(call, 3, samples, per_sample))
    result = eager | {"launch": "eager", "eager_ms": eager["median_ms"]}
    if not graph:
        return result
    captured = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(captured, stream=torch.cuda.current_stream()):
            call()
    except RuntimeError:  # the call waits for the device or copies from the host
        return result
    replayed = summary(time_events(captured.replay, 2, samples, per_sample))
    if replayed["median_ms"] < eager["median_ms"]:
        result |= replayed | {"launch": "graph"}
    return result | {"graph_ms": replayed["median_ms"]}
