#!/bin/sh
# Dynamo's frontend before two mocked workers of 512 blocks of 16 tokens: dynamo_mockers.sh PYTHON MODEL_FOLDER PORT ROUTER
lowest=$(dirname "$0")/lowest_priority.sh
state=$(mktemp -d)
export DYN_DISCOVERY_BACKEND=file DYN_FILE_KV="$state" DYN_REQUEST_PLANE=tcp DYN_EVENT_PLANE=zmq HF_HUB_OFFLINE=1 \
    DYN_TCP_RPC_HOST=127.0.0.1 DYN_TCP_RESPONSE_STREAM_HOST=127.0.0.1 DYN_EVENT_PLANE_HOST=127.0.0.1 \
    DYN_SYSTEM_HOST=127.0.0.1
trap 'trap "" TERM; kill 0; rm -rf "$state"' TERM INT HUP # not ended by its own signal before the folder is gone
"$lowest" "$1" -m dynamo.mocker --model-path "$2" --model-name tiny --num-workers 2 --block-size 16 \
    --num-gpu-blocks-override 512 --max-num-seqs 32 &
"$lowest" "$1" -m dynamo.frontend --http-host 127.0.0.1 --http-port "$3" --router-mode "$4" &
wait
