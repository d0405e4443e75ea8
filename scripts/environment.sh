#!/bin/sh
# Prepare a virtual environment with this checkout of Rotoscope installed in it.
#
#     scripts/environment.sh FOLDER EXTRA...
#
# Does nothing, and asks no package index, where FOLDER was prepared before for the same pyproject.toml, the same
# place of the checkout and at least these extras.
# PYTHON names the Python to use; without it the first that scripts/pythons.sh finds is used.
# What cannot be done is told in one sentence on stderr, with exit code 1. Nothing is ever deleted.

set -u
cd "$(dirname "$0")/.." || exit 1
PYTHON=${PYTHON:-}
venv=$1
shift
stamp=$venv/rotoscope.stamp
log=$venv/install.log
made_for="$(cksum <pyproject.toml) $(pwd -P)"

fail() {
    echo "$*" >&2
    exit 1
}

version_of() {
    "$1" --version 2>&1 </dev/null | sed -n 's/^Python \([0-9]*\.[0-9]*\).*/\1/p'
}

# Print the Python to build the environment with.
choose_python() {
    if [ -n "$PYTHON" ]; then
        check_named_python && echo "$PYTHON"
        return
    fi
    without_venv=""
    found=$(scripts/pythons.sh 2>/dev/null | cut -d " " -f 2-)
    while read -r path; do
        [ -n "$path" ] || continue
        has_venv "$path" && echo "$path" && return
        without_venv=${without_venv:-$path}
    done <<EOF
$found
EOF
    [ -n "$without_venv" ] && fail "$(no_venv_message "$without_venv")"
    old=$(scripts/pythons.sh 2>&1 >/dev/null | head -n 1)
    [ -n "$old" ] && fail "the Python found here is ${old%% *} (${old#* }) and Rotoscope needs 3.11 or newer:" \
        "install one, or name it as in 'PYTHON=/path/to/python3 make test'"
    fail "no Python was found and Rotoscope needs 3.11 or newer:" \
        "install one, or name it as in 'PYTHON=/path/to/python3 make test'"
}

check_named_python() {
    version=$(version_of "$PYTHON")
    [ -n "$version" ] || fail "PYTHON='$PYTHON' does not run: name a Python 3.11 or newer by its name or path"
    case "$version" in
    [12].* | 3.[0-9] | 3.10)
        fail "PYTHON='$PYTHON' is Python $version and Rotoscope needs 3.11 or newer: name another one" ;;
    esac
    has_venv "$PYTHON" || fail "$(no_venv_message "$PYTHON")"
}

has_venv() {
    "$1" -c "import ensurepip, venv" >/dev/null 2>&1 </dev/null
}

no_venv_message() {
    echo "$1 has no venv module: install it (on Debian and Ubuntu the package python$(version_of "$1")-venv)," \
        "or name another Python as in 'PYTHON=/path/to/python3 make test'"
}

check_existing() {
    [ -e "$venv" ] || return 0
    [ -f "$venv/pyvenv.cfg" ] || [ -z "$(ls -A "$venv")" ] ||
        fail "'$venv' is there and is no virtual environment: name another folder as in 'VENV=.venv-other make test'"
    [ ! -f "$venv/pyvenv.cfg" ] || "$venv/bin/python" -c "" 2>/dev/null ||
        fail "the Python that '$venv' was made with is gone: remove the folder and run again"
    [ -z "$PYTHON" ] || [ ! -x "$venv/bin/python" ] || [ "$(version_of "$PYTHON")" = "$(version_of "$venv/bin/python")" ] ||
        fail "'$venv' holds Python $(version_of "$venv/bin/python") and PYTHON='$PYTHON' is another:" \
            "name another folder as in 'VENV=.venv-other make test'"
}

# Succeed when the stamp names this pyproject.toml, this place and every extra asked for.
is_prepared() {
    [ -f "$stamp" ] && [ "$(head -n 1 "$stamp")" = "$made_for" ] || return 1
    for extra in "$@"; do
        grep -qx "$extra" "$stamp" || return 1
    done
}

create() {
    python=$(choose_python) || exit 1
    mkdir -p "$venv" 2>/dev/null && [ -w "$venv" ] ||
        fail "'$venv' cannot be written in $(pwd): give yourself write access, or work on a copy of your own"
    "$python" -m venv "$venv" >"$log" 2>&1 ||
        fail "'$python -m venv $venv' failed: $(tail -n 1 "$log")"
}

install() {
    extras=$(echo "$*" | tr " " ",")
    echo "installing Rotoscope and what it needs ($extras) into $venv with Python $(version_of "$venv/bin/python")" >&2
    PIP_RETRIES=${PIP_RETRIES:-2} "$venv/bin/python" -m pip install --disable-pip-version-check \
        --editable ".[$extras]" >"$log" 2>&1 </dev/null && return
    if grep -Eq "NewConnectionError|Timeout|Connection refused|timed out|name resolution|ProxyError|versions: none" "$log"; then
        fail "no package index could be reached: check the network or PIP_INDEX_URL and run again" \
            "(what pip said is in $log)"
    fi
    fail "pip could not install Rotoscope: $(grep -i "error" "$log" | tail -n 1) (all it said is in $log)"
}

check_existing
is_prepared "$@" && exit 0
"$venv/bin/python" -m pip --version >/dev/null 2>&1 || create
[ -w "$venv" ] || fail "'$venv' cannot be written: give yourself write access, or work on a copy of your own"
if [ -f "$stamp" ] && [ "$(head -n 1 "$stamp")" = "$made_for" ]; then
    # shellcheck disable=SC2046
    set -- "$@" $(tail -n +2 "$stamp")
fi
# shellcheck disable=SC2046
set -- $(printf "%s\n" "$@" | sort -u)
install "$@"
{ echo "$made_for"; printf "%s\n" "$@"; } >"$stamp"
