#!/usr/bin/env python3
"""Times attention of head dimension 256 in torch on the GPU: the peer of `AttentionCudaTest time`.

FlashAttention-2 varlen as torch carries it, and cuDNN's kernel where there is one document (it takes no boundaries here).
Prints one JSON line a shape and kernel: {"heads": "24/4", "documents": 7, "kernel": ..., "pass": ..., "ms": [median, least,
most]}. Packages: torch with CUDA.
"""

import argparse
import json
import statistics

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

HEADS = [(24, 4), (16, 4), (8, 2)]
PACKS = [[1170, 1171, 1169, 1173, 1168, 1172, 1169], [8192]]
DIM = 256


def measure(function, repeats):
    for _ in range(4):
        function()
    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        function()
        function()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 2)
    return [round(x, 4) for x in (statistics.median(times), min(times), max(times))]


def report(heads, lengths, kernel, name, times):
    print(json.dumps({"heads": "%d/%d" % heads, "documents": len(lengths), "kernel": kernel, "pass": name, "ms": times}),
          flush=True)


def flash(heads, lengths, q, k, v, dout, repeats):
    boundaries = torch.tensor([0] + lengths, device="cuda", dtype=torch.int32).cumsum(0, dtype=torch.int32)
    longest, scale = max(lengths), DIM**-0.5
    varlen = (boundaries, boundaries, longest, longest, 0.0, True)

    def forward():
        return torch.ops.aten._flash_attention_forward(q, k, v, *varlen, False, scale=scale)

    out, lse, state, unused, _ = forward()

    def backward():
        return torch.ops.aten._flash_attention_backward(dout, q, k, v, out, lse, *varlen, state, unused, scale=scale)

    report(heads, lengths, "flash-attention-2 varlen", "forward", measure(forward, repeats))
    report(heads, lengths, "flash-attention-2 varlen", "backward", measure(backward, repeats))


def cudnn(heads, lengths, q, k, v, dout, repeats):
    q, k, v, dout = (x.transpose(0, 1).unsqueeze(0).detach() for x in (q, k, v, dout))
    inputs = [x.requires_grad_() for x in (q, k, v)]

    def forward():
        return torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=True, enable_gqa=True)

    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        with torch.no_grad():
            report(heads, lengths, "cudnn", "forward", measure(forward, repeats))
        out = forward()
        backward = measure(lambda: torch.autograd.grad(out, inputs, dout, retain_graph=True), repeats)
        report(heads, lengths, "cudnn", "backward", backward)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=20)
    repeats = parser.parse_args().repeats
    if not torch.cuda.is_available():
        parser.error("torch finds no GPU")
    torch.manual_seed(0)
    for heads in HEADS:
        for lengths in PACKS:
            shapes = [heads[0], heads[1], heads[1], heads[0]]
            q, k, v, dout = (torch.randn(sum(lengths), n, DIM, device="cuda", dtype=torch.bfloat16) for n in shapes)
            flash(heads, lengths, q, k, v, dout, repeats)
            if len(lengths) == 1:
                cudnn(heads, lengths, q, k, v, dout, repeats)


if __name__ == "__main__":
    main()
