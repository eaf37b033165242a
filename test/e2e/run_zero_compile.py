#!/usr/bin/env python3
"""zero-compile as a tool: command lines and files it must refuse, with the right exit code, one message and nothing left
behind; and its phases, which can be stopped at, dumped, parsed again and run pass by pass to the very same plan."""
import json, os, pathlib, random, re, resource, signal, subprocess, sys

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(SUPPORT))
from e2e import Case, Suite, same

USAGE, BAD_INPUT, UNSUPPORTED, BUDGET, IO = 2, 3, 4, 5, 6
PHASES = ("import", "grad", "shard", "schedule", "plan")
suite = Suite(__doc__)


def make_gpt(name, *flags):
    path = suite.dir / f"{name}.onnx"
    subprocess.run([sys.executable, SUPPORT / "make_gpt.py", path, "--layers", "1", "--hidden", "32", "--heads", "2", "--vocab", "50",
                    "--seq", "8", *flags], capture_output=True, check=True)
    return path


MODEL, DYNAMIC = make_gpt("model", "--batch", "2"), make_gpt("dynamic", "--batch", "rows")


def file(name, content):
    path = suite.dir / name
    path.write_bytes(content)
    return path


def compile_code(output, *flags):
    """-> (exit code, stderr); whatever was wrong, it must have been said properly and nothing left behind."""
    done = subprocess.run([suite.bin / "zero-compile", *map(str, flags), "-o", output], capture_output=True, text=True,
                          errors="replace", timeout=600)
    if done.returncode != 0:
        if not done.stderr.startswith("error[Z") or done.stdout:
            raise Case(f"said {done.stderr[:300]!r} and {done.stdout[:300]!r}")
        if list(output.parent.glob(output.name + "*")):
            raise Case(f"left {list(output.parent.glob(output.name + '*'))}")
    return done.returncode, done.stderr


def refuses(name, code, text, *flags, output=None):
    def case():
        got, message = compile_code(output or suite.dir / f"refused-{name.replace('/', ' ')}.plan", *flags)
        if got != code or text not in message:
            raise Case(f"exit code {got}: {message.strip()[:500]}")
    return name, case


def flags(line, code, text):
    return refuses(line, code, text, MODEL, *line.split(" "))


