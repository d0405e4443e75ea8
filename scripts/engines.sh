#!/bin/sh
# Install an inference engine in a virtual environment of its own, for the benchmarks that compare with real engines.
#
#     scripts/engines.sh vllm|dynamo FOLDER
#
# Versions are those of scripts/engines/. Does nothing, and asks no package index, where FOLDER holds them already.
# What cannot be done is told in one sentence on stderr, with exit code 1; the benchmarks then go on without that engine.
# vLLM takes 3.4 GB with PyTorch for processors (PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS name a source of it; PyPI's own
# is for CUDA and larger), Dynamo 0.7 GB.

set -u
cd "$(dirname "$0")/.." || exit 1
engine=$1
venv=$2
stamp=$venv/engine.stamp
log=$venv/install.log

fail() {
    echo "$engine is left out: $*" >&2
    exit 1
}

case "$engine" in
vllm)
    version=3.11
    lists="scripts/engines/vllm.txt scripts/engines/vllm-wheel.txt" ;;
dynamo)
    version=3.12
    lists=scripts/engines/dynamo.txt ;;
*)
    fail "expected vllm or dynamo" ;;
esac
# shellcheck disable=SC2086
made_from=$(cat $lists | cksum)

[ "$(cat "$stamp" 2>/dev/null)" = "$made_from" ] && exit 0
[ "$(uname -sm)" = "Linux x86_64" ] || fail "its package is for Linux on x86_64, and this is $(uname -sm)"
python=$(scripts/pythons.sh 2>/dev/null | sed -n "s/^$version //p")
[ -n "$python" ] || fail "it needs Python $version, which was not found"

pip() {
    PIP_RETRIES=${PIP_RETRIES:-2} "$venv/bin/python" -m pip --disable-pip-version-check "$@" >>"$log" 2>&1 </dev/null ||
        fail "pip could not install it: $(grep -i "error" "$log" | tail -n 1) (all it said is in $log)"
}

echo "installing $engine into $venv with Python $version" >&2
"$python" -m venv "$venv" >/dev/null 2>&1 || fail "'$python -m venv $venv' failed"
: >"$log"
[ "$engine" = vllm ] && pip install "torch==2.13.0"
for list in $lists; do
    pip install --no-deps --requirement "$list"
done
echo "$made_from" >"$stamp"
