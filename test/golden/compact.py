"""Large tensors in few bytes: initial weights that are a function of a seed, and sketches of results.

Both are integers from Philox4x32-10 (include/qwen/Support/Random.h) and at most one rounding after them, so that
test/e2e/DrawnWeights.cpp and test/e2e/Sketch.cpp compute the same bits without a library's logarithm or generator.
"""

import functools

import numpy as np
import torch

WIDTH = 512  # elements of a sketch
INITIALIZATION = 1  # RandomUse::Initialization
STREAM = 1  # the runtime's own initialisation draws from stream 0
SIGMA = 107020  # the standard deviation of `normals`, as an integer


def philox(index, a, b, key0, key1):
    """Four arrays of 32 random bits for each 64-bit index, as uint64."""
    mask, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    index = np.asarray(index, dtype=np.uint64)
    word = [index & mask, index >> shift, np.full_like(index, a), np.full_like(index, b)]
    for _ in range(10):
        p, q = np.uint64(0xD2511F53) * word[0], np.uint64(0xCD9E8D57) * word[2]
        word = [(q >> shift) ^ word[1] ^ np.uint64(key0), q & mask, (p >> shift) ^ word[3] ^ np.uint64(key1), p & mask]
        key0, key1 = (key0 + 0x9E3779B9) & 0xFFFFFFFF, (key1 + 0xBB67AE85) & 0xFFFFFFFF
    return word


def hash_name(name):
    """FNV-1a of 32 bits."""
    value = 2166136261
    for byte in name.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value


def normals(words):
    """Integers of mean 0 and standard deviation SIGMA: twice the sum of eight halves of words, centred."""
    total = sum((word & np.uint64(0xFFFF)) + (word >> np.uint64(16)) for word in words)
    return 2 * total.astype(np.int64) - 8 * 0xFFFF


def draw(name, shape, seed, key_rows):
    """One tensor: bf16 numbers in float32. What make_golden.draw does, except that A_log is uniform.

    The first key_rows rows of in_proj_qkv and conv1d, those of queries, become 0.3 of themselves plus 0.95 of the keys'.
    """
    count = int(np.prod(shape))
    words = philox(np.arange(count), STREAM, hash_name(name), seed, INITIALIZATION)
    integers = normals(words)
    if name.endswith("linear_attn.A_log"):
        integers, scale = -words[0].astype(np.int64), 4.6 * 2.0**-32
    elif name.endswith("linear_attn.dt_bias"):
        scale = 1.0 / SIGMA
    elif name.endswith("linear_attn.norm.weight"):
        integers, scale = integers + 4 * SIGMA, 0.25 / SIGMA
    elif len(shape) == 1:
        scale = 0.25 / SIGMA
    elif name.endswith("conv1d.weight"):
        scale = 0.5 / SIGMA
    else:
        scale = 1.0 / np.sqrt(float(shape[-1])) / SIGMA
    if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight")):
        scale = 0.5 * scale
    if name.endswith(("in_proj_qkv.weight", "conv1d.weight")):
        rows = key_rows * (count // shape[0])
        integers = 20 * integers
        integers[:rows] = 6 * (integers[:rows] // 20) + 19 * (integers[rows : 2 * rows] // 20)
        scale = scale / 20
    weight = torch.from_numpy(integers.astype(np.float64) * scale).float().bfloat16().float()
    return weight.reshape(shape)


@functools.lru_cache(maxsize=None)
def sketch_hash(count):
    words = philox(np.arange(count), 0, 0, 0, 0)
    buckets = (words[0] % np.uint64(WIDTH)).astype(np.int64)
    return torch.from_numpy(buckets), torch.from_numpy(1.0 - 2.0 * (words[1] & np.uint64(1)).astype(np.float64))


def sketch(tensor):
    """Every element, with a random sign, added to one of WIDTH sums; a tensor of at most WIDTH elements is itself.

    Linear, so that the sketch of a difference is the difference of sketches, and its squared norm is that of the tensor
    times a number of mean 1 and variance below 2 / WIDTH.
    """
    if tensor.numel() <= WIDTH:
        return tensor
    bucket, sign = sketch_hash(tensor.numel())
    sums = torch.zeros(WIDTH, dtype=torch.float64)
    return sums.index_add_(0, bucket, tensor.double().flatten() * sign).float()