COMMAND_LINES = [
    flags("--world-size 0", USAGE, "--world-size"), flags("--world-size -1", USAGE, "--world-size"),
    flags("--world-size 1000000000", USAGE, "--world-size"), flags("--world-size two", USAGE, "--world-size"),
    flags("--world-size 4 --ranks-per-node 3", USAGE, "3 ranks per node do not divide a world of 4"),
    flags("--mesh data=8,model=4 --world-size 16", USAGE, "data=8,model=4 says 32, --world-size 16"),
    flags("--mesh data=3,model=4 --ranks-per-node 6", USAGE, "4 ranks that share samples do not divide 6"),
    flags("--mesh local=2,model=2,node=2", UNSUPPORTED, "local before node"), flags("--mesh rows=2", USAGE, "another name than node, local, data"),
    flags("--zero-stage 4", USAGE, "--zero-stage"), flags("--grad-accumulation 0", USAGE, "--grad-accumulation"),
    flags("--zero-stge 2", USAGE, 'did you mean "--zero-stage"?'), flags("--dmi batch=4", USAGE, 'did you mean "--dim"?'), flags("--xyzzy", USAGE, 'unknown flag "--xyzzy"'),
    flags("-- --zero-stage 2", USAGE, 'unexpected argument "--zero-stage"'),
    flags("--max-grad-norm 1", USAGE, 'it is called "--clip-grad-norm X" here'), flags("--num_epochs 2", USAGE, 'it is zero-run\'s to say: "--epochs N"'),
    flags("another.onnx", USAGE, "another.onnx"), flags("--lr", USAGE, "--lr"), flags("--lr fast", USAGE, "--lr"),
    flags("--lr 1 --lr 1", USAGE, '"--lr" is given 2 times'), flags("--lr 0x10", USAGE, '"0x10" is not a number'), flags("--lr 1e400", USAGE, "finite"),
    flags("--world-size 99999999999999999999", USAGE, "99999999999999999999 is not in [1, 65536]"),
    flags("--lr nan", USAGE, "--lr"), flags("--clip-grad-norm inf", USAGE, "--clip-grad-norm"), flags("--lr -1", USAGE, "--lr"),
    flags("--eps nan", USAGE, "--eps"), flags("--offload-optimizer host --offload-ratio nan", USAGE, "--offload-ratio"),
    flags("--device-mem=", USAGE, "--device-mem"), flags("--host-mem=", USAGE, "--host-mem"), flags("--nvme-mem=", USAGE, "--nvme-mem"),
    flags("--bucket-size=", USAGE, "--bucket-size"), flags("--tile-linear=", USAGE, "--tile-linear"), flags("--betas=", USAGE, "--betas"), flags("--weight-decay nan", USAGE, "--weight-decay"),
    flags("--betas 0.9", USAGE, "--betas"), flags("--betas 0.9,1", USAGE, "--betas"), flags("--optimizer lion", USAGE, "--optimizer"),
    flags("--dim rows=2 --dim rows=3", USAGE, 'dimension "rows" is bound to 2 and to 3'), flags("--dim rows", USAGE, "NAME=N"),
    flags("--dim rows=0", USAGE, "NAME=N"), flags("--dim rows=99999999999999999999", USAGE, "NAME=N"),
    flags("--bucket-size 12GBB", USAGE, '"12GBB" is not a size'), flags("--bucket-size 0", USAGE, '"0" is less than 1 B'),
    flags("--host-mem 0", USAGE, '"0" is less than 1 B'),
    flags("--device-mem -1", USAGE, '"-1" is not a size'), flags("--prefetch soon", USAGE, '"soon" is not a size'),
    flags("--compile-to link", USAGE, "--compile-to"), flags("--compile-to grd", USAGE, 'did you mean "grad"?'), flags("--target cdua", USAGE, 'did you mean "cuda"?'),
    flags("--mlir-prnt", USAGE, 'unknown flag "--mlir-prnt" of MLIR'), flags("--mlir-timng", USAGE, 'did you mean "--mlir-timing"?'),
    flags("--mlir-print-ir-before=csee", USAGE, "a flag of MLIR is not taken: for the --mlir-print-ir-before option: Cannot find option named 'csee'!"),
    flags("--mlir-elide-elementsattrs-if-larger x", USAGE, "'x' value invalid for uint argument!"),
    flags("--matmul-precision iee", USAGE, 'did you mean "ieee"?'),
    flags("--ort-checkpoint nofile", USAGE, "is none of ONNX Runtime's training artifacts"), flags("--ort-optimizer nofile", USAGE, "--ort-optimizer is of"),
    refuses("JSON and a plan on stdout", USAGE, "where -o - writes the plan", MODEL, "--json", output=pathlib.Path("-")), flags("--device-mem 1KiB", BUDGET, "but --device-mem allows 1024"),
    flags("--precision fp16 --quantize-gradients int8 --quantize-error-feedback", UNSUPPORTED, "loss scale"),
    flags("--precision fp8", USAGE, "--precision"), flags("--loss-scale 8", USAGE, "only --precision fp16"),
    flags("--precision bf16 --loss-scale-window 8", USAGE, "only --precision fp16"),
    flags("--precision fp16 --loss-scale 8 --min-loss-scale 2", USAGE, "does not change"),
    flags("--precision fp16 --loss-scale nan", USAGE, "finite"), flags("--precision fp16 --loss-scale -1", USAGE, "--loss-scale"),
    flags("--precision fp16 --initial-loss-scale 1e39", USAGE, "--initial-loss-scale"),
    flags("--precision fp16 --initial-loss-scale 1 --min-loss-scale 2", USAGE, "below --min-loss-scale"),
    flags("--precision fp16 --loss-scale-hysteresis 0", USAGE, "--loss-scale-hysteresis"),
    flags("--precision fp16 --forward-only --loss-scale 8", USAGE, "trains nothing"),
    flags("--auto", USAGE, "within a budget"), flags("--delay-update", USAGE, "only an update on the host is delayed"),
    flags("--delay-update --offload-optimizer host --forward-only", USAGE, "trains nothing"),
    flags("--grad-accum-dtype fp32 --forward-only", USAGE, "trains nothing"),
    flags("--delay-after 3 --offload-optimizer host", USAGE, "says when --delay-update begins"),
    flags("--quantize-weights int4", USAGE, "int4"), flags("--quantize-block 3", USAGE, "even"),
    refuses("no model", USAGE, "no model is given"), refuses("an empty value", USAGE, 'the value of "--config" is empty', MODEL, "--config", ""),
    flags("--list-parameters", USAGE, "makes no plan, report or file"), flags("--compile-to import --json", USAGE, "JSON is made of the report"),
    flags("--compile-to grad --emit-trace trace.json", USAGE, "not made with --compile-to grad"),
    flags("--compile-to grad --memory-html page.html", USAGE, "--> --memory-html"), flags("--compile-to grad --dry-run", USAGE, "--> --dry-run"), flags("--dry-run=maybe", USAGE, "could not convert"),
    flags("--explain-sharding", USAGE, "it explains --tensor-parallel T"),
    refuses("a configuration beside ranks that share samples unevenly", USAGE, "divide", MODEL, "--world-size", "4", "--tensor-parallel", "3", "--config",
            file("batches.json", b'{"train_batch_size": 8}')),
    flags("--memory-html -", USAGE, "--memory-html does not write to stdout"), flags("--emit-trace -", USAGE, "--emit-trace does not write to stdout"),
    refuses("no such folder", IO, "cannot create", MODEL, output=suite.dir / "nowhere/a.plan"),
    refuses("dump over a file", IO, "", MODEL, "--dump-phases-to", file("no-folder", b"")),
]
data = MODEL.read_bytes()
FILES = [
    refuses("missing", BAD_INPUT, "nothing.onnx", suite.dir / "nothing.onnx"),
    refuses("a folder", BAD_INPUT, "", suite.dir),
    refuses("empty", BAD_INPUT, "empty.onnx", file("empty.onnx", b"")),
    refuses("text", BAD_INPUT, "text.onnx", file("text.onnx", b"# not a model\n" * 100)),
    refuses("unbound dimension", USAGE, "rows=N", DYNAMIC),
    refuses("unknown loss", USAGE, "lost", MODEL, "--loss", "lost"),
    refuses("without its data", BAD_INPUT, "other.onnx.data", file("other.onnx", data.replace(b"model.onnx.data", b"other.onnx.data"))),
    refuses("data outside the folder", BAD_INPUT, "", file("outside.onnx", data.replace(b"model.onnx.data", b"../../../passwd"))),
]


