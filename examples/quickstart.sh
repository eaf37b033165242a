#!/usr/bin/env bash
# From a fresh clone to a trained model: set-up, build, compile for four ranks at ZeRO-3, train, export.
# Safe to run again and from any folder; the second time only the training takes time.
#   examples/quickstart.sh [--steps N]        default 400 steps, a minute or two on two cores
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

steps=400
while (($#)); do
  case $1 in
  --steps) steps=${2:?"--steps wants a number"}; shift 2 ;;
  --steps=*) steps=${1#*=}; shift ;;
  -h | --help) sed -n '2,4s/^# \?//p' "$0"; exit 0 ;;
  *) echo "quickstart: unknown argument \"$1\"; see --help" >&2; exit 2 ;;
  esac
done
[[ $steps =~ ^[1-9][0-9]*$ ]] || { echo "quickstart: --steps wants a positive number, not \"$steps\"" >&2; exit 2; }

build=build/release
run=runs/gpt
bold() { if [[ -t 1 ]]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n%s\n' "$*"; fi; }
show() {
  printf '$ %s\n' "$*"
  "$@"
}

bold "1. set-up: what Debian 12 lacks"
tools/setup.sh

bold "2. Release build of zero-compile and zero-run (minutes the first time, seconds after)"
started=$SECONDS
log=$build/quickstart.log
mkdir -p "$build"
quiet() { "$@" >"$log" 2>&1 || { tail -n 40 "$log"; echo "quickstart: \"$*\" failed; all of its output: $log" >&2; exit 1; }; }
[[ -f $build/build.ninja ]] || quiet cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release
if [[ -t 1 ]]; then
  ninja -C "$build" zero-compile zero-run
else
  quiet ninja -C "$build" zero-compile zero-run
fi
echo "built in $((SECONDS - started)) s"
export PATH=$PWD/$build/bin:$PATH

bold "3. what a plan for four ranks at ZeRO-3 would take, before anything is allocated"
# zero-run does not train over another run's checkpoints.
if [[ -e $run ]]; then
  rm -rf "$run.previous"
  mv "$run" "$run.previous"
  echo "(the run that was in $run is now in $run.previous)"
fi
mkdir -p "$run"
compile=(zero-compile examples/gpt/gpt.onnx --world-size 4 --zero-stage 3 --dim batch=8 --clip-grad-norm 1.0)
show "${compile[@]}" --dry-run
show "${compile[@]}" -o "$run/gpt.plan"

bold "4. training: $steps steps on the licence texts of this system, byte by byte; ranks are threads of one process"
# The files themselves, not the links to them: no text twice.
mapfile -t texts < <(find /usr/share/common-licenses -type f | LC_ALL=C sort)
((${#texts[@]})) || { echo "quickstart: no texts in /usr/share/common-licenses" >&2; exit 1; }
warmup=$((steps < 40 ? steps / 2 : 20))
echo "$ zero-run $run/gpt.plan -n 4 --threads 1 --tokens /usr/share/common-licenses/* --byte-level --shift-labels --shuffle --seed 0 \\"
echo "    --steps $steps --lr 3e-3 --lr-schedule cosine --warmup $warmup --out $run --overwrite"
zero-run "$run/gpt.plan" -n 4 --threads 1 --tokens "${texts[@]}" --byte-level --shift-labels --shuffle --seed 0 \
  --steps "$steps" --lr 3e-3 --lr-schedule cosine --warmup "$warmup" --log-every 25 --out "$run" --overwrite

bold "5. the trained weights, as ONNX and as safetensors"
show zero-run export "$run/final" --onnx "$run/gpt-trained.onnx"
show zero-run export "$run/final" --safetensors "$run/gpt-trained.safetensors"

bold "done. What is where"
python3 - "$run/metrics.jsonl" <<'PY'
import json, sys
steps = [json.loads(line) for line in open(sys.argv[1])]
first, last = steps[0], steps[-1]
took = sum(s["step_seconds"] for s in steps)
print(f"loss {first['loss']:.4f} at step {first['step']}, {last['loss']:.4f} at step {last['step']}; {took:.0f} s in steps")
PY
cat <<TEXT
  $run/gpt.plan                  the plan:           zero-run inspect $run/gpt.plan
  $run/metrics.jsonl             a line per step:    tail -1 $run/metrics.jsonl
  $run/gpt-trained.onnx          the same model, trained: opens in any ONNX runtime
  $run/gpt-trained.safetensors   the weights alone

What to try next (first: export PATH=$PWD/$build/bin:\$PATH)
  zero-compile examples/gpt/gpt.onnx --dim batch=8 --list-parameters
  zero-compile examples/gpt/gpt.onnx --dim batch=8 --world-size 4 --zero-stage 1 --dry-run    # compare the tiers
  zero-compile examples/gpt/gpt.onnx --dim batch=8 --dump-phases-to phases -o gpt.plan        # the IR of every stage
  test/run.sh --quick                                                                        # the tests
TEXT
