#!/bin/bash
# Open MPI's remote shell in this cluster: `rsh.sh [options] ADDRESS COMMAND...` runs the command inside the namespace of the host
# with that address, under that host's name (Open MPI takes hosts of one name for one machine).
while [[ $1 == -* ]]; do shift; done
host=$ZC_CLUSTER$((${1##*.} - 1))
shift
exec ip netns exec "$host" unshare --uts /bin/sh -c "hostname $host; $*"
