#!/usr/bin/env python3
"""Times training steps of the Hugging Face peer on several GPUs under FSDP2; rank 0 prints a line of JSON for each depth.

usage: torchrun --standalone --nproc-per-node 2 peer_fsdp.py --documents 4500,2000,... 8:ckpt 16:ckpt

A configuration is layers:activations; ckpt = checkpointing of each decoder layer, keep = none recomputed. Fused kernels of
flash-linear-attention, packed documents, a unit of FSDP2 for each decoder layer and one for embedding, norm and head, bf16
parameters and AdamW states, gradients reduced in float32. Every rank trains a pack of these documents. A step is forward,
backward, clipping of the global norm and fused AdamW. Times are those between the ends of steps that follow each other
without a wait, on rank 0.
"""

import gc
import os
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import peer_model
import peer_options
import peer_step
import peer_timing
import peer_triton


def prepare(configuration, lengths):
    """The step of a configuration, run until everything is compiled, and what its results say of it."""
    layers, activations = configuration
    started = time.monotonic()
    peer_model.choose_kernels(fused=True)
    model = peer_model.build(layers, "varlen", activations == "ckpt")
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.model.layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    batch, real_tokens = peer_model.packed_batch(lengths)

    def step():
        model(**batch, use_cache=False).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(3):
        step()
    torch.cuda.synchronize()
    return step, {"side": "peer", "peer": "transformers + FSDP2", "kernels": "fla", "batch": "packed",
                  "activations": activations, "layers": layers, "ranks": dist.get_world_size(), "tokens": sum(lengths),
                  "real_tokens": real_tokens, "documents": lengths, "warm_up_s": round(time.monotonic() - started, 2)}


def measure(configuration, lengths, steps):
    step, facts = prepare(configuration, lengths)
    torch.cuda.reset_peak_memory_stats()
    dist.barrier()
    times = peer_step.time_steps(step, steps)
    return {"bench": "step", **facts, **peer_timing.summary(times), "step_ms": [round(x, 3) for x in times],
            "peak_bytes": torch.cuda.max_memory_allocated(), "peak_reserved_bytes": torch.cuda.max_memory_reserved()}


def answer(configuration, options):
    """The result of a configuration. Where one rank runs out of memory the others wait for it: all end with it."""
    try:
        return measure(configuration, options.documents, options.steps)
    except RuntimeError as error:
        text = f"{configuration[0]}:{configuration[1]} on rank {dist.get_rank()}: {str(error).splitlines()[0]}"
        peer_timing.emit(bench="step", side="peer", peer="transformers + FSDP2", ranks=dist.get_world_size(), error=text)
        os._exit(1)


def main():
    parser = peer_options.parser_of_steps(__doc__.splitlines()[0])
    parser.add_argument("configurations", nargs="+", type=peer_options.depth, metavar="layers:activations")
    options = parser.parse_args()
    if not torch.cuda.is_available() or "LOCAL_RANK" not in os.environ:
        parser.error("expected GPUs, and torchrun to start this program")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank))
    peer_triton.compile_in_parallel()
    first = dist.get_rank() == 0
    if first:
        peer_timing.emit(bench="versions", side="peer", ranks=dist.get_world_size(),
                         nccl=str(torch.cuda.nccl.version()), **peer_timing.versions())
    for configuration in options.configurations:
        result = answer(configuration, options)
        gc.collect()
        torch.cuda.empty_cache()
        if first:
            peer_timing.emit(**result)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