def options_of_other_rules():
    """torch's SGD has a momentum, ours is another rule: an option that does nothing is told of, one that does something is not."""
    model = suite.dir / "model.onnx"
    for flags, told in ((("--optimizer", "sgd", "--momentum", 0.9), "--momentum changes nothing with --optimizer sgd; it is for --optimizer momentum"),
                        (("--optimizer", "momentum", "--betas", "0.9,0.95"), "--betas changes nothing with --optimizer momentum"),
                        (("--optimizer", "momentum", "--momentum", 0.9), None), (("--eps", 1e-6), None)):
        done = subprocess.run([str(suite.bin / "zero-compile"), str(model), "--dry-run", *map(str, flags)], capture_output=True, text=True)
        if done.returncode != 0 or ((told or "changes nothing") in done.stderr) != bool(told):
            raise Case(f"{flags}: exit code {done.returncode}: {done.stderr}")


def report_of_a_plan():
    """--json says what is in a plan that is written, as --dry-run --json does without one."""
    model, plan = suite.dir / "model.onnx", suite.dir / "told.plan"
    beside = json.loads(suite.tool("zero-compile", model, "-o", plan, "--json"))
    same("report", beside, json.loads(suite.tool("zero-compile", model, "--dry-run", "--json")))
    if not plan.is_file():
        raise Case("there is no plan")


