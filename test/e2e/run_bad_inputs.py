#!/usr/bin/env python3
"""Bad inputs of docs/safety.md that no other test tries, by their numbers there: refused with the right code and one located message,
soon, and nothing is left; or done rightly, where only the surroundings are strange."""
import itertools, json, os, pathlib, re, resource, signal, struct, subprocess, sys

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(SUPPORT))
from e2e import Case, Suite
import onnx_write

suite = Suite(__doc__)
GPT2 = suite.models / "gpt2"
INPUTS = GPT2 / "inputs.safetensors"
USAGE, BAD_INPUT, UNSUPPORTED, BUDGET, CORRUPT, MISMATCH = 2, 3, 4, 5, 9, 10


def file(name, content):
    path = suite.dir / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


MODEL = file("model.onnx", (GPT2 / "ts17.onnx").read_bytes())
for beside in GPT2.glob("ts17.onnx.*"):
    file(beside.name, beside.read_bytes())
PLAN = suite.compile(MODEL, suite.dir / "plain.plan")


def call(*command, seconds=60, **how):
    """Exit code, stdout, stderr of what takes no more CPU seconds: its own, other cases run beside it."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    done = subprocess.run([str(suite.bin / command[0]), *map(str, command[1:])], capture_output=True, text=True, errors="replace", timeout=600,
                          preexec_fn=limit, **how)
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise Case(f"{' '.join(map(str, command))[:300]}: more than {seconds} CPU s")
    return done.returncode, done.stdout, done.stderr


def refused(codes, words, *command, left=None, seconds=10, **how):
    code, out, err = call(*command, seconds=seconds, **how)
    if code not in codes or words not in err or "error[Z" not in err or out:
        raise Case(f"{' '.join(map(str, command))[:300]}: exit code {code}: {err.strip()[:500]}")
    if left is not None and left.exists():
        raise Case(f"left {left}")


NUMBERS = itertools.count(1)


def compile_refused(codes, words, model, *flags, **how):
    out = suite.dir / f"{pathlib.Path(model).name[:40]}-{next(NUMBERS)}.refused"
    refused(codes, words, "zero-compile", model, "-o", out, *flags, left=out, **how)


def train(plan, out, *flags, **how):
    return call("zero-run", plan, "--steps", 2, "--threads", 1, "--quiet", "--out", out, *flags, **how)


def node(kind, inputs, outputs, *attributes, domain=""):
    body = b"".join(onnx_write.data(1, name) for name in inputs) + b"".join(onnx_write.data(2, name) for name in outputs)
    return onnx_write.data(1, body + onnx_write.data(4, kind) + b"".join(onnx_write.data(5, attribute) for attribute in attributes))


def value(field, name, shape=(2, 3)):
    dims = b"".join(onnx_write.data(1, onnx_write.number(1, dim)) for dim in shape)
    return onnx_write.data(field, onnx_write.data(1, name) + onnx_write.data(2, onnx_write.data(1, onnx_write.number(1, 1) + onnx_write.data(2, dims))))


def model(name, nodes, output="y"):
    graph = nodes + onnx_write.data(2, "g") + value(11, "x") + value(12, output, (2, 3))
    return file(name, onnx_write.number(1, 8) + onnx_write.data(7, graph) + onnx_write.data(8, onnx_write.data(1, "") + onnx_write.number(2, 17)))


def a_chain_of_a_million_nodes():
    """21"""
    chain = b"".join(node("Relu", [f"v{i}" if i else "x"], [f"v{i + 1}"]) for i in range(1000001))
    compile_refused((BAD_INPUT, UNSUPPORTED, USAGE), "more than 1000000 nodes", model("chain.onnx", chain, "v1000001"), "--forward-only", seconds=30)


def bodies_of_loops_with_other_arities():
    """51"""
    body = onnx_write.data(1, "body") + onnx_write.data(6, onnx_write.data(2, "b") + value(11, "only")) + onnx_write.number(20, 5)
    for kind in ("Loop", "Scan"):
        compile_refused((BAD_INPUT, UNSUPPORTED), kind, model(f"{kind}.onnx", node(kind, ["x"], ["y"], body)), "--forward-only")


def damaged_programs(words):
    """A sound program's words, of which the first instruction adds or multiplies, with one thing wrong each; and what is said of it."""
    return {"a register out of range": ([*words[:3], 99, *words[4:]], "a register that instruction 0 reads is 99"),
            "types that differ": ([*words[:2], 3, *words[3:]], "instruction 0 has operands or a result of types that do not go together"),
            "no end": (words[:4], "it ends in a register that instruction 0 reads"),
            "more work than it says": ([words[0] - 1, *words[1:]], f"it has no end behind {words[0] - 1} instructions")}


