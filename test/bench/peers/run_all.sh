#!/bin/sh
# run_all.sh [g5m|g124m] [rounds] [names]: every peer of that model, one JSON line per measurement; PYTHON names the venv of setup.sh
cd "$(dirname "$0")" && exec "${PYTHON:-${PEERS_HOME:-$HOME/.cache/peers}/v/bin/python}" run_all.py "${@:-g5m}"
