# A host in a network of its own, made by `unshare --net --mount sh -e host.sh` for the test that follows in $TEST.
# It forwards nothing, as hosts with Docker do, and knows one server, at $SERVER, which is on a host of its own.

mount -t tmpfs tmpfs /run
ip link set lo up
iptables -P FORWARD DROP
iptables -A FORWARD -s 192.0.2.1 -j DROP

unshare --net sh -c 'touch apart; exec sleep infinity' >/dev/null 2>&1 &
world=$!
until [ -e apart ]; do kill -0 $world; sleep 0.02; done
ip link add w0 type veth peer name w1 netns $world
ip address add 203.0.113.1/24 dev w0
ip link set w0 up
in_world="nsenter --net=/proc/$world/ns/net"
$in_world ip link set lo up
$in_world ip address add "$SERVER/24" dev w1
$in_world ip link set w1 up
$in_world "$CLIENTS" "$HERE/hard_wired_server.py" "$SERVER" "$CERTIFICATE" "$KEY" ready >/dev/null &
server=$!
trap 'kill $server $world' EXIT
trap 'exit 1' PIPE TERM # nobody listens any more
until [ -e ready ]; do kill -0 $server; sleep 0.02; done

# What a recording may change on a host.
state() {
    iptables-save | sed 's/\[.*//' | grep -e '^-A' -e '^:FORWARD' || true
    ip -o link | cut -d ' ' -f 2
    ip netns list
    cat /proc/sys/net/ipv4/ip_forward
    ls /etc/netns 2>/dev/null | grep rotoscope || true
    ls /run/rotoscope 2>/dev/null | grep -v lock || true
}

record() {
    "$SCRIPT" "$API" -- "$@"
}

# Run an agent that finds its hosts by /etc/hosts, in the namespace alone.
agent() {
    record sh -c 'mount --bind hosts /etc/hosts && exec "$@"' sh "$CLIENTS" "$HERE/hard_wired_agent.py" "$API" "$OTHER"
}

eval "$TEST"
