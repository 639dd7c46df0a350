#!/usr/bin/env python3
"""Checks what the demo trained.

The held-out loss must be at least one nat a token below that of a model which
knows nothing but how often each token occurs in the training text, so the model
has learned from what stands before a token. The checkpoint, read again, must
give the same loss to the last bit.

    check_learning.py DIR    DIR holds {train,eval}.safetensors,
                             run/metrics.jsonl, reloaded.json
"""

import json
import sys
from pathlib import Path

import numpy
from safetensors import safe_open

MARGIN = 1.0


def supervised_tokens(path: Path):
    """Tokens that count in the loss, and the size of the vocabulary."""
    with safe_open(path, "numpy") as file:
        mask = file.get_tensor("loss_mask").astype(bool)
        vocab_size = int(file.metadata()["vocab_size"])
        return file.get_tensor("tokens")[mask], vocab_size


def unigram_loss(train: Path, held_out: Path) -> float:
    """Cross entropy of the held-out tokens under the training frequencies."""
    tokens, vocab_size = supervised_tokens(train)
    # One more of each token, so that none is impossible.
    counts = numpy.bincount(tokens, minlength=vocab_size) + 1
    log_probability = numpy.log(counts / counts.sum())
    tokens, _ = supervised_tokens(held_out)
    return float(-log_probability[tokens].mean())


def last_held_out_loss(metrics: Path) -> float:
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    losses = [row["loss"] for row in rows if row["group"] == "eval"]
    if not losses:
        sys.exit(f"check_learning: error: no evaluation in {metrics}")
    return losses[-1]


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: check_learning.py DIR")
    folder = Path(sys.argv[1])
    unigram = unigram_loss(
        folder / "train.safetensors", folder / "eval.safetensors"
    )
    loss = last_held_out_loss(folder / "run" / "metrics.jsonl")
    reloaded = json.loads((folder / "reloaded.json").read_text())["loss"]
    print(f"held-out loss, nats a token:      {loss:.4f}")
    print(f"  of the token frequencies alone: {unigram:.4f}")
    print(f"  of the checkpoint, read again:  {reloaded:.4f}")
    # Written so that NaN fails.
    if not loss <= unigram - MARGIN:
        sys.exit(
            f"check_learning: error: expected a held-out loss of at most "
            f"{unigram - MARGIN:.4f}"
        )
    if reloaded != loss:
        sys.exit(
            f"check_learning: error: expected {loss!r} of the checkpoint read "
            f"again, found {reloaded!r}"
        )


if __name__ == "__main__":
    main()
