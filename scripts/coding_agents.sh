#!/bin/sh
# Install a coding agent from npm in a folder of its own, for the tests that record real coding agents.
#
#     scripts/coding_agents.sh NAME FOLDER
#
# NAME is one of the folders in scripts/coding_agents/, whose lock files hold exact versions for Node 20 and later. Does
# nothing, and asks no registry, where FOLDER holds them already. No script of a package is run. Several may run at the
# same time, for one folder or for several.
# What cannot be done is told in one sentence on stderr, with exit code 1.

set -u
cd "$(dirname "$0")/.." || exit 1
name=$1
folder=$2
lists=scripts/coding_agents/$name
log=$folder.log

fail() {
    echo "the coding agent $name is left out: $*" >&2
    exit 1
}

[ -f "$lists/package-lock.json" ] || fail "expected one of" $(basename -a scripts/coding_agents/*/)
made_from=$(cat "$lists/package.json" "$lists/package-lock.json" | cksum)
stamp=$folder/agent.stamp
[ "$(cat "$stamp" 2>/dev/null)" = "$made_from" ] && exit 0

command -v npm >/dev/null || fail "it needs Node 20 with npm, which was not found"
mkdir -p "$folder" 2>/dev/null || fail "'$folder' cannot be made"

exec 9>"$folder.lock"
if command -v flock >/dev/null; then flock 9; fi
[ "$(cat "$stamp" 2>/dev/null)" = "$made_from" ] && exit 0
echo "installing $name into $folder" >&2
cp "$lists/package.json" "$lists/package-lock.json" "$folder"
# Not `npm ci`, which refuses lock files without the packages for other systems that the agent could use instead.
npm install --prefix "$folder" --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel error \
    >"$log" 2>&1 </dev/null ||
    fail "it could not be installed: $(grep -i "error" "$log" | head -n 1) (all that was said is in $log)"
echo "$made_from" >"$stamp"
