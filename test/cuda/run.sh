#!/usr/bin/env bash
# The plugin for GPUs on a machine that has one: a line each; the last is `N passed, N failed`.
#   test/cuda/run.sh [PROGRAMS] [-- ARGUMENT...]
#     PROGRAMS   build folder with bin/ (default: build/cuda), or the folder of an unpacked tools/bundle.sh archive
#     ARGUMENT   of test/cuda/on_gpu.py: --only PART..., --budget SECONDS; --device fake tries the script on threads
# Needs a driver and Python; torch for what is beside torch (ZC_TORCH_PYTHON: of another Python); nvcc for nothing. Exit code 77 where there
# is no GPU, or no part ran.
set -uo pipefail
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
programs=$(realpath -m "$here/../../build/cuda")
if (($#)) && [[ $1 != -- ]]; then programs=$(realpath -m "$1"); shift; fi
[[ ${1-} == -- ]] && shift
[[ -x $programs/bin/zero-run ]] || { echo "run.sh: no \"$programs/bin/zero-run\"" >&2; exit 2; }

# The archive of tools/bundle.sh has what was given along in the folders of the repository.
for program in zc-kernel-test zc-gpu-bench; do
  [[ -x $programs/bin/$program || ! -x $programs/build/release/bin/$program ]] ||
    cp "$programs/build/release/bin/$program" "$programs/bin/"
done

# Libraries of NVIDIA come with the machine's torch, where it has one.
wheels=$(python3 - <<'EOF' 2>/dev/null
import glob, os, site, sys
folders = {os.path.dirname(f) for base in {*site.getsitepackages(), site.getusersitepackages(), *sys.path} if base
           for f in glob.glob(f"{base}/nvidia/*/lib/*.so*")}
print(":".join(sorted(folders)))
EOF
)
export ZERO_CUDA_LIBRARIES=${ZERO_CUDA_LIBRARIES:+$ZERO_CUDA_LIBRARIES:}$wheels
said=$("$programs/bin/zero-run" doctor)
echo "$said"
[[ " $* " == *" --device fake "* ]] || grep -q '^GPU 0' <<<"$said" || {
  echo "run.sh: no GPU can be used here (\"cuda\" above says why): nothing was run" >&2
  exit 77
}
exec python3 "$here/on_gpu.py" --bin "$programs/bin" "$@"
