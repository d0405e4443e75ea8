#!/bin/sh
# Run the tests on every supported Python found but the one of the given environment, each in its own environment.
#
#     scripts/test_others.sh FOLDER [TARGET]
#
# TARGET of the Makefile is made for each; without it the tests alone. SUPPORTED names other versions of Python.

cd "$(dirname "$0")/.." || exit 1
SUPPORTED=${SUPPORTED:-3.11 3.12 3.13}
target=${2:-tests}
done_already=$("$1/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
ran=""
missing=""
failed=""

for version in $SUPPORTED; do
    [ "$version" = "$done_already" ] && continue
    path=$(scripts/pythons.sh 2>/dev/null | sed -n "s/^$version //p")
    if [ -z "$path" ]; then
        missing="$missing $version"
        continue
    fi
    echo "tests on Python $version ($path)"
    "${MAKE:-make}" --no-print-directory "$target" PYTHON="$path" VENV="$1-$version" || failed="$failed $version"
    ran="$ran $version"
done

echo "tests ran on Python:${ran:- none}; not found:${missing:- none}; failed:${failed:- none}"
[ -z "$failed" ]