def overwrites():
    """No output is an input, whatever it is called, nor another output; nothing is touched."""
    folder = suite.dir / "kept"
    folder.mkdir()
    for name in ("model.onnx", "model.onnx.data"):
        (folder / name).write_bytes((suite.dir / name).read_bytes())
    (folder / "ds.json").write_text("{}")
    (folder / "groups.json").write_text('[{"params": "*", "lr_scale": 1}]')
    machine = folder / "machine.json"
    suite.tool("zero-run", "bench-io", suite.dir, "--size", "1MiB", "-o", machine)
    (folder / "link").symlink_to("model.onnx")
    os.link(folder / "ds.json", folder / "linked")
    os.mkdir(folder / "dumps")
    os.link(folder / "model.onnx", folder / "dumps/3-shard.mlir")
    ir = folder / "dumps/ir.mlir"
    ir.write_text("module {}")
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    model, inputs = folder / "model.onnx", ("--config", folder / "ds.json", "--machine", machine, "--param-groups", folder / "groups.json")
    commands = [("zero-compile", model, *inputs, flag, folder / name) for name in (*before, "../kept/model.onnx")
                for flag in ("-o", "--memory-html", "--emit-trace")]
    commands = [command if "-o" in command else (*command, "-o", folder / "plan") for command in commands]
    commands += [("zero-compile", model, "--compile-to", "grad", "-o", model), ("zero-compile", model, "--dry-run", "--memory-html", model),
                 ("zero-compile", model, "--dump-phases-to", folder / "dumps", "--dry-run"),
                 ("zero-compile", model, "--dump-phases-to", model, "--dry-run"), ("zero-compile", model, "--dump-phases-to", folder / "link", "--dry-run"),
                 ("zero-compile", model, "-o", folder / "plan", "--emit-trace", folder / "dumps/../plan"),
                 ("zero-opt", ir, "-o", ir), ("zero-opt", ir, "-o", folder / "../kept/dumps/ir.mlir"),
                 ("zero-translate", "--import-onnx", model, "-o", model), ("zero-translate", "--import-onnx", model, "-o", folder / "model.onnx.data"),
                 ("zero-translate", "--plan-to-mlir", folder / "ds.json", "-o", folder / "ds.json")]
    replaced = [("zero-compile", suite.dir / "model.onnx", "-o", model), ("zero-compile", suite.dir / "model.onnx", "--dry-run", "--memory-html", model),
                ("zero-compile", suite.dir / "model.onnx", "--compile-to", "grad", "-o", model), ("zero-opt", "/dev/null", "-o", model),
                ("zero-run", "bench-io", suite.dir, "--size", "1MiB", "-o", model)]
    for command in replaced:
        message = suite.tool(*command, code=USAGE)
        if "is an ONNX model, and would be replaced" not in message:
            raise Case(f"{command[1:]}: {message}")
    for command in commands:
        message = suite.tool(*command, code=USAGE)
        if "would overwrite the input" not in message and "are one file" not in message:
            raise Case(message)
    same("files", {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}, before)
    same("IR", ir.read_text(), "module {}")
    return f"{len(commands)} commands"


