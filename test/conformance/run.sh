#!/usr/bin/env bash
# Runs ONNX's 1,765 backend node tests: a table of operators, then `N passed, N failed, N skipped`.
#   test/conformance/run.sh [BUILD] [FLAG...]     BUILD: a build folder (default build/release); flags of zc-conformance
# The tests lie in onnx/ beside this file, with their licence.
set -euo pipefail
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
root=$here/../..
build=$root/build/release
if (($#)) && [[ $1 != -* ]]; then
  build=$1
  shift
fi
[[ -x $build/bin/zc-conformance ]] || { echo "no $build/bin/zc-conformance: ninja -C $build zc-conformance" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar -xJf "$here/onnx/node-tests-1.22.tar.xz" -C "$folder"
limits=(--skip "$here/skip.txt")
[[ " $* " == *" --filter "* ]] || limits+=(--minimum "$here/minimum.txt" --page "$root/compiler/import/OPERATORS.md")
"$build/bin/zc-conformance" "$folder" "${limits[@]}" "$@"
