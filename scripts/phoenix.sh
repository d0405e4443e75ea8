#!/bin/sh
# Install Phoenix, an open tracing backend, in a virtual environment of its own, for tests and an example of spans.
#
#     scripts/phoenix.sh FOLDER
#
# Versions are those of scripts/phoenix.txt (0.9 GB). Does nothing, and asks no package index, where FOLDER holds them
# already. PYTHON names the Python to use; without it the first that scripts/pythons.sh finds is used.
# What cannot be done is told in one sentence on stderr, with exit code 1.

set -u
cd "$(dirname "$0")/.." || exit 1
venv=$1
stamp=$venv/phoenix.stamp
log=$venv/install.log
made_from=$(cksum <scripts/phoenix.txt)

fail() {
    echo "Phoenix is left out: $*" >&2
    exit 1
}

[ "$(cat "$stamp" 2>/dev/null)" = "$made_from" ] && exit 0
python=${PYTHON:-$(scripts/pythons.sh 2>/dev/null | head -n 1 | cut -d " " -f 2-)}
[ -n "$python" ] || fail "it needs Python 3.11 or newer, which was not found"
echo "installing Phoenix into $venv with $("$python" --version)" >&2
"$python" -m venv "$venv" >/dev/null 2>&1 || fail "'$python -m venv $venv' failed"
PIP_RETRIES=${PIP_RETRIES:-2} "$venv/bin/python" -m pip --disable-pip-version-check install --no-deps \
    --requirement scripts/phoenix.txt >"$log" 2>&1 </dev/null ||
    fail "pip could not install it: $(grep -i "error" "$log" | tail -n 1) (all it said is in $log)"
echo "$made_from" >"$stamp"
