"""What the peers can be asked for, and the options that say so. Needs no torch: `compare` looks here before it starts them."""

import argparse
import sys
from pathlib import Path

# There, or beside the folder of benchmarks in a bundle.
sys.path.append(str(Path(__file__).resolve().parents[2]))
import command_line  # noqa: E402

KERNELS = ("torch", "fla", "compiled")
BATCHES = ("packed", "padded")
ACTIVATIONS = ("ckpt", "keep")
# Key and value heads of the gated delta rule, query and key heads of attention, width.
MODELS = {"27B": (16, 48, 24, 4, 5120), "9B": (16, 32, 16, 4, 4096), "0.8B": (16, 16, 8, 2, 1024)}
MEASURED = ("gated_delta", "causal_conv1d", "attention", "linear_cross_entropy", "adamw")


def is_form(parts):
    """Kernels, batch and activations."""
    return len(parts) == 3 and all(part in allowed for part, allowed in zip(parts, (KERNELS, BATCHES, ACTIVATIONS)))


def forms(text):
    """Parses "fla:packed:ckpt,compiled:packed:keep"."""
    found = text.split(",")
    for form in found:
        if not is_form(form.split(":")):
            raise argparse.ArgumentTypeError(
                f"expected {'|'.join(KERNELS)}:{'|'.join(BATCHES)}:{'|'.join(ACTIVATIONS)}, found '{form}'")
    return found


def depth(text):
    """Parses "8:ckpt"."""
    layers, _, activations = text.partition(":")
    if not (layers.isdigit() and int(layers) > 0) or activations not in ACTIVATIONS:
        raise argparse.ArgumentTypeError(f"expected layers:ckpt or layers:keep, found '{text}'")
    return int(layers), activations


def parser_of_steps(description):
    """The options of the programs that time steps."""
    parser = command_line.Parser(description=description)
    parser.add_argument("--documents", type=command_line.whole_list(), required=True, help="lengths of a pack's documents")
    parser.add_argument("--steps", type=command_line.whole(), default=6, help="timed steps of each configuration")
    return parser
