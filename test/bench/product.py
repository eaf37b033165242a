"""What `zero` and an evaluation cost: text to tokens beside the tokenizer alone, and validating beside the forward passes it consists of."""
import glob, json, os, statistics, subprocess

PASSES = {"g5m": 128, "g124m": 8}  # of an evaluation, and as many steps of training as there are evaluations
EVALUATIONS = 2
TEXT = ("/usr/share/common-licenses/*", "/usr/share/doc/*/copyright", "/usr/share/doc/**/*.txt", "/usr/lib/python3*/**/*.py", "/usr/include/**/*.h")
MEGABYTES = 100  # of text


def cpu_seconds(command):
    """Of a process and those it started -> (seconds, its stdout)."""
    child = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    out = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit code {child.returncode}")
    return used.ru_utime + used.ru_stime, out


def validation(bench):
    """A run that evaluates less the same run that does not, over as many forward passes of an evaluation alone (less its start)."""
    for preset, passes in PASSES.items():
        data = os.path.join(bench.folder, preset + ".safetensors")
        rows = 4 * (passes + 1)  # of these presets' batches
        train = bench.plan(preset, "with-eval", "--with-eval", rows=rows)
        forward = bench.plan(preset, "forward", "--forward-only", rows=rows)
        out = os.path.join(bench.folder, "validation")
        run = [os.path.join(bench.BIN, "zero-run"), train, "--threads", 1, "--data", data, "--quiet", "--overwrite", "--out", out, "--steps", EVALUATIONS]
        alone = [os.path.join(bench.BIN, "zero-run"), "eval", forward, "--threads", 1, "--data", data, "--quiet", "--steps"]
        commands = {"training": run, "validating": [*run, "--eval-data", data, "--eval-every", 1, "--eval-steps", passes],
                    "one pass": [*alone, 1], "passes": [*alone, passes + 1]}
        seconds = {name: [] for name in commands}
        for turn in range(max(5, bench.rounds)):
            for name in list(commands)[::-1 if turn % 2 else 1]:
                seconds[name].append(cpu_seconds(commands[name])[0])
        ratios = [(with_it - without) / EVALUATIONS / (many - one) for without, with_it, one, many in zip(*seconds.values())]
        middle = {name: statistics.median(values) for name, values in seconds.items()}
        cost = (middle["validating"] - middle["training"]) / EVALUATIONS
        bench.emit(f"validation {preset}, {passes} passes", round(cost, 3), "CPU s", 1.02, round(statistics.median(ratios), 4),
                   peers={"passes alone": round(middle["passes"] - middle["one pass"], 3)}, ratios=[round(r, 4) for r in sorted(ratios)])


TRAIN = """
import sys, tokenizers as t
made = t.Tokenizer(t.models.BPE())
made.pre_tokenizer = t.pre_tokenizers.ByteLevel(add_prefix_space=False)
made.train([sys.argv[1]], t.trainers.BpeTrainer(vocab_size=50257, special_tokens=["<|endoftext|>"], show_progress=False,
                                                initial_alphabet=t.pre_tokenizers.ByteLevel.alphabet()))
made.save(sys.argv[2])
"""
PLAIN = """
import sys, array, tokenizers as t
made, out = t.Tokenizer.from_file(sys.argv[2]), open(sys.argv[3], "wb")
text, count = open(sys.argv[1], encoding="utf-8", newline=""), 0
while lines := text.readlines(1 << 18):
    for one in made.encode_batch_fast(["".join(lines)], add_special_tokens=False):
        out.write(array.array("H", one.ids).tobytes())
"""


def tokens(bench):
    """zero tokens on a core and on two, beside the tokenizer's own fastest call on a core, which writes nothing more than its numbers."""
    text, codec = (os.path.join(bench.folder, name) for name in ("text.txt", "tokenizer.json"))
    size = collect(text)
    subprocess.run([bench.TORCH, "-c", TRAIN, text, codec], check=True, capture_output=True)
    def ours(cores):
        kept = os.sched_getaffinity(0)
        os.sched_setaffinity(0, sorted(kept)[:cores])
        try:
            seconds, out = cpu_seconds([bench.TORCH, "-m", "zero_compile", "tokens", "--tokenizer", codec, text, "-o", os.path.join(bench.folder, "t.bin")])
        finally:
            os.sched_setaffinity(0, kept)
        return size / seconds, json.loads(out.splitlines()[-1])["megabytes_per_second"]
    os.environ["PYTHONPATH"] = os.path.join(bench.ROOT, "python")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    rates = {"one": [], "two": [], "plain": []}
    for _ in range(max(3, bench.rounds)):
        rates["one"].append(ours(1)), rates["two"].append(ours(2))
        rates["plain"].append(size / cpu_seconds([bench.TORCH, "-c", PLAIN, text, codec, os.path.join(bench.folder, "plain")])[0])
    plain = round(statistics.median(rates["plain"]), 2)
    for cores in ("one", "two"):
        rate = statistics.median(r for r, _ in rates[cores])
        bench.emit(f"tokens, {cores} core{'s' if cores == 'two' else ''}", round(rate, 2), "MB per CPU s", 10 if cores == "two" else None, round(rate / plain, 2),
                   peers={"tokenizers alone": plain}, clock=round(statistics.median(r for _, r in rates[cores]), 2))


def collect(path):
    """Text of this machine -> its size in MB."""
    size = 0
    with open(path, "wb") as file:
        for name in sorted(name for pattern in TEXT for name in glob.glob(pattern, recursive=True) if os.path.isfile(name)):
            raw = open(name, "rb").read(1 << 22)
            try:
                raw.decode()
            except UnicodeDecodeError:
                continue
            if b"\0" not in raw:
                size += file.write(raw)
            if size > MEGABYTES * 1e6:
                break
    return size / 1e6
