#!/usr/bin/env python3
"""Prints the held-out loss, in nats a token, of a model that knows nothing but
how often each token occurs in the training text.

A model whose loss is clearly lower has learned from what stands before a token.

    unigram_entropy.py train.safetensors eval.safetensors
"""

import sys

import numpy
from safetensors import safe_open


def supervised_tokens(path: str):
    """Tokens that count in the loss, and the size of the vocabulary."""
    with safe_open(path, "numpy") as file:
        mask = file.get_tensor("loss_mask").astype(bool)
        vocab_size = int(file.metadata()["vocab_size"])
        return file.get_tensor("tokens")[mask], vocab_size


def main():
    if len(sys.argv) != 3:
        sys.exit(
            "usage: unigram_entropy.py train.safetensors eval.safetensors"
        )
    train, vocab_size = supervised_tokens(sys.argv[1])
    held_out, _ = supervised_tokens(sys.argv[2])
    # One more of each token, so that none is impossible.
    counts = numpy.bincount(train, minlength=vocab_size) + 1
    log_probability = numpy.log(counts / counts.sum())
    print(f"{-log_probability[held_out].mean():.4f}")


if __name__ == "__main__":
    main()
