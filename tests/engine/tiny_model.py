"""Write a Llama-shaped model with random weights as GGUF: small, offline, the same bytes for the same shape.

The vocabulary is 0 <unk>, 1 <s>, 2 </s>, the 256 byte tokens, the space mark, then one token a CJK or Hangul character.
There are no merges, so any list of ids from FIRST_CHARACTER on survives a way through text. Special and byte tokens
have an output row of zeros: a greedy run neither ends early nor emits broken UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FIRST_CHARACTER = 260
CHARACTERS = ((0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x3400, 0x4DBF))
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}:{{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)

Matrix = NDArray[np.float16]


@dataclass(frozen=True)
class Shape:
    """The size of the model; the default has 4.3 M parameters and prefills tens of thousands of tokens a second."""

    layers: int = 2
    width: int = 64
    heads: int = 4
    kv_heads: int = 4
    feed_forward: int = 128
    vocabulary: int = 32768
    context: int = 131072
    seed: int = 0


def write_tiny_model(path: Path, shape: Shape = Shape()) -> None:
    """Write the model to `path` as GGUF in half precision."""
    import gguf

    writer = gguf.GGUFWriter(str(path), "llama")
    _add_architecture(writer, shape)
    _add_tokenizer(writer, shape, gguf.TokenType)
    for name, weights in tiny_weights(shape):
        writer.add_tensor(name, weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tiny_vocabulary(shape: Shape) -> list[str]:
    """Return the text of each id."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581"]
    everything = chain.from_iterable(range(first, last + 1) for first, last in CHARACTERS)
    return tokens + [chr(code) for code in islice(everything, shape.vocabulary - len(tokens))]


def _add_architecture(writer: Any, shape: Shape) -> None:
    import gguf

    writer.add_name("tiny-random-llama")
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_rope_dimension_count(shape.width // shape.heads)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(shape.vocabulary)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)


def _add_tokenizer(writer: Any, shape: Shape, kinds: Any) -> None:
    tokens = tiny_vocabulary(shape)
    types = [kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL] + [kinds.BYTE] * 256
    types += [kinds.NORMAL] * (len(tokens) - len(types))
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([token.encode() for token in tokens])
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(types)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def tiny_weights(shape: Shape) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the tensors by their names in GGUF."""
    random = np.random.default_rng(shape.seed)
    width, kv_width = shape.width, shape.width // shape.heads * shape.kv_heads

    def matrix(rows: int, columns: int, scale: float | None = None) -> Matrix:
        return (random.standard_normal((rows, columns)) * (scale or columns**-0.5)).astype(np.float16)

    yield "token_embd.weight", matrix(shape.vocabulary, width, 1.0)
    for layer in range(shape.layers):
        block = f"blk.{layer}."
        yield block + "attn_norm.weight", np.ones(width, np.float32)
        yield block + "attn_q.weight", matrix(width, width)
        yield block + "attn_k.weight", matrix(kv_width, width)
        yield block + "attn_v.weight", matrix(kv_width, width)
        yield block + "attn_output.weight", matrix(width, width)
        yield block + "ffn_norm.weight", np.ones(width, np.float32)
        yield block + "ffn_gate.weight", matrix(shape.feed_forward, width)
        yield block + "ffn_up.weight", matrix(shape.feed_forward, width)
        yield block + "ffn_down.weight", matrix(width, shape.feed_forward)
    yield "output_norm.weight", np.ones(width, np.float32)
    head = matrix(shape.vocabulary, width, 2.0 * width**-0.5)
    head[:FIRST_CHARACTER] = 0
    yield "output.weight", head