def programs_that_are_not_sound():
    """62: of a kernel `fused`, and of one that takes a program for an operand; by whatever reads the plan first, and the node is named."""
    sound = suite.compile(suite.models / "resnet/dynamo18.onnx", suite.dir / "programs.plan", "--batch-norm", "train")
    text = suite.tool("zero-translate", "--plan-to-mlir", sound)
    data, out = suite.models / "resnet/inputs.safetensors", suite.dir / "programs"
    for kernel in ("fused", "batch_norm_grad_sums"):
        steps = [line for line in text.splitlines() if f'"{kernel}"' in line or f"@{kernel} " in line]
        found = next(filter(None, (re.search(r"program = array<i64: (\d+, (?:[4-7]), 0, .*?)>", step) for step in steps)), None)
        if not found:
            raise Case(f"no program of {kernel} that begins with arithmetic in {len(steps)} steps")
        for what, (words, said) in damaged_programs(list(map(int, found[1].split(", ")))).items():
            damaged = f"program = array<i64: {', '.join(map(str, words))}>"
            source = file("programs.mlir", text.replace(found[0], damaged))
            plan = suite.dir / "unsound.plan"
            suite.tool("zero-translate", "--mlir-to-plan", source, "-o", plan)
            for command in ((plan, "--data", data, "--steps", 1, "--out", out), ("inspect", plan), ("eval", plan, "--data", data)):
                code, printed, err = call("zero-run", *command)
                if code != CORRUPT or said not in err or 'node "' not in err or f"'{kernel}'" not in err or printed or out.exists():
                    raise Case(f"{kernel}, {what}: zero-run {command[0]}: exit code {code}: {err.strip()[:500]}")


def token_files_of_other_formats():
    """82, 85: an index of Megatron's, an archive: neither is taken for tokens."""
    for name, content in (("corpus.idx", b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, 2, 3) + bytes(40)), ("corpus.tar", b"../../etc/passwd".ljust(512, b"\0")),
                          ("short.bin", b"\x01"), ("empty.bin", b"")):
        out = suite.dir / f"out-{name}"
        refused((USAGE, BAD_INPUT, UNSUPPORTED, MISMATCH), name, "zero-run", PLAN, "--tokens", file(name, content), "--steps", 1, "--out", out, left=out)


def patterns_that_match_nothing():
    """84: patterns are the shell's; what is left of one is the name of no file."""
    for flag in ("--tokens", "--data"):
        refused((BAD_INPUT,), "*.nothing", "zero-run", PLAN, flag, suite.dir / "*.nothing", "--steps", 1, "--out", suite.dir / "none", left=suite.dir / "none")


def configurations_that_say_two_things():
    """88: comments may stand, NaN and a key given twice may not pass as if nothing were."""
    compile_refused((USAGE, BAD_INPUT), "nan.json", MODEL, "--config", file("nan.json", '{"gradient_clipping": NaN}'))
    compile_refused((USAGE, BAD_INPUT), "twice.json", MODEL, "--config",
                    file("twice.json", '{"zero_optimization": {"stage": 1}, "zero_optimization": {"stage": 3}}'))
    commented = suite.compile(MODEL, suite.dir / "commented.plan", "--config", file("c.json", '{/* what */ "gradient_clipping": 1.0 // how\n}'))
    if suite.plan_hash(commented) != suite.plan_hash(suite.compile(MODEL, suite.dir / "clipped.plan", "--clip-grad-norm", 1)):
        raise Case("a comment changes the plan")


def sizes_that_are_none():
    """89"""
    for size in ("12GBB", "-1", "1e30G", "99999999999GiB", "0x10", "nan", "1 GiB x", "٣GiB"):
        compile_refused((USAGE,), "is not a size", MODEL, f"--device-mem={size}")


def names_of_all_kinds():
    """91"""
    folder = suite.dir / "a folder with spaces, ünïcode and -dashes"
    for name in ("-v model.onnx", "модель.onnx"):
        copy = file(f"{folder.name}/{name}", MODEL.read_bytes())
        for beside in suite.dir.glob("ts17.onnx.*"):
            file(f"{folder.name}/{beside.name}", beside.read_bytes())
        plan = suite.compile(copy, folder / f"-{name}.plan")
        for plan_name, out in ((plan, folder / "-out -n 3"), (f"./-{name}.plan", "./--steps")):
            code, _, err = train(plan_name, out, "--data", INPUTS, "--overwrite", cwd=folder)
            if code or not (folder / out / "final/manifest.json").exists():
                raise Case(f"{plan_name}: exit code {code}: {err}")
    suite.tool("zero-run", "export", folder / "-out -n 3", "--safetensors", folder / "-weights of ü.safetensors")


