#!/bin/sh
# Run a command that has no way to any other machine.
#
#     scripts/offline.sh COMMAND...
#
# Where that is allowed it runs in a network namespace of its own, which has loopback and nothing else. Elsewhere the
# proxies that clients ask for are set to a port of this machine where nobody listens.

set -u
inside='ip link set lo up && exec "$@"'

for unshare in "unshare --net" "unshare --map-root-user --net"; do
    if $unshare sh -c 'ip link set lo up' 2>/dev/null; then
        exec $unshare sh -c "$inside" sh "$@"
    fi
done
HTTP_PROXY=http://127.0.0.1:9 HTTPS_PROXY=http://127.0.0.1:9 NO_PROXY=127.0.0.1,localhost
export HTTP_PROXY HTTPS_PROXY NO_PROXY
exec "$@"
