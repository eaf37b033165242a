#!/usr/bin/env bash
# Trains this example; all steps are explained in examples/quickstart.sh.
exec "$(dirname "${BASH_SOURCE[0]}")/../quickstart.sh" "$@"
