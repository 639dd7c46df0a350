#!/usr/bin/env python3
"""Times a training step of a Qwen 3.5 config in transformers on the CPU: the peer of cpu_step.

Prints one JSON line, {"step_ms": [...], ...}. A step is forward, backward, clipping and AdamW in float32 over all
documents. torch's fallback kernels know no packing, so the documents run as separate sequences (`separate`), as a
right-padded batch (`padded`), or as batches of documents of like length (`buckets`); `auto` tries all three and times the
fastest. Packages: tools/requirements-golden.txt.
"""

import json
import os
import statistics
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import command_line  # noqa: E402

# Eight ragged documents, 2048 tokens.
DEFAULT_LENGTHS = [190, 322, 256, 141, 371, 256, 233, 279]


def parse_arguments():
    root = Path(__file__).resolve().parents[2]
    parser = command_line.Parser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", type=Path, default=root / "models/configs/tiny.json")
    parser.add_argument("--lengths", type=command_line.whole_list(), default=DEFAULT_LENGTHS,
                        help="document lengths, comma separated")
    parser.add_argument("--tokens", type=command_line.whole(), help="check that the lengths add up to this")
    parser.add_argument("--threads", type=command_line.whole(1, 4096), default=os.cpu_count())
    parser.add_argument("--form", choices=["auto", "separate", "padded", "buckets"], default="auto")
    parser.add_argument("--attention", choices=["sdpa", "eager"], default="sdpa")
    parser.add_argument("--compile", action="store_true", help="torch.compile each decoder layer")
    parser.add_argument("--warmup", type=command_line.whole(0), default=3)
    parser.add_argument("--steps", type=command_line.whole(), default=10)
    options = parser.parse_args()
    if options.tokens not in (None, sum(options.lengths)):
        parser.error(f"--lengths add up to {sum(options.lengths)}, --tokens says {options.tokens}")
    return options


def build_model(options):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    config = AutoConfig.from_pretrained(options.config)
    config = getattr(config, "text_config", None) or config
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation=options.attention)
    if options.compile:
        for layer in model.model.layers:
            layer.compile(dynamic=False)
    return model.train()


def group(lengths, form):
    """Splits the documents into the batches of a form."""
    if form == "separate":
        return [[n] for n in lengths]
    if form == "padded":
        return [lengths]
    # A document joins the bucket while it fills at least 3/4 of the bucket's width.
    buckets = []
    for n in sorted(lengths, reverse=True):
        if not buckets or n < 0.75 * buckets[-1][0]:
            buckets.append([])
        buckets[-1].append(n)
    return buckets


def make_batches(lengths, form, vocabulary):
    """Batches (tokens, shifted labels); right padding needs no mask in a causal model whose padded labels are ignored."""
    import torch

    generator = torch.Generator().manual_seed(0)
    batches = []
    for rows in group(lengths, form):
        tokens = torch.randint(0, vocabulary, (len(rows), max(rows)), generator=generator)
        labels = torch.full_like(tokens, -100)
        for row, n in enumerate(rows):
            labels[row, : n - 1] = tokens[row, 1:n]
        batches.append((tokens, labels))
    return batches


def make_step(model, batches):
    import torch
    import torch.nn.functional as F

    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}], lr=1e-4, fused=True)
    supervised = sum(int((labels != -100).sum()) for _, labels in batches)

    def step():
        for tokens, labels in batches:
            logits = model(input_ids=tokens, use_cache=False).logits
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum")
            (loss / supervised).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def time_steps(step, warmup, steps):
    for _ in range(warmup):
        step()
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def main():
    options = parse_arguments()
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.set_num_threads(options.threads)
    forms = ["separate", "padded", "buckets"] if options.form == "auto" else [options.form]
    model = build_model(options)
    steps = {form: make_step(model, make_batches(options.lengths, form, model.vocab_size)) for form in forms}
    trial = {form: min(time_steps(step, 1, 2)) for form, step in steps.items()} if len(forms) > 1 else {forms[0]: 0.0}
    form = min(trial, key=trial.get)
    times = time_steps(steps[form], options.warmup, options.steps)
    print(json.dumps({
        "peer": f"transformers {transformers.__version__}, torch {torch.__version__}",
        "form": form, "attention": options.attention, "compile": options.compile, "threads": options.threads,
        "tokens": sum(options.lengths), "documents": len(options.lengths),
        "trial_ms": {name: round(ms, 1) for name, ms in trial.items()},
        "median_ms": round(statistics.median(times), 2), "min_ms": round(min(times), 2),
        "max_ms": round(max(times), 2), "step_ms": [round(ms, 2) for ms in times],
    }))


if __name__ == "__main__":
    main()
