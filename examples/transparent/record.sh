#!/bin/sh
# Record a command that reads no variable of a proxy, in a network namespace; all else that it says passes as it is.
#
#     examples/transparent/record.sh HOST... -- COMMAND...
#
# HOSTs are opened besides the known inference hosts. It needs root, or sudo, and the rotoscope of an environment with
# mitmproxy, which $ROTOSCOPE names: docs/intercept.md.

set -u
rotoscope=${ROTOSCOPE:-rotoscope}

options=""
while [ $# -gt 0 ] && [ "$1" != "--" ]; do
    case $1 in
    *[!A-Za-z0-9.:*_-]* | "")
        echo "'$1' is no host to open: give one like llm.example.com, *.example.com or host:8443" >&2
        exit 2 ;;
    esac
    options="$options --intercept-host=$1"
    shift
done
if [ $# -lt 2 ]; then
    echo "usage: $0 HOST... -- COMMAND..." >&2
    exit 2
fi
path=$(command -v "$rotoscope") || {
    echo "there is no '$rotoscope': name the one of the environment with mitmproxy, as in ROTOSCOPE=/path/to/bin/rotoscope" >&2
    exit 2
}
set -f
set -- "$path" record --intercept --intercept-mode namespace $options "$@"
[ "$(id -u)" = 0 ] || set -- sudo -E env "PATH=$PATH" "$@" # sudo has a PATH of its own, on which the agent may not be
exec "$@"
