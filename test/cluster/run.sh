#!/usr/bin/env bash
# The tests that need several hosts, on network namespaces of this machine (root, iproute2, Open MPI); skipped with a reason where
# those are not allowed.
#   test/cluster/run.sh            everything
#   test/cluster/run.sh --quick    the part that test/run.sh runs
#   test/cluster/run.sh [--quick] collectives|bits|faults|traffic
# The tools are those of ZC_BIN (default build/release/bin). Exit code 1 if anything failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
export ZC_BIN=${ZC_BIN:-$PWD/build/release/bin}
quick=() scripts=()
for a in "$@"; do
  case $a in
  --quick) quick=(--quick) ;;
  collectives | bits | faults | traffic) scripts+=("test/cluster/$a.py") ;;
  *) sed -n '2,/^set /{/^set /d;s/^# \?//p}' "$0"; exit 2 ;;
  esac
done
((${#scripts[@]})) || scripts=(test/cluster/{collectives,bits,faults,traffic}.py)
failed=0
for script in "${scripts[@]}"; do
  echo "-- $script"
  python3 "$script" --jobs 2 -v "${quick[@]}"
  code=$?
  ((code == 77)) && echo "skipped: see above why"
  ((code == 0 || code == 77)) || failed=1
done
exit $failed
