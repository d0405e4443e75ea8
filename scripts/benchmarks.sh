#!/bin/sh
# Run every script in benchmarks/ that states a claim, and name those whose claim does not hold here.
#
#     scripts/benchmarks.sh PYTHON

cd "$(dirname "$0")/.." || exit 1
broken=""
for script in $(grep -l '^"""Claim: ' benchmarks/*.py); do
    echo "$1 $script"
    PYTHONPATH=. "$1" "$script" || broken="$broken $script"
done
[ -z "$broken" ] || { echo "these claims do not hold here:$broken" >&2; exit 1; }
