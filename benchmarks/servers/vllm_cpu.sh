#!/bin/sh
# vLLM on the processor with a cache of 512 blocks of 32 tokens: vllm_cpu.sh PYTHON MODEL_FOLDER PORT
export VLLM_TARGET_DEVICE=cpu HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
exec "$(dirname "$0")/lowest_priority.sh" "$1" -m vllm.entrypoints.openai.api_server \
    --model "$2" --served-model-name tiny --host 127.0.0.1 --port "$3" \
    --enforce-eager --max-model-len 8192 --max-num-seqs 32 --enable-prompt-tokens-details \
    --block-size 32 --num-gpu-blocks-override 512 --gpu-memory-utilization 0.2