def truncated():
    """Cut anywhere, the file is refused as damaged."""
    cuts = sorted({len(data) * k // 48 for k in range(1, 48)} | {1, 2, len(data) - 1})
    for cut in cuts:
        code, message = compile_code(suite.dir / "truncated.plan", file("truncated.onnx", data[:cut]))
        if code != BAD_INPUT:
            raise Case(f"cut at {cut}: exit code {code}: {message.strip()}")
    return f"{len(cuts)} cuts"


def altered():
    """Altered anywhere, the file is compiled or refused, and the tool neither crashes nor blames itself."""
    rng, codes = random.Random(3), {}
    for _ in range(150):
        changed = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        plan = suite.dir / "altered.plan"
        code, message = compile_code(plan, file("altered.onnx", bytes(changed)))
        plan.unlink(missing_ok=True)
        if code not in (0, USAGE, BAD_INPUT, UNSUPPORTED):
            raise Case(f"exit code {code}: {message.strip()[:300]}")
        codes[code] = codes.get(code, 0) + 1
    return str(codes)


def names():
    """A name that is not UTF-8, wherever it stands, is refused as bad input: plans and reports are text."""
    source = MODEL.read_bytes()
    strings = {source[i + 1:i + 1 + source[i]] for i in range(len(source)) if 3 <= source[i] < 128}
    words, refused = sorted(word for word in strings if re.fullmatch(rb"[A-Za-z_/][\w./:-]+", word)), 0
    for word in words:
        broken = source.replace(bytes([len(word)]) + word, bytes([len(word)]) + b"\xff" + word[1:])
        plan = suite.dir / "names.plan"
        code, message = compile_code(plan, file("names.onnx", broken))
        plan.unlink(missing_ok=True)
        if code not in (0, BAD_INPUT, UNSUPPORTED):  # 0: of what the plan does not have; 4: of an operator or attribute
            raise Case(f"{word}: exit code {code}: {message.strip()[:300]}")
        refused += "is not UTF-8" in message
    if refused < 20:
        raise Case(f"only {refused} of {len(words)} names are refused")
    odd = pathlib.Path(os.fsdecode(bytes(suite.dir) + b"/m\xff.onnx"))
    odd.write_bytes(source)
    code, message = compile_code(suite.dir / "odd.plan", odd)
    if code != BAD_INPUT:
        raise Case(f"a path that is not UTF-8: exit code {code}: {message.strip()[:300]}")
    return f"{refused} of {len(words)}"


SETTINGS = ("--world-size", 3, "--zero-stage", 3, "--bucket-size", "16KiB", "--precision", "bf16", "--grad-accumulation", 2,
            "--clip-grad-norm", 1, "--prefetch", "64KiB")
ALONE = {  # one pass after the other from the dump before to the dump named
    "shard": ["--zero-bucket=world-size=3 bucket-size=16384", "--zero-partition=zero-stage=3 grad-accumulation=2",
              "--zero-insert-gather-release", "--verify-zero"],
    "schedule": ["--assign-queues", "--prefetch=prefetch=65536", "--order", "--plan-memory"],
    "plan": ["--keep-packed", "--lower-to-plan", "--verify-plan"],
}


def opt(path, *passes):
    return suite.tool("zero-opt", path, *passes, "--mlir-print-debuginfo")


def dump_of(phase):
    return suite.dir / f"phases/{PHASES.index(phase) + 1}-{phase}.mlir"


def dumps():
    """One readable, numbered file per phase; the plan is the same as without them."""
    suite.compile(MODEL, suite.dir / "plain.plan", *SETTINGS)
    suite.compile(MODEL, suite.dir / "dumped.plan", *SETTINGS, "--dump-phases-to", suite.dir / "phases")
    same("plan", (suite.dir / "dumped.plan").read_bytes(), (suite.dir / "plain.plan").read_bytes())
    mask = os.umask(0)
    os.umask(mask)
    if (rights := (suite.dir / "phases").stat().st_mode & 0o777) != 0o777 & ~mask:
        raise Case(f"the folder has the rights {rights:o}")
    names = sorted(p.name for p in (suite.dir / "phases").iterdir())
    if names != [dump_of(phase).name for phase in PHASES]:
        raise Case(f"dumped {names}")
    for phase in PHASES:
        if "graph." not in opt(dump_of(phase)):
            raise Case(f"{phase}: nothing in it")


def stop_at(phase):
    """What --compile-to prints is the dump without its locations."""
    text = suite.tool("zero-compile", MODEL, *SETTINGS, "--compile-to", phase)
    path = suite.dir / f"stopped-{phase}.mlir"
    path.write_text(text)
    same("module", suite.tool("zero-opt", path), suite.tool("zero-opt", dump_of(phase)))


def alone(phase):
    path = dump_of(PHASES[PHASES.index(phase) - 1])
    for number, one in enumerate(ALONE[phase]):
        text = opt(path, one)
        path = suite.dir / f"alone-{phase}-{number}.mlir"
        path.write_text(text)
    same("module", path.read_text(), opt(dump_of(phase)))
    return f"{len(ALONE[phase])} passes"


def grad_alone():
    text = opt(dump_of("import"), "--zero-grad-pipeline=precision=bf16 clip-grad-norm=1")
    if "graph.update" not in text or "bf16" not in text:
        raise Case("no update")


def back_to_plan():
    """The last dump is the plan."""
    suite.tool("zero-translate", "--mlir-to-plan", dump_of("plan"), "-o", suite.dir / "again.plan")
    same("plan", (suite.dir / "again.plan").read_bytes(), (suite.dir / "plain.plan").read_bytes())


def dry_run():
    """A report and no plan; the same numbers in both forms."""
    plan = suite.dir / "dry.plan"
    got = json.loads(suite.tool("zero-compile", MODEL, *SETTINGS, "--dry-run", "--json", "-o", plan))
    table = suite.tool("zero-compile", MODEL, *SETTINGS, "--dry-run")
    if plan.exists():
        raise Case("a plan was written")
    for number in (f"{got['parameters']} trainable", f"{got['tiers']['device']['peak_bytes']} bytes", f"{got['buckets']} buckets"):
        if number not in table:
            raise Case(f"the table lacks {number!r}: {table}")


def memory_of_chain(nodes):
    """Bytes that compiling a chain of so many nodes takes at most."""
    model = suite.dir / f"chain{nodes}.onnx"
    subprocess.run([sys.executable, SUPPORT / "make_chain.py", model, "--nodes", str(nodes)], check=True)
    child = subprocess.Popen([suite.bin / "zero-compile", model, "-o", model.with_suffix(".plan")], stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise Case(f"exit code {child.returncode}")
    return used.ru_maxrss * 1024


def memory_per_node():
    """Of large graphs memory grows with the nodes, and by little."""
    fewer, more = 20000, 60000
    each = (memory_of_chain(more) - memory_of_chain(fewer)) / (more - fewer)
    if each > 1500:
        raise Case(f"{each:.0f} bytes a node")
    return f"{each:.0f} bytes a node"


def bytes_of(*command, **how):
    """stdout of what succeeds."""
    done = subprocess.run([suite.bin / command[0], *map(str, command[1:])], capture_output=True, timeout=600, cwd=suite.dir, **how)
    if done.returncode:
        raise Case(f"exit code {done.returncode}: {done.stderr.decode()[-500:]}")
    return done.stdout


def to_stdout():
    """"-" is stdout: of IR, and of a plan, which is the one that a file has, but not of a terminal."""
    plan = suite.compile(MODEL, suite.dir / "same.plan", "--zero-stage", 1)
    same("the plan", bytes_of("zero-compile", MODEL, "-o", "-", "--zero-stage", 1), plan.read_bytes())
    ir = bytes_of("zero-compile", MODEL, "--compile-to", "import")
    same("IR", bytes_of("zero-compile", MODEL, "--compile-to", "import", "-o", "-"), ir)
    same("a file called -", (suite.dir / "-").exists(), False)
    ours, theirs = os.openpty()
    done = subprocess.run([suite.bin / "zero-compile", MODEL, "-o", "-"], stdout=theirs, stderr=subprocess.PIPE, timeout=600)
    os.close(ours), os.close(theirs)
    if done.returncode != USAGE or b"not written to a terminal" not in done.stderr:
        raise Case(f"to a terminal: {done.returncode}: {done.stderr.decode()}")
    for words in ((MODEL, "-o", "-"), (MODEL, "--list-parameters"), (MODEL, "--explain-offload"), ("--help",)):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([suite.bin / "zero-compile", *words], stdout=full, stderr=subprocess.PIPE, timeout=600)
        if done.returncode != IO:
            raise Case(f"{words[-1]} to a full disk: {done.returncode}: {done.stderr.decode()}")
        reader, writer = os.pipe()
        os.close(reader)
        same(f"{words[-1]} without a reader", subprocess.run([suite.bin / "zero-compile", *words], stdout=writer, timeout=600).returncode, 0)
        os.close(writer)
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    done = subprocess.run([suite.bin / "zero-compile", MODEL, "-o", suite.dir / "limited.plan"], preexec_fn=limit, stderr=subprocess.PIPE, timeout=600)
    if done.returncode != IO or list(suite.dir.glob("limited.plan*")):
        raise Case(f"over a limit of size: {done.returncode}: {done.stderr.decode()}")


def small_stacks():
    """Where more is allowed than the limit is, more is taken; where not, it is refused instead of a crash in the middle."""
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    for soft, most, code in ((64 << 10, hard, 0), (64 << 10, 64 << 10, BUDGET)):
        limit = lambda: resource.setrlimit(resource.RLIMIT_STACK, (soft, most))
        done = subprocess.run([suite.bin / "zero-compile", MODEL, "--dry-run"], preexec_fn=limit, capture_output=True, text=True, timeout=600)
        if done.returncode != code or ("ulimit -s" in done.stderr) != (code == BUDGET):
            raise Case(f"{soft} of {most}: {done.returncode}: {done.stderr}")


def closed_streams():
    """Begun with its standard streams closed a program writes the files that it writes else: none takes the place of a stream."""
    plan, dumps = suite.dir / "streams.plan", suite.dir / "streams-phases"
    suite.compile(MODEL, plan)
    expected = plan.read_bytes()
    plan.unlink()
    words = {"zero-compile": (MODEL, "-o", plan, "--dump-phases-to", dumps), "zero-translate": ("--plan-to-mlir", plan, "-o", suite.dir / "streams.mlir"),
             "zero-run": ("inspect", plan)}
    for program, flags in words.items():
        done = subprocess.run(["bash", "-c", 'exec "$@" <&- >&- 2>&-', program, suite.bin / program, *flags], timeout=600)
        same(f"{program}'s exit code", done.returncode, 0)
    same("the plan", plan.read_bytes(), expected)
    same("the plan's text", (suite.dir / "streams.mlir").read_text(), suite.tool("zero-translate", "--plan-to-mlir", plan))


def translated():
    """zero-translate's output is whole or not touched, and a reader that has gone is no error."""
    plan, old = suite.compile(MODEL, suite.dir / "translated.plan"), file("old.mlir", b"before")
    command = [suite.bin / "zero-translate", "--plan-to-mlir", plan]
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    done = subprocess.run([*command, "-o", old], preexec_fn=limit, stderr=subprocess.PIPE, timeout=600)
    if done.returncode != IO or b"cannot write" not in done.stderr or old.read_bytes() != b"before" or list(suite.dir.glob("old.mlir.*")):
        raise Case(f"over a limit of size: {done.returncode}: {done.stderr.decode()}")
    with open("/dev/full", "wb") as full:
        same("to a full disk", subprocess.run(command, stdout=full, stderr=subprocess.DEVNULL, timeout=600).returncode, IO)
    reader, writer = os.pipe()
    os.close(reader)
    same("without a reader", subprocess.run(command, stdout=writer, stderr=subprocess.DEVNULL, timeout=600).returncode, 0)
    os.close(writer)
    same("text", bytes_of(*command), (subprocess.run([*command, "-o", old], check=True, timeout=600), old.read_bytes())[1])


def tables_alone():
    """What explains makes nothing else, unless that is asked for."""
    page = suite.dir / "explained.html"
    table = bytes_of("zero-compile", MODEL, "--explain-offload")
    told = bytes_of("zero-compile", MODEL, "--explain-offload", "--memory-html", page)
    if b"is the placement" not in told or not page.exists() or b"what binds" in table:
        raise Case("the page is missing, or a report too many")
    done = subprocess.run([suite.bin / "zero-compile", MODEL, "--explain-offload", "--json"], capture_output=True, text=True, timeout=600)
    if done.returncode != USAGE or done.stdout or "JSON is made of the report" not in done.stderr:
        raise Case(f"{done.returncode}: {done.stdout}{done.stderr}")


def flags_of_mlir():
    """They take passes by name, and values in words of their own."""
    shown = subprocess.run([suite.bin / "zero-compile", MODEL, "--dry-run", "--mlir-print-ir-before=differentiate"], capture_output=True, text=True, check=True, timeout=600).stderr
    if "IR Dump Before Differentiate (differentiate)" not in shown:
        raise Case(shown[:500] or "nothing is printed")
    suite.tool("zero-compile", MODEL, "--dry-run", "--mlir-print-ir-before=cse")
    texts = [bytes_of("zero-compile", *words) for words in
             ((MODEL, "--compile-to", "import", "--mlir-elide-elementsattrs-if-larger", 1), ("--mlir-elide-elementsattrs-if-larger=1", MODEL, "--compile-to", "import"))]
    same("both ways", *texts)


def parameters_as_json():
    """The table's rows."""
    rows = [line.split() for line in suite.tool("zero-compile", MODEL, "--list-parameters").splitlines()[1:-1]]
    listed = json.loads(suite.tool("zero-compile", MODEL, "--list-parameters", "--json"))
    same("names", [each["name"] for each in listed], [row[0] for row in rows])
    same("shapes", ["x".join(map(str, each["shape"])) or "scalar" for each in listed], [row[2] for row in rows])
    same("roles", [(each["dtype"], each["role"]) for each in listed], [(row[1], row[3]) for row in rows])
    same("what trains", [each["trainable"] for each in listed], [row[3] == "trainable" for row in rows])
    same("what is tied", [",".join(each["tied"]) or "-" for each in listed], [row[4] for row in rows])


def ieee_is_as_without():
    plans = [suite.plan_hash(suite.compile(MODEL, suite.dir / f"ieee{i}.plan", *flags)) for i, flags in enumerate(((), ("--matmul-precision", "ieee")))]
    same("plans", *plans)


def tf32_is_of_gpus():
    """The plan says it, also where it is written as MLIR on its way, and products are expected to take less time."""
    flags = ("--target", "cuda", "--machine", "h100,flops_per_second=1e9,tf32_flops_per_second=8e9")
    def seconds(*more):
        return json.loads(suite.tool("zero-compile", MODEL, *flags, *more, "--dry-run", "--json"))["predicted_step_seconds"]

    ieee, tf32 = seconds(), seconds("--matmul-precision", "tf32")
    if not 2 < ieee / tf32 < 8:
        raise Case(f"{ieee} s, and {tf32} s in TF32")
    plan = suite.compile(MODEL, suite.dir / "tf32.plan", *flags, "--matmul-precision", "tf32")
    back = suite.dir / "tf32-back.plan"
    (suite.dir / "tf32.mlir").write_text(suite.tool("zero-translate", "--plan-to-mlir", plan))
    suite.tool("zero-translate", "--mlir-to-plan", suite.dir / "tf32.mlir", "-o", back)
    for each in (plan, back):
        if "products in tf32" not in suite.tool("zero-run", "inspect", each):
            raise Case(f"{each.name} does not say so")


def help_texts():
    short, long = suite.tool("zero-compile", "--help"), suite.tool("zero-compile", "--help-all")
    for flag in ("--world-size", "--zero-stage", "--dry-run", "--target", "--machine", "--tensor-parallel", "--fuse", "--with-eval", "--param-groups"):
        if flag not in short or flag not in long:
            raise Case(f"no {flag}")
    if "--offload-optimizer" not in long or len(short.splitlines()) > 40:
        raise Case("the help is not long, or the short one not short")


suite.run(COMMAND_LINES + FILES + [("options of other rules", options_of_other_rules), ("report of a plan", report_of_a_plan), ("overwrites", overwrites), ("truncated", truncated), ("altered", altered), ("names", names), ("dumps", dumps)])
suite.run([(f"stop at {phase}", lambda p=phase: stop_at(p)) for phase in PHASES] +
          [(f"{phase} pass by pass", lambda p=phase: alone(p)) for phase in ALONE] +
          [("grad pipeline alone", grad_alone), ("back to the plan", back_to_plan), ("dry run", dry_run), ("help", help_texts),
           ("stdout", to_stdout), ("closed streams", closed_streams), ("small stacks", small_stacks), ("zero-translate's output", translated), ("tables alone", tables_alone), ("flags of MLIR", flags_of_mlir), ("parameters as JSON", parameters_as_json), ("--matmul-precision ieee", ieee_is_as_without), ("--matmul-precision tf32", tf32_is_of_gpus),
           ("memory per node", memory_per_node)])
suite.finish()
