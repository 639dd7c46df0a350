#!/usr/bin/env python3
"""Writes the token file of cpu_step: random documents of the peer's lengths, each token but a first one supervised.

usage: cpu_step_data.py -o bench.safetensors [--lengths 190,322,...] [--vocabulary 2048]
The default documents fill one pack of 2048 tokens exactly. Needs numpy and safetensors.
"""

from pathlib import Path

import numpy
from safetensors.numpy import save_file

from cpu_step_torch import DEFAULT_LENGTHS, command_line


def main():
    parser = command_line.Parser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--lengths", type=command_line.whole_list(), default=DEFAULT_LENGTHS)
    parser.add_argument("--vocabulary", type=command_line.whole(1, 2**31 - 1), default=2048)
    options = parser.parse_args()

    offsets = numpy.cumsum([0, *options.lengths], dtype=numpy.int64)
    count = int(offsets[-1])
    mask = numpy.ones(count, dtype=numpy.uint8)
    mask[offsets[:-1]] = 0
    tokens = numpy.random.default_rng(0).integers(0, options.vocabulary, count, dtype=numpy.int32)
    metadata = {
        "format": "qwen-tokens-1",
        "tokenizer_sha256": "0" * 64,  # there is no tokenizer
        "vocab_size": options.vocabulary,
        "documents": len(options.lengths),
        "tokens": count,
        "supervised_tokens": int(mask.sum()),
        "max_document_tokens": max(options.lengths),
    }
    save_file({"tokens": tokens, "document_offsets": offsets, "loss_mask": mask}, options.output,
              metadata={key: str(value) for key, value in metadata.items()})


if __name__ == "__main__":
    main()
