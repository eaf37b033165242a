#!/usr/bin/env bash
# Sets up, builds and tests everything; the last line is `N passed, N failed`.
#   test/run.sh                 all suites below, in this order
#   test/run.sh --quick         format, unit and lit on the Release build
#   test/run.sh --full          all suites and cuda, and in them all cases of which otherwise some are drawn, however long it takes
#                               (each day others; scripts say how many, and by which ZC_SEED: with it they draw the same again)
#   test/run.sh SUITE...        only these
#   test/run.sh --build SUITE...  builds what tsan, asan or fuzz need, and tests nothing
#
#   format   clang-format over all C++
#   unit     gtest programs of the Release build, all targets built
#   lit      dialects, passes and tools
#   conformance  ONNX's 1,765 node tests, and the page of operators
#   e2e      test/e2e/*.py: goldens, bit-identity matrix, bad input, the example
#   product  the Python package against torch, in build/torch (tools/setup.sh --torch installs it there: 1.5 GB)
#   killsweep  test/e2e/run_killsweep.py: runs killed at any moment end with the bits of undisturbed ones; `--kills N` (30; with --full 200)
#   cluster  test/cluster/run.sh --quick: ranks as processes on several hosts, faults, bytes between hosts
#   tsan     the runtime's unit tests under ThreadSanitizer; the runtime, the CPU's kernels, zero-run and benchmarks by clang++-19
#   asan     everything under AddressSanitizer and UBSan, compiled by clang++-19: unit tests
#   asanlit  lit with the tools of that build
#   fuzz     the importer's reading of files, plans, what else runs read, fused programs and configurations, fuzzed beside each other for half a minute, in that build
#   cuda     by name only, since nvcc takes long: the plugin for GPUs, warnings as errors, loading it without a driver, registers that spill, contracted products
#
# What the machine cannot do is skipped, and says why. Without SUITE none begins after ZC_TEST_MINUTES (50), so that a slow machine says what failed
# before somebody stops it: the longest, asan, takes half an hour on two slow cores. Suites that are named always run.
# Those that did not begin count as skipped, and are named in the line before the last.
# What the sanitizers' suites need is built beside the others, of what these leave of the cores. Build folders: build/{release,asan,tsan}. Exit code 1 if anything failed or a suite ran nothing.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
all=(format unit lit conformance e2e killsweep product cluster tsan asan asanlit fuzz)
by_name=(cuda)

suites=() kills=30 builds_only=''
while (($#)); do
  a=$1
  shift
  case $a in
  --kills)
    [[ ${1-} =~ ^[1-9][0-9]*$ ]] || { echo "run.sh: --kills needs a number" >&2; exit 2; }
    kills=$1
    shift
    ;;
  --quick) suites+=(format unit lit) ;;
  --full)
    export ZC_FULL=1
    suites+=("${all[@]}" "${by_name[@]}") kills=200
    ;;
  --build) builds_only=1 ;;
  -h | --help) sed -n '2,/^set /{/^set /d;s/^# \?//p}' "$0"; exit 0 ;;
  *)
    [[ " ${all[*]} ${by_name[*]} " == *" $a "* ]] || { echo "run.sh: no suite \"$a\"; there are: ${all[*]} ${by_name[*]}" >&2; exit 2; }
    suites+=("$a")
    ;;
  esac
