#!/usr/bin/env python3
"""Times the peers' kernels on one GPU, forward and backward; prints a line of JSON for each.

usage: peer_kernels.py --documents 1602,841,... [--models 27B,9B,0.8B] [--only attention,...]

Gated delta rule and short convolution of flash-linear-attention, FlashAttention-2 over packed documents and, where there is
one document, cuDNN's attention, both as torch carries them; linear + cross entropy in eager torch beside its three products
alone; fused AdamW. Each on the given documents and on one document of as many tokens. A line has the same keys as one of
`qwen-bench kernels`, and "launch" says whether the time is that of eager calls or of a replayed graph, whichever is less.
"""

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.varlen import varlen_attn

import peer_model
import peer_timing
import peer_triton
from peer_options import MEASURED, MODELS, command_line

VOCABULARY = peer_model.VOCABULARY


def leaf(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16).requires_grad_()


class Report:
    """Prints the times of one kernel after the other; what is asked for stands in `only`."""

    def __init__(self, only):
        self.only = only

    def wants(self, kernel):
        return not self.only or kernel in self.only

    def line(self, kernel, peer, times, **facts):
        peer_timing.emit(bench="kernel", side="peer", kernel=kernel, peer=peer, **facts, **times)

    def both(self, kernel, peer, call, inputs, **facts):
        """Forward without a tape, and backward alone from a forward that is kept."""
        try:
            with torch.no_grad():
                self.line(kernel, peer, peer_timing.time_call(call), **facts)
            out = call()
            grad = torch.randn_like(out)
            self.line(kernel + "_grad", peer,
                      peer_timing.time_call(lambda: torch.autograd.grad(out, inputs, grad, retain_graph=True)), **facts)
        except RuntimeError as error:  # not for this card, or out of memory
            peer_timing.emit(bench="kernel", side="peer", kernel=kernel, peer=peer,
                             error=f"{kernel} of {peer}: {str(error).splitlines()[0]}")


def time_gated_delta(report, lengths, key_heads, value_heads, **facts):
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule
    tokens, offsets = sum(lengths), peer_timing.boundaries(lengths, torch.int64)
    q, k, v = (leaf(1, tokens, heads, 128) for heads in (key_heads, key_heads, value_heads))
    g = (-torch.rand(1, tokens, value_heads, device="cuda") * 0.2).requires_grad_()
    beta = torch.rand(1, tokens, value_heads, device="cuda", dtype=torch.bfloat16).requires_grad_()

    def call():
        return chunk_gated_delta_rule(q, k, v, g=g, beta=beta, use_qk_l2norm_in_kernel=True, cu_seqlens=offsets)[0]

    report.both("gated_delta", "fla", call, [q, k, v, g, beta], shape=f"{key_heads}/{value_heads}x128", **facts)


def time_conv(report, lengths, channels, **facts):
    from fla.modules.conv.causal_conv1d import causal_conv1d
    x, weight, offsets = leaf(1, sum(lengths), channels), leaf(channels, 4), peer_timing.boundaries(lengths, torch.int64)

    def call():
        y = causal_conv1d(x, weight, None, activation="silu", cu_seqlens=offsets)
        return y[0] if isinstance(y, tuple) else y

    report.both("causal_conv1d", "fla", call, [x, weight], shape=f"{channels}", **facts)


def time_attention(report, lengths, query_heads, key_heads, **facts):
    tokens, offsets, longest = sum(lengths), peer_timing.boundaries(lengths), max(lengths)
    inputs = [leaf(tokens, heads, 256) for heads in (query_heads, key_heads, key_heads)]
    shape = f"{query_heads}/{key_heads}x256"
    report.both("attention", "flash-attention-2 varlen",
                lambda: varlen_attn(*inputs, offsets, offsets, longest, longest, window_size=(-1, 0)), inputs,
                shape=shape, **facts)
    if len(lengths) > 1:
        return
    heads_first = [x.detach().transpose(0, 1)[None].contiguous().requires_grad_() for x in inputs]
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        report.both("attention", "cudnn",
                    lambda: F.scaled_dot_product_attention(*heads_first, is_causal=True, enable_gqa=True), heads_first,
                    shape=shape, **facts)


def time_loss(report, tokens, width, **facts):
    hidden, head = leaf(tokens, width), leaf(VOCABULARY, width)
    target = torch.randint(0, VOCABULARY, (tokens,), device="cuda")

    def loss():
        return torch.autograd.grad(F.cross_entropy(F.linear(hidden, head).float(), target), [hidden, head])

    shape = f"{tokens}x{width}x{VOCABULARY}"
    report.line("linear_cross_entropy_grad", "eager", peer_timing.time_call(loss, 5, 1, graph=False), shape=shape, **facts)
    with torch.no_grad():
        logits = F.linear(hidden, head)
        products = peer_timing.time_call(lambda: (F.linear(hidden, head), logits @ head, logits.T @ hidden), 5, 1,
                                         graph=False)
    report.line("linear_cross_entropy_grad", "three products", products, shape=shape, **facts)


def time_adamw(report):
    parameters = [torch.randn(2**28, device="cuda", dtype=torch.bfloat16) for _ in range(4)]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    times = peer_timing.time_call(torch.optim.AdamW(parameters, lr=1e-5, fused=True).step, 8, 1, graph=False)
    report.line("adamw", "torch fused", times, shape=str(2**30), elements=2**30)


def main():
    parser = command_line.Parser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=command_line.whole_list(), required=True)
    parser.add_argument("--models", type=command_line.words(*MODELS), default=["27B"], help=",".join(MODELS))
    parser.add_argument("--only", type=command_line.words(*MEASURED), default=[], help=", ".join(MEASURED))
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("torch finds no GPU")
    torch.manual_seed(0)
    peer_model.allow_known_bad_triton()
    peer_triton.compile_in_parallel()
    peer_timing.emit(bench="versions", side="peer", **peer_timing.versions())
    report = Report(options.only)
    tokens = sum(options.documents)
    # Capture of a graph needs a stream of its own, also for the forward whose backward is captured.
    with torch.cuda.stream(torch.cuda.Stream()):
        for model in options.models:
            key_heads, value_heads, query_heads, kv_heads, width = MODELS[model]
            for lengths in (options.documents, [tokens]):
                facts = {"model": model, "tokens": tokens, "documents": len(lengths)}
                if report.wants("gated_delta"):
                    time_gated_delta(report, lengths, key_heads, value_heads, **facts)
                if report.wants("causal_conv1d"):
                    time_conv(report, lengths, (2 * key_heads + value_heads) * 128, **facts)
                if report.wants("attention"):
                    time_attention(report, lengths, query_heads, kv_heads, **facts)
            if report.wants("linear_cross_entropy"):
                time_loss(report, tokens, width, model=model, tokens=tokens)
        if report.wants("adamw"):
            time_adamw(report)


if __name__ == "__main__":
    main()