def outputs_that_cannot_be():
    """92"""
    own = file("own/model.onnx", MODEL.read_bytes())  # which no other case reads
    for beside in suite.dir.glob("ts17.onnx.*"):
        file(f"own/{beside.name}", beside.read_bytes())
    plan = suite.compile(own, own.with_suffix(".plan"))
    refused((6,), "not a directory", "zero-run", plan, "--data", INPUTS, "--steps", 1, "--out", own / "run")
    refused((6,), "not a directory", "zero-run", plan, "--data", INPUTS, "--steps", 1, "--out", file("taken", "mine"))
    refused((USAGE,), "would overwrite the input", "zero-run", plan, "--data", INPUTS, "--steps", 1, "--out", own)
    other = suite.dir / "other"
    file("other/mine.txt", "mine")
    if train(PLAN, other, "--data", INPUTS)[0] or train(PLAN, other, "--data", INPUTS, "--overwrite")[0]:
        raise Case("a folder with other files is nobody's run")
    if (other / "mine.txt").read_text() != "mine":
        raise Case("a file of others is gone")
    read_only = "/proc/self"
    refused((6,), "cannot create", "zero-compile", MODEL, "-o", f"{read_only}/a.plan")
    refused((6,), "", "zero-run", PLAN, "--data", INPUTS, "--steps", 1, "--out", f"{read_only}/run")


def streams_that_are_closed():
    """93: zero-compile; zero-run's are tried by test/runtime_train/cli_faults.py."""
    for closed in (0, 1, 2):
        plan = suite.dir / f"closed-{closed}.plan"
        done = subprocess.run([suite.bin / "zero-compile", MODEL, "-o", plan], preexec_fn=lambda: os.close(closed), timeout=600)
        if done.returncode or plan.read_bytes() != PLAN.read_bytes():
            raise Case(f"without {closed}: exit code {done.returncode}")


def numbers_of_another_language():
    """94: a decimal comma, where the locale is there."""
    known = subprocess.run(["locale", "-a"], capture_output=True, text=True).stdout.lower()
    for language in ("de_DE.UTF-8", "de_DE", "C.UTF-8", "xx_XX"):
        plan, how = suite.dir / f"{language}.plan", {"env": {**os.environ, "LANG": language, "LC_ALL": language}}
        code, _, err = call("zero-compile", MODEL, "-o", plan, "--lr", "0.0125", "--betas", "0.8,0.99", **how)
        if code:
            raise Case(err)
        out = suite.dir / f"run-{language}"
        code, last, err = train(plan, out, "--data", INPUTS, **how)
        steps = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        if code or steps[0]["lr"] != 0.0125 or json.loads(last.splitlines()[-1])["loss"] != steps[-1]["loss"]:
            raise Case(f"{language}: {err} {steps}")
    refused((USAGE,), "--lr", "zero-compile", MODEL, "--lr", "0,5", "-o", suite.dir / "comma.plan", left=suite.dir / "comma.plan")
    return "with de_DE" if "de_de" in known else "de_DE is not installed"


def arguments_of_two_megabytes():
    """95: or of what the system passes on, beside the environment, with a pointer to each."""
    room = os.sysconf("SC_ARG_MAX") - sum(len(key) + len(value) + 16 for key, value in os.environb.items()) - 100_000
    many = [f"--no-decay=p{'x' * 100}{i}" for i in range(min(15000, room // 130))]
    compile_refused((USAGE, BAD_INPUT), "", MODEL, *many[:1], "--lr", "x" * 120000)
    code, _, err = call("zero-compile", MODEL, "-o", suite.dir / "many.plan", *many)
    if code not in (0, USAGE) or (code and "error[Z" not in err):
        raise Case(f"exit code {code}: {err[:300]}")
    refused((USAGE,), "unknown flag", "zero-run", PLAN, *(f"--{'y' * 120000}" for _ in range(min(10, room // 130000))))


suite.run([(case.__name__.replace("_", " "), case) for case in (
    a_chain_of_a_million_nodes, bodies_of_loops_with_other_arities, programs_that_are_not_sound, token_files_of_other_formats, patterns_that_match_nothing,
    configurations_that_say_two_things, sizes_that_are_none, names_of_all_kinds, outputs_that_cannot_be, streams_that_are_closed,
    numbers_of_another_language, arguments_of_two_megabytes)])
suite.finish()
