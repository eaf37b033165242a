#!/usr/bin/env bash
# Installs what a bare Debian 12 lacks to build and test this project. Quick and without network when nothing is missing.
#   tools/setup.sh           install what is missing (through sudo when not root)
#   tools/setup.sh --check   only say what is missing; exit code 1 if anything is
#   tools/setup.sh --torch   a Python with torch (CPU), transformers and what else python/ uses, in build/torch: about 1.5 GB
#   tools/setup.sh --cuda    headers of cuBLAS, cuDNN and its front end, NCCL and NVRTC from PyPI, for toolkits that lack them: 6 MB in
#                            ~/.cache/zero-compile/cuda, where CMake finds them; --cuda-libraries brings the libraries too (1.5 GB)
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
  libgtest-dev libbenchmark-dev
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
# The wheels hold header and library together: a download of gigabytes for a few megabytes, once.
install_cuda() {
  local libraries=$1 folder=${XDG_CACHE_HOME:-$HOME/.cache}/zero-compile/cuda work package
  work=$(mktemp -d)
  trap 'rm -rf "$work"' RETURN
  mkdir -p "$folder"
  for package in nvidia-cublas nvidia-cudnn-cu13 nvidia-cudnn-frontend nvidia-nccl-cu13 nvidia-cuda-nvrtc; do
    [[ -e $folder/.$package$libraries || -e $folder/.${package}libraries ]] && continue
    python3 -m pip download -q --no-deps --only-binary=:all: -d "$work" "$package" >&2 || die "$package could not be downloaded: see above"
    python3 - "$work"/*.whl "$folder" "$libraries" <<'EOF' || die "$package could not be unpacked"
import os, re, shutil, sys, zipfile
wheel, folder, libraries = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    for name in archive.namelist():
        if header := re.search(r"(?:^|/)include/((?!.*\.\.).*[^/])$", name):
            target = f"{folder}/include/{header[1]}"
        elif libraries and re.search(r"(?:^|/)lib/[^/]*\.so[.\d]*$", name):
            target = f"{folder}/lib/{name.rsplit('/', 1)[1]}"
        else:
            continue
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with archive.open(name) as source, open(target, "wb") as copy:
            shutil.copyfileobj(source, copy)
EOF
    rm -f "$work"/*.whl
    : >"$folder/.$package$libraries"
  done
  echo "setup: \"$folder\" has what the CUDA plugin is built from${libraries:+, and the libraries}" >&2
}
case ${1-} in
--torch) install_torch && exit ;;
--cuda) install_cuda '' && exit ;;
--cuda-libraries) install_cuda libraries && exit ;;
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
