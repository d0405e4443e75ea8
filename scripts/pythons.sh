#!/bin/sh
# List the Pythons on this machine that Rotoscope runs on, one a line: version, then path.
#
#     scripts/pythons.sh
#
# The first line is the one to take when nobody named another. A version that is there twice is listed once.
# What is found but too old goes to stderr, for the message of the caller.

seen=" "

list() {
    path=$(command -v "$1" 2>/dev/null) || return 0
    version=$("$path" --version 2>&1 </dev/null | sed -n 's/^Python \([0-9]*\.[0-9]*\).*/\1/p')
    minor=${version#*.}
    case "$version" in
    "") return 0 ;;  # a version manager's stand-in for a Python that is not installed
    3.*) [ "$minor" -ge 11 ] || { echo "$version $path" >&2; return 0; } ;;
    [12].*) echo "$version $path" >&2; return 0 ;;
    esac
    case "$seen" in *" $version "*) return 0 ;; esac
    "$path" -c "" 2>/dev/null </dev/null || return 0
    seen="$seen$version "
    echo "$version $path"
}

for name in python3 python python3.13 python3.12 python3.11; do
    list "$name"
done
for path in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3 "$HOME"/.local/share/uv/python/*/bin/python3; do
    list "$path"
done