done
limit=$((24 * 60))
((${#suites[@]})) || { suites=("${all[@]}") limit=${ZC_TEST_MINUTES:-50}; }
[[ $limit =~ ^[1-9][0-9]*$ ]] || { echo "run.sh: ZC_TEST_MINUTES needs a number" >&2; exit 2; }
started=$SECONDS

# build NAME TARGET... -- CMAKE-ARGUMENT...: configures build/NAME if needed and builds; the log is shown when it fails.
build() {
  local dir=build/$1 targets=() log
  shift
  while (($#)) && [[ $1 != -- ]]; do targets+=("$1"); shift; done
  shift || true
  log=$dir/run.log
  mkdir -p "$dir"
  echo "building $dir (${targets[*]:-everything})"
  cmake -S . -B "$dir" -G Ninja "$@" >"$log" 2>&1 && ninja -C "$dir" "${targets[@]}" >>"$log" 2>&1 && return
  { grep -E -A 12 'error:|FAILED|CMake Error' "$log" | head -n 80
    echo "build of $dir failed; all of its output: $log"; } | tee -a "$ZC_TEST_FAILURES"
  return 1
}

# Where no GPU is, the plugin for them is the suite `cuda`'s: for all kinds of GPUs it takes nvcc as long as all else takes g++.
gpus() { nvidia-smi -L >/dev/null 2>&1; }
release() { build release -- -DCMAKE_BUILD_TYPE=Release "-DZC_CUDA=$(gpus && echo AUTO || echo OFF)"; }
runner=(python3 test/support/run_tests.py)
# Programs share the cores: a thread that waits for the others of its team sleeps, or it takes from the next program what that could compute with
# (half of the CPU time of whole runs, of some kernels' tests four fifths).
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}

suite_format() { "${runner[@]}" format; }
suite_unit() { release && "${runner[@]}" ctest build/release; }
suite_conformance() { release && test/conformance/run.sh build/release; }
suite_lit() { release && "${runner[@]}" lit build/release; }

suite_e2e() {
  local scripts=()
  for script in test/e2e/*.py; do [[ $script == */run_killsweep.py ]] || scripts+=("$script"); done # a suite of its own
  release && ZC_BUILD=$PWD/build/release ZC_BIN=$PWD/build/release/bin PATH=$PWD/build/release/bin:$PATH \
    "${runner[@]}" script "${scripts[@]}"
}

suite_product() {
  local scripts=(test/product/run_*.py) python=python3
  build/torch/bin/python -c 'import torch, peft' 2>/dev/null || timeout 600 tools/setup.sh --torch ||
    echo "torch could not be had: what needs it is skipped"
  [[ -x build/torch/bin/python ]] && python=build/torch/bin/python
  release && ZC_BIN=$PWD/build/release/bin "$python" test/support/run_tests.py script "${scripts[@]}"
}

suite_killsweep() {
  release && ZC_BIN=$PWD/build/release/bin PATH=$PWD/build/release/bin:$PATH ZC_KILLS=$kills ZC_TEST_TIMEOUT=$((900 + 20 * kills)) \
    "${runner[@]}" script test/e2e/run_killsweep.py
}

suite_cluster() {
  release && ZC_CLUSTER_QUICK=1 ZC_TEST_JOBS=1 ZC_BIN=$PWD/build/release/bin "${runner[@]}" script test/cluster/{collectives,bits,faults,traffic}.py
}

# The other compiler's: all is compiled by both. Optimised a little: sanitizers at -O0 would take the whole time budget in the kernels. (The MLIR
# side is at -O0 all the same.)
sanitized=(-DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 -DCMAKE_BUILD_TYPE=None "-DCMAKE_CXX_FLAGS=-O1 -g1" "-DCMAKE_C_FLAGS=-O1 -g1"
  -DZC_CUDA=OFF)
asan() { build asan "$@" -- "${sanitized[@]}" -DZC_COMPILER=ON -DZC_SANITIZE=address,undefined; }
# Debian's LLVM is not instrumented: what it poisons, and containers that cross its border, cannot be followed.
export ASAN_OPTIONS=allow_user_poisoning=0:detect_container_overflow=0:detect_leaks=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1
export LSAN_OPTIONS=suppressions=$PWD/test/support/lsan.supp:print_suppressions=0
# LLVM's OpenMP keeps a file per process. Of one that is killed it stays, and where it was killed before there was anything in it, the next
# process of that number dies of a bus error before main.
forget_killed() {
  local file pid
  for file in /dev/shm/__KMP_REGISTERED_LIB_*_"$UID"; do
    pid=${file#*LIB_}
    [[ -d /proc/${pid%_*} ]] || rm -f "$file"
  done
}
build_asan() { asan; }
suite_asan() { asan && forget_killed && "${runner[@]}" ctest build/asan; }
suite_asanlit() { asan && forget_killed && "${runner[@]}" lit build/asan; }
# OpenMP's runtimes are not instrumented, so TSan does not see their barriers: the kernels' own tests, which open teams, are left
# out, and ranks have one thread.
build_tsan() {
  build tsan zc-base-test zc-runtime-test zc-runtime-train-test zc-write-train-plan zero-run zc_mpi bench -- "${sanitized[@]}" -DZC_COMPILER=OFF -DZC_SANITIZE=thread
}
suite_tsan() {
  build_tsan && forget_killed &&
    OMP_NUM_THREADS=1 ARCHER_OPTIONS=enable=0 TSAN_OPTIONS="halt_on_error=1:suppressions=$PWD/test/support/tsan.supp" "${runner[@]}" ctest build/tsan "^(base|runtime|zero_run)"
}

# fuzz TARGET: for half a minute, with its corpus; from one seed, so that what a change is refused for is more likely its own (with --full from any).
fuzz() {
  local corpus code seed=1
  [[ -z ${ZC_FULL-} ]] || seed=0 # any
  corpus=$(mktemp -d) && cp test/fuzz/corpus-"$1"/* "$corpus"
  "build/asan/bin/zc-fuzz-$1" -seed="$seed" -max_total_time=30 -max_len=16384 -timeout=300 -rss_limit_mb=1024 \
    -artifact_prefix=build/asan/ -verbosity=0 -print_funcs=0 -print_final_stats=1 "$corpus" >"build/asan/fuzz-$1.log" 2>&1
  code=$?
  rm -rf "$corpus"
  return "$code"
}

fuzzed=(import fused plan stored config)
build_fuzz() { asan "${fuzzed[@]/#/zc-fuzz-}"; }
suite_fuzz() {
  local target passed=0 failed=0
  local -A running
  build_fuzz || return
  for target in "${fuzzed[@]}"; do
    fuzz "$target" &
    running[$target]=$!
  done
  for target in "${fuzzed[@]}"; do
    if wait "${running[$target]}"; then
      echo "$target: $(grep -E '^stat::(number|new)' "build/asan/fuzz-$target.log" | tr -s ' \n' ' ')"
      ((++passed))
    else
      echo "---- fuzz $target" | cat - <(tail -n 60 "build/asan/fuzz-$target.log") | tee -a "$ZC_TEST_FAILURES"
      ((++failed))
    fi
  done
  echo "$passed passed, $failed failed, 0 skipped"
  ((failed == 0))
}

# For one kind of GPU: all three take thrice as long and say the same, but for spills; with --full for all.
suite_cuda() {
  if ! { command -v nvcc || ls /usr/local/cuda*/bin/nvcc; } >/dev/null 2>&1; then
    echo "no nvcc: the plugin for GPUs is not built"
    echo "0 passed, 0 failed, 1 skipped"
    return
  fi
  local kinds=90-real
  [[ -z ${ZC_FULL-} ]] || kinds='80-real;90-real;100'
  # Cleaned, so that what ptxas says is there (from ccache, where nothing changed).
  [[ -f build/cuda/build.ninja ]] && ninja -C build/cuda -t clean zc_cuda >/dev/null
  build cuda zc_cuda zc-cuda-test zc-cudnn-test zc-nvrtc-test zc_no_driver zero-run -- -DCMAKE_BUILD_TYPE=Release -DZC_COMPILER=OFF -DZC_CUDA=ON -DZC_CUDA_VERBOSE=ON \
    "-DZC_CUDA_ARCHITECTURES=${ZC_CUDA_ARCHITECTURES:-$kinds}" &&
    ZC_BUILD=$PWD/build/cuda ZC_BIN=$PWD/build/cuda/bin "${runner[@]}" script test/cuda/{plugin,spills,contracted,libraries}.py
}

tools/setup.sh || { echo "0 passed, 1 failed"; exit 1; }
# CUDA's headers, of which the doubles of a GPU are built (test/cuda/double).
if [[ " ${suites[*]} " =~ " e2e "|" cuda " ]]; then
  timeout 600 tools/setup.sh --cuda || echo "the headers of CUDA could not be had: what needs them is skipped"
fi

if [[ $builds_only ]]; then
  export ZC_TEST_FAILURES=/dev/null
  for s in "${suites[@]}"; do
    declare -F "build_$s" >/dev/null || { echo "run.sh: $s has no build of its own; tsan, asan and fuzz have" >&2; exit 2; }
    "build_$s" || exit
  done
  exit
fi

# Many tests wait more than they compute. Each build of a group of its own, so that they end with this script. ThreadSanitizer's programs first: its suite
# need not wait for all that AddressSanitizer's takes.
declare -A beside=()
build_beside() {
  set -m
  nice -n 19 test/run.sh --build tsan >/dev/null 2>&1 &
  beside[tsan]=$!
  { tail --pid="$!" -f /dev/null && nice -n 19 test/run.sh --build asan fuzz; } >/dev/null 2>&1 &
  beside[asan]=$!
  set +m
}
await_beside() {
  [[ ${beside[$1]-} ]] || return
  wait "${beside[$1]}" # what failed there fails again, and is shown
  unset "beside[$1]"
}
end_beside() {
  local pid
  for pid in "${beside[@]}"; do kill -- "-$pid" 2>/dev/null; done
}
table=$(printf '%-11s %8s %8s %8s %8s' suite passed failed skipped seconds)
sum_passed=0 sum_failed=0 sum_skipped=0
unbegun=()
results=$(mktemp)
export ZC_TEST_FAILURES
ZC_TEST_FAILURES=$(mktemp)
trap 'end_beside; rm -f "$results" "$ZC_TEST_FAILURES"' EXIT
for s in "${suites[@]}"; do
  printf '\n== %s\n' "$s"
  began=$SECONDS
  if ((began - started > 60 * limit)); then
    echo "skipped: $limit minutes are over; test/run.sh $s runs it"
    table+=$'\n'$(printf '%-11s %8d %8d %8d %8d' "$s" 0 0 1 0)
    ((++sum_skipped))
    unbegun+=("$s")
    continue
  fi
  case $s in
  tsan) await_beside tsan ;;
  asan* | fuzz) await_beside asan ;;
  esac
  "suite_$s" 2>&1 | tee "$results"
  code=${PIPESTATUS[0]}
  if [[ $(tail -n 1 "$results") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
    p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} k=${BASH_REMATCH[3]}
  else
    p=0 f=0 k=0
  fi
  # Failed without a failed test: it did not build, or ran nothing.
  ((code != 0 && f == 0)) && f=1
  table+=$'\n'$(printf '%-11s %8d %8d %8d %8d' "$s" "$p" "$f" "$k" $((SECONDS - began)))
  if [[ $s == unit && " ${suites[*]} " == *" asan "* ]]; then build_beside; fi
  sum_passed=$((sum_passed + p)) sum_failed=$((sum_failed + f)) sum_skipped=$((sum_skipped + k))
done

[[ -s $ZC_TEST_FAILURES ]] && printf '\n== what failed, again\n' && cat "$ZC_TEST_FAILURES"
printf '\n%s\n' "$table"
((sum_skipped)) && echo "$sum_skipped skipped: see above why"
echo "took $((SECONDS - started)) s"
# No failure: a slow machine is to end in its time. But none of these is tested.
((${#unbegun[@]})) && echo "${#unbegun[@]} suites did not begin: ${unbegun[*]} ($limit minutes were over); test/run.sh ${unbegun[*]} runs them"
echo "$sum_passed passed, $sum_failed failed"
((sum_failed == 0 && sum_passed > 0))
