#!/usr/bin/env bash
# Measures this project beside its limits and, where given, its peers: one JSON object per measurement on stdout, a table on stderr.
#   test/bench/run.sh [NAME...] [--rounds N]      names: limits kernels C1 C1b C2 C3 host tensor-parallel mpi collectives zeropp C4 memory C12 C13 adam nvme tiling overlap scale checkpoints tokens validation models products; default all
#   test/bench/run.sh models [--models gpt2-124m,resnet-50] [--precisions fp32,bf16]      ten minutes each, with torch.compile
# Peers need a python with torch: ZC_TORCH_PYTHON, or what peers/setup.sh made (PEERS_HOME, default ~/.cache/peers) or tools/setup.sh --torch.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[[ ${1-} == -h || ${1-} == --help ]] && { sed -n '2,5s/^# \?//p' "$0"; exit 0; }
export ZC_BUILD=${ZC_BUILD:-$PWD/build/release}
tools/setup.sh >&2
[[ -f $ZC_BUILD/build.ninja ]] || cmake -S . -B "$ZC_BUILD" -G Ninja -DCMAKE_BUILD_TYPE=Release >&2
ninja -C "$ZC_BUILD" zero-compile zero-run bench zc-kernel-bench >&2
exec python3 test/bench/bench.py "$@"
