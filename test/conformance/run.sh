#!/usr/bin/env bash
# Runs ONNX's 1,765 backend node tests: a table of operators, then `N passed, N failed, N skipped`.
#   test/conformance/run.sh [BUILD] [FLAG...]     BUILD: a build folder (default build/release); flags of zc-conformance
# Needs ZC_SHARED (default ../shared); without it one test is skipped and says so.
set -euo pipefail
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
root=$here/../..
shared=${ZC_SHARED:-$(realpath -m "$root/../shared")}
build=$root/build/release
if (($#)) && [[ $1 != -* ]]; then
  build=$1
  shift
fi
archive=$shared/testdata/onnx-1.22-node-tests.tar.xz
if [[ ! -f $archive ]]; then
  echo "no $archive: the node tests are skipped"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi
[[ -x $build/bin/zc-conformance ]] || { echo "no $build/bin/zc-conformance: ninja -C $build zc-conformance" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar -xJf "$archive" -C "$folder"
limits=(--skip "$here/skip.txt")
[[ " $* " == *" --filter "* ]] || limits+=(--minimum "$here/minimum.txt" --page "$root/compiler/import/OPERATORS.md")
"$build/bin/zc-conformance" "$folder" "${limits[@]}" "$@"
