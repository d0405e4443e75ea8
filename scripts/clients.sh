#!/bin/sh
# Install a client of model servers in a virtual environment of its own, for the tests that record real clients.
#
#     scripts/clients.sh NAME FOLDER
#
# NAME is one of the lists in scripts/clients/, which hold exact versions for Python 3.11; intercept/all is for the tests
# with mitmproxy, those below otlp/ are for the tests with OpenTelemetry's instrumentations. Does nothing, and asks no
# package index, where FOLDER holds them already. Several may run at the same time, for one folder or for several.
# uv installs them, about ten times as fast as pip; it is kept beside FOLDER. Where it cannot be had, pip does the work.
# What cannot be done is told in one sentence on stderr, with exit code 1.

set -u
cd "$(dirname "$0")/.." || exit 1
name=$1
venv=$2
list=scripts/clients/$name.txt
log=$venv.log
uv_venv=$(dirname "$venv")/uv
uv_version=0.13.9

fail() {
    echo "the client $name is left out: $*" >&2
    exit 1
}

[ -f "$list" ] || fail "expected one of" $(basename -s .txt scripts/clients/*.txt)
made_from=$(cksum <"$list")
stamp=$venv/client.stamp
[ "$(cat "$stamp" 2>/dev/null)" = "$made_from" ] && exit 0

python=$(scripts/pythons.sh 2>/dev/null | sed -n "s/^3\.11 //p")
[ -n "$python" ] || fail "it needs Python 3.11, which was not found"
mkdir -p "$(dirname "$venv")" 2>/dev/null || fail "'$(dirname "$venv")' cannot be made"

# Hold a lock while the block that follows runs, where the machine has a program for it.
lock() {
    exec 9>"$1.lock"
    if command -v flock >/dev/null; then flock 9; fi
}

lock "$uv_venv"
if [ ! -x "$uv_venv/bin/uv" ]; then
    "$python" -m venv "$uv_venv" >/dev/null 2>&1 || fail "'$python -m venv $uv_venv' failed"
    "$uv_venv/bin/python" -m pip --disable-pip-version-check install "uv==$uv_version" >"$log" 2>&1 </dev/null
fi

lock "$venv"
[ "$(cat "$stamp" 2>/dev/null)" = "$made_from" ] && exit 0
echo "installing $name into $venv" >&2
if [ -x "$uv_venv/bin/uv" ]; then
    export UV_PYTHON_DOWNLOADS=never UV_NO_PROGRESS=1
    "$uv_venv/bin/uv" venv --allow-existing --python "$python" "$venv" >"$log" 2>&1 </dev/null &&
        "$uv_venv/bin/uv" pip sync --python "$venv/bin/python" \
            ${PIP_INDEX_URL:+--default-index "$PIP_INDEX_URL"} "$list" >>"$log" 2>&1 </dev/null
else
    "$python" -m venv "$venv" >"$log" 2>&1 &&
        "$venv/bin/python" -m pip --disable-pip-version-check install --no-deps --requirement "$list" \
            >>"$log" 2>&1 </dev/null
fi || fail "it could not be installed: $(grep -i "error" "$log" | tail -n 1) (all that was said is in $log)"
echo "$made_from" >"$stamp"
