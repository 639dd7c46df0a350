"""The peer's model: Qwen3.5's text model of Hugging Face transformers at the 27B's widths, with a chosen number of layers.

Which kernels run is set by hand, so that no silent fallback can happen. Packages: torch with CUDA, transformers >= 5.17,
flash-linear-attention with fla-core.
"""

import functools
import warnings

import torch
from torch.nn.attention.varlen import varlen_attn
from transformers import AttentionInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.models.qwen3_5 import modeling_qwen3_5 as modeling
from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5TextConfig

import peer_timing

TORCH_RULE = modeling.torch_chunk_gated_delta_rule
TORCH_CONV = modeling.causal_conv1d_fn
VOCABULARY = 248320


def allow_known_bad_triton():
    """Lets FLA run its gated backward on Hopper with Triton 3.4 to 3.7.0, which it refuses as the results are wrong.

    (FLA issue 640.) Times still mean something, numbers do not: such a process is no numerical reference.
    """
    from fla.ops.common import chunk_o
    if getattr(chunk_o, "TRITON_ABOVE_3_7_1", True) is False:
        warnings.warn("FLA's gated backward is numerically wrong with this Triton: times only")
        chunk_o.TRITON_ABOVE_3_7_1 = True


@functools.cache
def fla_kernels():
    """FLA's gated delta rule and convolution behind the signatures that transformers calls.

    Made once: compiled code is kept as long as the functions that it calls are the same objects.
    """
    allow_known_bad_triton()
    from fla.modules.conv.causal_conv1d import causal_conv1d
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    def rule(q, k, v, g, beta, initial_state=None, output_final_state=False, cu_seqlens=None, **_):
        return chunk_gated_delta_rule(q, k, v, g=g, beta=beta, initial_state=initial_state,
                                      output_final_state=output_final_state, use_qk_l2norm_in_kernel=True,
                                      cu_seqlens=cu_seqlens)

    def conv(x, weight, bias=None, activation=None, cu_seq_lens_q=None, **_):
        y = causal_conv1d(x.transpose(1, 2).contiguous(), weight.contiguous(), bias, activation=activation,
                          cu_seqlens=cu_seq_lens_q)
        return (y[0] if isinstance(y, tuple) else y).transpose(1, 2)

    return rule, conv


def choose_kernels(fused):
    """Gated delta rule and short convolution: FLA's Triton kernels, or transformers' torch fallback."""
    torch_kernels = [getattr(kernel, "__wrapped__", kernel) for kernel in (TORCH_RULE, TORCH_CONV)]
    modeling.torch_chunk_gated_delta_rule, modeling.causal_conv1d_fn = fla_kernels() if fused else torch_kernels


def varlen_attention(module, q, k, v, mask, scaling=None, cu_seq_lens_q=None, max_length_q=None, **_):
    """FlashAttention-2 over packed documents, as torch carries it."""
    batch, _heads, tokens, dim = q.shape
    flat = [x.transpose(1, 2).reshape(batch * tokens, x.shape[1], dim) for x in (q, k, v)]
    out = varlen_attn(*flat, cu_seq_lens_q, cu_seq_lens_q, max_length_q, max_length_q, scale=scaling,
                      window_size=(-1, 0))
    return out.reshape(batch, tokens, -1, dim), None


AttentionInterface.register("varlen", varlen_attention)
ALL_MASK_ATTENTION_FUNCTIONS.register("varlen", lambda *_, **__: None)


def build(layers, attention, checkpoint):
    """The model in bf16 with random weights, on the GPU, ready to train."""
    config = Qwen3_5TextConfig(
        hidden_size=5120, intermediate_size=17408, num_hidden_layers=layers, num_attention_heads=24,
        num_key_value_heads=4, head_dim=256, linear_num_value_heads=48, linear_num_key_heads=16,
        vocab_size=VOCABULARY,
        rope_parameters={"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25,
                         "mrope_section": [11, 11, 10], "mrope_interleaved": True})
    config._attn_implementation = attention
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = modeling.Qwen3_5ForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    model.config._attn_implementation = model.model.config._attn_implementation = attention
    model.train()
    if checkpoint:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


def packed_batch(lengths):
    """One row with all documents; returns it and its number of real tokens."""
    tokens = sum(lengths)
    ids = torch.randint(0, VOCABULARY, (1, tokens), device="cuda")
    offsets = peer_timing.boundaries(lengths)
    positions = torch.cat([torch.arange(length) for length in lengths])[None].cuda()
    batch = {"input_ids": ids, "labels": ids.clone(), "position_ids": positions, "cu_seq_lens_q": offsets,
             "cu_seq_lens_k": offsets, "max_length_q": max(lengths), "max_length_k": max(lengths)}
    return batch, tokens


def padded_batch(lengths):
    """A rectangle of as many tokens, of which 64 % are real: what training without packing feeds."""
    rows, tokens = 4, sum(lengths)
    width = tokens // rows
    real = [width, int(width * 0.7), int(width * 0.5), int(width * 0.36)]
    ids = torch.randint(0, VOCABULARY, (rows, width), device="cuda")
    mask = torch.zeros(rows, width, dtype=torch.long, device="cuda")
    labels = ids.clone()
    for row, length in enumerate(real):
        mask[row, :length] = 1
        labels[row, length:] = -100
    return {"input_ids": ids, "labels": labels, "attention_mask": mask}, sum(real)
