"""Write the tiny model as a Hugging Face folder, for engines that do not read GGUF.

The folder holds config.json, generation_config.json, tokenizer.json, tokenizer_config.json and model.safetensors, and
nothing of it is downloaded. The same shape gives the same weights and ids as in GGUF. The tokenizer merges nothing: one id from FIRST_CHARACTER on is one character of text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from engine.tiny_model import CHAT_TEMPLATE, Shape, tiny_vocabulary, tiny_weights
from numpy.typing import NDArray

DEFAULT_SHAPE = Shape(heads=2, kv_heads=2)
"""vLLM's attention on processors takes heads of 32 dimensions and multiples of it."""
UNKNOWN, BEGIN, END = 0, 1, 2
NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
"""GGUF's names of tensors to Hugging Face's."""


def write_tiny_model_folder(folder: Path, shape: Shape = DEFAULT_SHAPE) -> None:
    """Write the model into `folder`, which is made."""
    folder.mkdir(parents=True)
    _write_safetensors(folder / "model.safetensors", dict(_tensors(shape)))
    _write_json(folder / "config.json", _configuration(shape))
    _write_json(folder / "generation_config.json", {"bos_token_id": BEGIN, "eos_token_id": END})
    _write_json(folder / "tokenizer.json", _tokenizer(shape))
    _write_json(folder / "tokenizer_config.json", _tokenizer_configuration(shape))


def _tensors(shape: Shape) -> list[tuple[str, NDArray[Any]]]:
    heads = {"attn_q": shape.heads, "attn_k": shape.kv_heads}
    found = []
    for name, weights in tiny_weights(shape):
        *block, part, _ = name.split(".")
        prefix = f"model.layers.{block[1]}." if block else ""
        if part in heads:
            weights = _as_halves(weights, heads[part])
        found.append((f"{prefix}{NAMES[part]}.weight", weights.astype(np.float16)))
    return found


def _as_halves(weights: NDArray[Any], heads: int) -> NDArray[Any]:
    """Reorder the rows of each head: GGUF rotates neighbouring rows together, Hugging Face the two halves of a head."""
    rows, columns = weights.shape
    return weights.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def _write_safetensors(path: Path, tensors: Mapping[str, NDArray[Any]]) -> None:
    """Write the format's 8-byte length, JSON head and raw arrays, which needs no package."""
    head: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, array in tensors.items():
        head[name] = {"dtype": "F16", "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in tensors.values():
            file.write(np.ascontiguousarray(array).tobytes())


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")


def _configuration(shape: Shape) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": shape.width,
        "intermediate_size": shape.feed_forward,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.width // shape.heads,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": shape.context,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": BEGIN,
        "eos_token_id": END,
        "tie_word_embeddings": False,
        "torch_dtype": "float16",
    }


def _tokenizer(shape: Shape) -> dict[str, object]:
    special = [
        {"id": token, "content": content, "special": True}
        | dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        for token, content in ((UNKNOWN, "<unk>"), (BEGIN, "<s>"), (END, "</s>"))
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": True,
            "ignore_merges": False,
            "vocab": {token: number for number, token in enumerate(tiny_vocabulary(shape))},
            "merges": [],
        },
    }


def _tokenizer_configuration(shape: Shape) -> dict[str, object]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "add_bos_token": False,
        "add_eos_token": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": shape.context,
        "chat_template": CHAT_TEMPLATE,
    }
