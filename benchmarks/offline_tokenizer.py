"""Train a small tokenizer on the text that AIPerf ships, so that it needs no network; run in AIPerf's environment.

A byte-level BPE of 32,000 tokens with a chat template of two tokens a message, saved as a folder that transformers and
`aiperf --tokenizer` load.

Run: .venv-aiperf/bin/python -m benchmarks.offline_tokenizer FOLDER
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

VOCABULARY = 32_000
SPECIAL = ("<|bos|>", "<|eos|>", "<|pad|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>")
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def shipped_text() -> list[str]:
    """Return the files with text and code in AIPerf's package."""
    spec = find_spec("aiperf")
    if spec is None or spec.origin is None:
        raise SystemExit(
            "aiperf is not installed here: run scripts/programs.sh aiperf FOLDER and this with the Python it prepares"
        )
    folder = Path(spec.origin).parent
    return sorted(str(path) for path in folder.rglob("*") if path.suffix in {".py", ".txt", ".md"})


def train(folder: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=list(SPECIAL), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train(shipped_text(), trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=SPECIAL[0], eos_token=SPECIAL[1], pad_token=SPECIAL[2]
    )
    fast.chat_template = TEMPLATE
    fast.save_pretrained(str(folder))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: offline_tokenizer.py FOLDER")
    train(Path(sys.argv[1]))
