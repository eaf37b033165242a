#!/bin/sh
# setup.sh [HOME]: everything the peers need, on a fresh Debian 12, in HOME (default ~/.cache/peers, 3 GB). Run as root or with the Debian packages there.
set -e
export PEERS_HOME="${1:-${PEERS_HOME:-$HOME/.cache/peers}}"
deb="g++ make ninja-build python3-venv libaio-dev fio openmpi-bin libopenmpi-dev libopenblas-pthread-dev libopenblas-openmp-dev libblis-openmp-dev libdnnl-dev"
dpkg -s $deb >/dev/null 2>&1 || { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q $deb; }
mkdir -p "$PEERS_HOME"
[ -x "$PEERS_HOME/v/bin/python" ] || python3 -m venv "$PEERS_HOME/v"
"$PEERS_HOME/v/bin/pip" install -q torch==2.13.0 numpy setuptools wheel packaging ninja psutil onnx onnxscript onnxruntime
DS_ACCELERATOR=cpu DS_BUILD_OPS=0 "$PEERS_HOME/v/bin/pip" install -q deepspeed==0.19.8
# math libraries for gemmbench.py, in a venv of their own: headers in cpu/include, libraries in cpu/lib
[ -x "$PEERS_HOME/cpu/bin/python" ] || python3 -m venv "$PEERS_HOME/cpu"
"$PEERS_HOME/cpu/bin/pip" install -q --no-deps mkl==2026.2.0 mkl-include==2026.2.0 onednn-cpu-gomp==2023.2.0 onednn-devel-cpu-gomp==2023.2.0 scipy-openblas32
cd "$(dirname "$0")" && PATH="$PEERS_HOME/v/bin:$PATH" "$PEERS_HOME/v/bin/python" build_ops.py
