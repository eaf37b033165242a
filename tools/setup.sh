#!/usr/bin/env bash
# Installs what a bare Debian 12 lacks to build and test this project. Quick and without network when nothing is missing.
#   tools/setup.sh           install what is missing (through sudo when not root)
#   tools/setup.sh --check   only say what is missing; exit code 1 if anything is
#   tools/setup.sh --torch   a Python with torch (CPU), transformers and what else python/ uses, in build/torch: about 1.5 GB
#   tools/setup.sh --cuda    headers of cuBLAS, cuDNN and its front end, NCCL, NVRTC and CUDA's runtime from PyPI, for toolkits that lack them,
#                            or where none is: 10 MB in ~/.cache/zero-compile, where CMake finds them; --cuda-libraries brings the libraries too
#                            (1.5 GB)
set -euo pipefail

packages=(
  # compilers and build
  g++ cmake ninja-build ccache pkg-config git python3
  # MLIR; lit and FileCheck are in the -tools packages
  libmlir-19-dev mlir-19-tools llvm-19-dev llvm-19-tools zlib1g-dev libzstd-dev libxml2-dev libffi-dev
  # second compiler, sanitizers, formatting
  clang-19 clang-format-19 lld-19 libclang-rt-19-dev libomp-19-dev
  # kernels: OpenBLAS with OpenMP threads (beside OpenMP regions the pthread build loses up to four times), oneDNN, Highway
  libopenblas-openmp-dev libdnnl-dev libhwy-dev
  # runtime and tools
  libprotobuf-dev protobuf-compiler libxxhash-dev libcli11-dev nlohmann-json3-dev libfmt-dev libspdlog-dev liburing-dev
  libhwloc-dev
  # ranks as processes, over several machines; iproute2 makes the cluster of test/cluster
  openmpi-bin libopenmpi-dev iproute2
  # tests
  libgtest-dev libbenchmark-dev valgrind
)

die() {
  echo "setup: $*" >&2
  exit 1
}

# torch and what python/ needs: in an environment of its own, which test/run.sh product finds.
install_torch() {
  local folder
  folder=$(dirname "${BASH_SOURCE[0]}")/../build/torch
  python3 -m venv "$folder" || die "python3 -m venv failed: Debian has it in python3-venv"
  # The versions that test/product was made with: exporters change from one to the next.
  "$folder/bin/pip" install -q --retries 1 --index-url https://download.pytorch.org/whl/cpu torch==2.13.0 ||
    "$folder/bin/pip" install -q torch==2.13.0 || die "torch could not be installed: see above"
  "$folder/bin/pip" install -q numpy==2.4.6 onnx==1.23.2 onnxscript==0.7.2 transformers==5.23.0 tokenizers==0.23.3 safetensors==0.8.0 pyarrow==26.0.1 peft==0.21.2 ||
    die "a package could not be installed: see above"
  "$folder/bin/pip" install -q --no-deps "$(dirname "${BASH_SOURCE[0]}")/../python" || die "python/ could not be installed: see above"
  echo "setup: $folder/bin has zero, and a Python with torch" >&2
}
# The versions that the plugin was compiled against; what a toolkit has of its own comes first (runtime/cuda/CMakeLists.txt).
cuda_wheels=(nvidia-cublas==13.10.0.20 nvidia-cudnn-cu13==9.28.1.4 nvidia-cudnn-frontend==1.32.0 nvidia-nccl-cu13==2.32.3 nvidia-cuda-nvrtc==13.5.37)
cuda_runtime=(nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88)
install_cuda() {
  local cache=${XDG_CACHE_HOME:-$HOME/.cache}/zero-compile tool
  tool=$(dirname "${BASH_SOURCE[0]}")/wheel_files.py
  python3 "$tool" "$cache/cuda" "$@" "${cuda_wheels[@]}" >&2 || die "headers of CUDA's libraries could not be had: see above"
  # In a folder of its own, so that it never stands before a toolkit's.
  python3 "$tool" "$cache/cuda-runtime" "${cuda_runtime[@]}" >&2 || die "headers of CUDA's runtime could not be had: see above"
  echo "setup: \"$cache/cuda\" has what the CUDA plugin is built from${1:+, and the libraries}" >&2
}
case ${1-} in
--torch) install_torch && exit ;;
--cuda) install_cuda && exit ;;
--cuda-libraries) install_cuda --libraries && exit ;;
esac

command -v dpkg-query >/dev/null || die "no dpkg here: this script knows Debian 12; elsewhere install the equivalents of: ${packages[*]}"

missing=()
installed=" $(dpkg-query -W -f '${db:Status-Status}:${Package} ' "${packages[@]}" 2>/dev/null || true)"
for p in "${packages[@]}"; do
  [[ $installed == *" installed:$p "* ]] || missing+=("$p")
done
if ((${#missing[@]} == 0)); then
  echo "setup: all ${#packages[@]} packages are installed" >&2
  exit 0
fi
echo "setup: missing: ${missing[*]}" >&2
[[ ${1-} == --check ]] && exit 1

run=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || die "not root and no sudo: run as root, or install the packages above"
  run=(sudo)
fi
. /etc/os-release
[[ ${ID-} == debian && ${VERSION_ID-} == 12 ]] ||
  echo "setup: written for Debian 12, this is ${PRETTY_NAME-unknown}; trying all the same" >&2

export DEBIAN_FRONTEND=noninteractive
install=("${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends -o Dpkg::Use-Pty=0 -q)
# The package lists of a fresh image are absent or stale, so a first failure means: update, then once more.
"${install[@]}" "${missing[@]}" >&2 || {
  "${run[@]}" apt-get update -q >&2 || die "apt-get update failed: no network, or no right to use apt"
  "${install[@]}" "${missing[@]}" >&2 || die "apt-get install failed: see above"
}
echo "setup: installed ${#missing[@]} packages" >&2
