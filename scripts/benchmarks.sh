#!/bin/sh
# Run every script in benchmarks/ that states a claim, and name those whose claim does not hold here.
#
#     scripts/benchmarks.sh PYTHON PYTHON_WITH_MITMPROXY

cd "$(dirname "$0")/.." || exit 1
broken=""
for script in $(grep -l '^"""Claim: ' benchmarks/*.py); do
    python=$1
    [ "$script" = benchmarks/intercept.py ] && python=$2
    echo "$python $script"
    PYTHONPATH=.:tests "$python" "$script" || broken="$broken $script"
done
[ -z "$broken" ] || { echo "these claims do not hold here:$broken" >&2; exit 1; }
