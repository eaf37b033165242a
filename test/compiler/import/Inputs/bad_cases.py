"""The bad inputs of the safety rules (cases 1 to 55), one table: each gives its exit code and a message that locates the fault,
within 2 s of processor time (of a slow machine, what 60 good models take) and file size + 256 MiB, reads nothing outside the model's folder
and leaves no output.
Usage: bad_cases.py ZERO-TRANSLATE FOLDER"""
import os
import random
import shutil
import socket
import subprocess
import sys

from model import *  # noqa: F403

tool, folder = sys.argv[1:3]
SANITIZED = "ASAN_OPTIONS" in os.environ  # slower, and its shadow memory counts
shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder + "/model")
failures = []
count = 0
most_seconds = 40 if SANITIZED else 2


def run(arguments):
    """exit code, stderr, processor seconds, peak bytes"""
    with open(folder + "/stderr", "w+b") as errors:
        process = subprocess.Popen([tool, *arguments], stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        text = errors.read().decode(errors="replace")
    return process.returncode, text, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def check(name, content, codes, *messages, flags=(), path=None, size=None):
    global count
    count += 1
    target = path or folder + "/model/model.onnx"
    if content is not None:
        with open(target, "wb") as out:
            out.write(content)
    size = len(content or b"") if size is None else size
    output = folder + "/out.mlir"
    codes = codes if isinstance(codes, tuple) else (codes,)
    command = ["--import-onnx", target, "-o", output, *flags]
    code, text, seconds, peak = run(command)
    for _ in range(2):
        if seconds > most_seconds:  # other work may have had the caches
            seconds = min(seconds, run(command)[2])
    wrong = []
    if code not in codes:
        wrong.append(f"exit {code} instead of {codes}")
    wrong += [f"no '{m}' in the message" for m in messages if m not in text]
    if code != 0 and "error[Z" not in text:
        wrong.append("no numbered message")
    if any(ord(c) < 32 and c != "\n" for c in text):
        wrong.append("control characters in the message")
    if len(text) > 20000:
        wrong.append(f"a message of {len(text)} bytes")
    if code != 0 and os.path.exists(output):
        wrong.append("an output was left behind")
    if seconds > most_seconds:
        wrong.append(f"{seconds:.1f} s")
    if peak > size + (256 << 20) and not SANITIZED:
        wrong.append(f"{peak >> 20} MiB of memory")
    if os.path.exists(output):
        os.remove(output)
    if wrong:
        failures.append(name)
        print(f"{name}: {', '.join(wrong)}; got:\n{text[:1000]}")


def raw(dims, dtype, payload, name="w"):
    return b"".join(number(1, d) for d in dims) + number(2, dtype) + data(8, name) + data(9, payload)


def external(*entries, dims=(4, 3), name="w"):
    body = b"".join(number(1, d) for d in dims) + number(2, FLOAT) + data(8, name)
    return body + b"".join(data(13, data(1, k) + data(2, v)) for k, v in entries) + number(14, 1)


def graph_attribute(name, graph):
    return data(1, name) + data(6, graph) + number(20, 5)


def nested_if(depth):
    """depth If nodes, one in the other's branches"""
    body = data(1, node("Identity", ["x"], ["r0"])) + data(2, "b") + data(12, f("r0"))
    for k in range(1, depth + 1):
        branch = data(5, graph_attribute("then_branch", body)) + data(5, graph_attribute("else_branch", body if k == 1 else leaf))
        inner = data(1, "c") + data(2, f"r{k}") + data(4, "If") + branch
        leaf = data(1, node("Identity", ["x"], [f"r{k}"])) + data(2, "e") + data(12, f(f"r{k}"))
        body = data(1, inner) + data(2, "b") + data(12, f(f"r{k}"))
    nodes = [inner, node("ReduceMean", [f"r{depth}"], ["loss"], keepdims=0)]
    return linear(nodes=nodes, initializers=[tensor([], BOOL, [True], "c")])


def function(name, *calls):
    body = b"".join(data(7, node(call, ["a"], ["b"], domain="my")) for call in calls) or data(7, node("Relu", ["a"], ["b"]))
    return data(25, data(1, name) + data(4, "a") + data(5, "b") + body + data(9, data(1, "") + number(2, 17)) +
                data(9, data(1, "my") + number(2, 1)) + data(10, "my"))


def calls(first, *functions):
    return linear(nodes=[node(first, ["x"], ["y"], "/call", "my"), node("ReduceMean", ["y"], ["loss"], keepdims=0)],
                  extra=data(8, data(1, "my") + number(2, 1)) + b"".join(functions))


relu = lambda i, o, n="": node("Relu", [i], [o], n)  # noqa: E731
good = linear()
one = lambda *nodes, **more: linear(nodes=list(nodes), **more)  # noqa: E731
inits = lambda *tensors: linear(initializers=list(tensors))  # noqa: E731
loss = node("ReduceMean", ["y"], ["loss"], keepdims=0)

check("0 good", good, 0)
most_seconds = max(most_seconds, 60 * run(["--import-onnx", folder + "/model/model.onnx", "-o", "/dev/null"])[2])
check("1 empty", b"", 3, "is empty")
for byte in range(0, 256, 51):
    check(f"2 one byte {byte}", bytes([byte]), 3)
check("3 text", b"a text\n" * 100, 3, "it is text")
check("4 gzip", b"\x1f\x8b\x08\x00" + bytes(40), 3, "gzip")
check("4 zip", b"PK\x03\x04" + bytes(40), 3, "zip archive")
for percent in range(1, 100, 4 if SANITIZED else 1):
    check(f"5 cut at {percent} %", good[:len(good) * percent // 100], 3)
check("6 random", random.Random(6).randbytes(1 << 20), 3)
with open(folder + "/model/huge.onnx", "wb") as out:
    out.write(good)
    out.truncate((2 << 30) + 5)
check("7 over 2 GiB", None, 3, "at most 2147483647", path=folder + "/model/huge.onnx")
os.remove(folder + "/model/huge.onnx")
os.mkfifo(folder + "/fifo")
check("8 fifo", None, 3, path=folder + "/fifo")
check("8 zero", None, 3, path="/dev/zero")
check("9 directory", None, 3, path=folder)
check("10 no graph", number(1, 8) + data(8, number(2, 17)), 3, "no graph")
check("11 no opset", model([relu("x", "loss")], [f("x", 2)], [f("loss")]).replace(data(8, data(1, "") + number(2, 17)), b""), 3, "opset_import")
for version in (0, -1, 2**31):
    check(f"11 opset {version}", linear(opset=version), 3, f"version {version}")
check("12 domain", one(node("Op", ["x"], ["loss"], "/o", "no.such")), 4, "no.such.Op", "/o")
check("12 op", one(node("Frobnicate", ["x"], ["loss"], "/o")), 4, "Frobnicate", "/o")
check("13 cycle", one(relu("b", "a"), relu("a", "b")), 3, "before it is defined")
check("14 use before def", one(relu("y", "loss", "/first"), relu("x", "y")), 3, "'y'", "/first")
check("15 duplicate value", one(relu("x", "y", "/a"), relu("x", "y", "/b")), 3, "'y' is defined twice", "/b")
check("16 duplicate outputs", one(node("Split", ["x"], ["y", "y"], "/s", axis=0)), 3, "'y' is defined twice", "/s")
check("17 undefined output", linear(outputs=[f("nothing")]), 3, "'nothing'")
check("18 recursive function", calls("F", function("F", "F")), (3, 4), "F")
check("18 mutual recursion", calls("F", function("F", "G"), function("G", "F")), (3, 4))
chain = [function(f"F{k}", f"F{k + 1}") for k in range(10000)] + [function("F10000")]
check("19 chain of 10,000", calls("F0", *chain), (3, 4))
for depth in (31, 32, 100):
    check(f"20 If in If, {depth} deep", nested_if(depth), (0, 3, 4) if depth < 100 else (3, 4))
steps = [relu("x" if k == 0 else f"v{k}", f"v{k + 1}") for k in range(20000)]
check("21 long chain", one(*steps, node("ReduceMean", ["v20000"], ["loss"], keepdims=0), initializers=[]), 0)
check("22 unknown fields", good + number(900, 5) + data(901, b"abc" * 100), 0)
check("22 groups", good + b"\x0b" * 100 + b"\x0c" * 100, 3)
for dims in ([2**33, 2**33], [2**62, 4], [2**20] * 3, [0, 2**62, 2**62]):
    check(f"23 dims {dims}", inits(raw(dims, FLOAT, b"")), 3, "2^48", '"w"')
check("24 negative dim", inits(raw([-4, 3], FLOAT, bytes(48))), 3, "negative dimension -4")
check("25 two negative dims", inits(raw([-1, -1], FLOAT, bytes(4))), 3, "negative dimension -1")
check("26 rank", inits(raw([1] * 10000, FLOAT, bytes(4))), 3, "rank 10000")
check("27 short", inits(raw([4, 3], FLOAT, bytes(47))), 3, "47 bytes", "48")
check("27 long", inits(raw([4, 3], FLOAT, bytes(49))), 3, "49 bytes", "48")
check("28 raw and floats", inits(raw([4, 3], FLOAT, bytes(48)) + data(4, bytes(48))), 3, '"w"')
check("29 floats for int8", inits(number(1, 4) + number(1, 3) + number(2, 3) + data(8, "w") + data(4, bytes(48))), 3, '"w"')
for dtype, code in ((0, 3), (99, 3), (8, 4), (14, 4), (15, 4)):
    check(f"30 type {dtype}", inits(raw([4, 3], dtype, bytes(48))), code, '"w"')
check("31 int4", inits(raw([3], 22, bytes(2))), (3, 4), '"w"')
check("32 odd numbers", inits(raw([4, 3], FLOAT, b"\x00\x00\xc0\x7f\x00\x00\x80\xff\x01\x00\x00\x00" * 4)), 0)
sparse = data(15, data(1, raw([1], FLOAT, bytes(4))) + data(2, raw([1], INT64, b"\xff" * 8)) + number(3, 4))
check("33 sparse", good.replace(data(2, "g"), data(2, "g")) + data(7, sparse), (3, 4), "sparse")

# external data
with open(folder + "/secret.bin", "wb") as out:
    out.write(bytes(48))
here = folder + "/model/"
shutil.copy(folder + "/secret.bin", here + "w.bin")
os.symlink("../secret.bin", here + "link.bin")
os.symlink("..", here + "up")
os.link(folder + "/secret.bin", here + "hard.bin")
os.mkfifo(here + "pipe")
server = socket.socket(socket.AF_UNIX)
os.chdir(here)
server.bind("socket")
outside = lambda *e, **k: inits(external(*e, **k))  # noqa: E731
check("34 good", outside(("location", "w.bin")), 0)
for location in ("../secret.bin", "a/../../secret.bin", folder + "/secret.bin", "C:\\x", "", ".", "w.bin\0x", "x" * 5000, b"\xff\xfe", "#x",
                 "*/_ORT_MEM_ADDR_/*"):
    check(f"34 {location[:40]!r}", outside(("location", location)), 3, '"w"', "external data")
for location in ("link.bin", "up/secret.bin", "/proc/self/fd/0"):
    check(f"35 {location}", outside(("location", location)), 3, '"w"', "external data")
check("36 hard link", outside(("location", "hard.bin")), 3, '"w"', "the file has 2 names (hard links), at most 1", "--limit hard-links=2 takes it")
check("36 told so", outside(("location", "hard.bin")), 0, flags=["--limit", "hard-links=2"])
check("35 help", outside(("location", "link.bin")), 3, "cp -rL")
for name in ("blobs", "snapshots"):  # as Hugging Face's cache has them
    os.makedirs(f"{folder}/cache/{name}")
for name, blob in (("model.onnx", "0a"), ("w.bin", "1b")):
    os.symlink(f"../blobs/{blob}", f"{folder}/cache/snapshots/{name}")
shutil.copy(here + "w.bin", folder + "/cache/blobs/1b")
cached = folder + "/cache/snapshots/model.onnx"
check("35 cache", outside(("location", "w.bin")), 3, "the model is a link into", "/cache/blobs", "cp -rL", path=cached)
subprocess.run(["cp", "-rL", folder + "/cache/snapshots", folder + "/copied"], check=True)
check("35 copied", None, 0, path=folder + "/copied/model.onnx")
for location in ("pipe", "socket", "/dev/zero"):
    check(f"37 {location}", outside(("location", location)), 3, '"w"', "external data")
for value in ("-1", "0x10", "1e30", "1 ", "8junk", "99999999999999999999"):
    check(f"38 offset {value}", outside(("location", "w.bin"), ("offset", value)), 3, '"w"')
    check(f"38 length {value}", outside(("location", "w.bin"), ("length", value)), 3, '"w"')
check("38 sum", outside(("location", "w.bin"), ("offset", str(2**63 - 8))), 3, '"w"', "which has 48")
check("39 length", outside(("location", "w.bin"), ("length", "44")), 3, "44", "48")
with open(here + "two.bin", "wb") as out:
    out.write(bytes(range(96)))
add = node("Add", ["w", "v"], ["u"])
both = lambda *places: linear(nodes=[add, node("MatMul", ["x", "u"], ["y"]), loss], initializers=[  # noqa: E731
    external(("location", "two.bin"), ("offset", str(o)), name=n) for n, o in zip("wv", places)])
check("40 overlap", both(0, 40), 0, "overlap")
check("40 shared", both(0, 0), 0)
check("41 key twice", outside(("location", "w.bin"), ("location", "w.bin")), 3, "twice")
check("41 unknown key", outside(("location", "w.bin"), ("evil", "1")), 3, "'evil'")
check("42 checksum", outside(("location", "w.bin"), ("checksum", "0" * 40)), 3, "checksum", '"w"')
import hashlib  # noqa: E402
check("42 good checksum", outside(("location", "w.bin"), ("checksum", hashlib.sha1(bytes(48)).hexdigest())), 0)

# 43, an external file changed between compiling and running: test/e2e/run_parameters.py

# operators
shape = lambda op, *values, **more: dict(nodes=[node(op, ["x", "s"], ["y"], "/op"), loss], initializers=[ints("s", list(values))], **more)  # noqa: E731
check("44 two -1", linear(**shape("Reshape", -1, -1)), 3, "-1", "/op")
check("45 index", linear(nodes=[node("Gather", ["w", "k"], ["y"], "/op"), loss], initializers=[weight("w", 4), ints("k", [9])]), 3, "9", "/op")
image = [f("x", 1, 2, 5, 5)]
for bad in (dict(group=0), dict(strides=[0, 1]), dict(pads=[2**62] * 4), dict(dilations=[0, 0]), dict(kernel_shape=[9, 9])):
    conv = node("Conv", ["x", "w"], ["y"], "/op", **bad)
    check(f"46 {bad}", linear(nodes=[conv, loss], inputs=image, initializers=[weight("w", 2, 2, 3, 3)]), (3, 4), "/op")
check("47 split", linear(nodes=[node("Split", ["x", "s"], ["y", "z"], "/op", axis=1), loss], initializers=[ints("s", [1, 2])]), 3, "/op")
bomb = dict(nodes=[node("ConstantOfShape", ["s"], ["c"], "/op"), node("Cast", ["c"], ["d"], to=1), node("Cumulate", ["d"], ["loss"])])
check("48 bomb", linear(**bomb, initializers=[ints("s", [2**40])]), 4)
check("48 impossible", linear(nodes=[node("ConstantOfShape", ["s"], ["y"], "/op"), loss], initializers=[ints("s", [2**60])]), 3, "/op")
count_to = [ints("a", [0], []), ints("b", [65536], []), ints("c", [1], []), ints("k", [65536])]
for op, more in (("Add", ["h0"]), ("Mod", ["b"]), ("TopK", ["k"]), ("Gather", ["h0"])):
    # Each node is cheap; all of them are not: what is over the budget stays an operation of the program.
    chain = [node("Range", ["a", "b", "c"], ["h0"])] + [node(op, [f"h{n}", *more], [f"h{n + 1}"]) for n in range(3000)]
    chain += [node("Cast", ["h3000"], ["f"], to=1), node("ReduceMean", ["f"], ["y"], keepdims=0), node("ReduceMean", ["y"], ["loss"], keepdims=0)]
    check(f"48 much folding of {op}", linear(nodes=chain, initializers=count_to), (0, 2, 4))
tables = [node("Range", ["a", "b", "c"], ["h"])] + [node("NonZero", ["h"], [f"n{n}"]) for n in range(3000)]
tables += [node("Sum", [f"n{n}" for n in range(3000)], ["s"]), node("Cast", ["s"], ["y"], to=1), loss]
check("48 many tables", linear(nodes=tables, initializers=count_to), 4, "--limit folding-work=N")
check("49 range", linear(nodes=[node("Range", ["a", "b", "c"], ["y"], "/op"), loss],
                         initializers=[ints(n, [v], []) for n, v in zip("abc", (0, 4, 0))]), 3, "delta", "/op")
check("50 expand", linear(**shape("Expand", 2**30, 2**30, 2, 4)), 3, "/op")
loop = data(1, "n") + data(1, "c") + data(2, "y") + data(3, "/op") + data(4, "Loop") + data(
    5, graph_attribute("body", data(1, relu("x", "q")) + data(2, "b") + data(12, f("q"))))
check("51 loop", linear(nodes=[loop, loss], initializers=[ints("n", [3], []), tensor([], BOOL, [True], "c")]), (3, 4))
check("52 attribute type", one(node("ReduceMean", ["x"], ["loss"], "/op", axes="one")), 3, "'axes'", "/op")
for name in ('a%s%n"\'b', "a\nb", "\x1b[31mred", "x\u202egpj.exe", "\xff" * 4):
    check(f"53 {name!r}", one(node("Frobnicate", ["x"], ["loss"], name)), 4, "Frobnicate")
check("53 name of 1 MB", one(node("Frobnicate", ["x"], ["loss"], "n" * 1000000)), 3, "4096")
check("54 symbolic", linear(inputs=[f("x", "batch", 4)]), 2, "'batch'", "--dim")
check("55 no loss", linear(outputs=[f("y")]), 2, "loss")
check("55 integer loss", linear(nodes=[node("ReduceMax", ["k"], ["loss"], keepdims=0)], inputs=[i("k", 3)], initializers=[]), 2, "loss")

# inputs and outputs that are nothing
for op, more in (("Sum", {}), ("Max", {}), ("Mean", {}), ("Concat", dict(axis=0)), ("Einsum", dict(equation="ij,ij->ij"))):
    check(f"no input of {op}", linear(nodes=[node(op, ["x", ""], ["y"], "/op", **more), loss], initializers=[]), 3, "/op")
check("no tensor of a sequence", linear(nodes=[node("SequenceConstruct", ["x", ""], ["s"], "/op"), node("SequenceAt", ["s", "k"], ["y"]), loss],
                                        initializers=[ints("k", [0], [])]), 3, "a tensor of the sequence is missing", "/op")
nothing = node("Optional", [], ["o"], "/op")
check("no value of an output", linear(nodes=[nothing, node("Identity", ["o"], ["loss"])], opset=18, initializers=[]), 2, "no output is a floating-point scalar")
check("no value of an output, forward", linear(nodes=[nothing, node("Identity", ["o"], ["y"])], outputs=[f("y", 2)], opset=18, initializers=[]), 4,
      "output 'y' is an optional without an element", flags=["--forward-only"])
xs = data(5, data(1, "xs") + data(9, "x") + number(20, 8)) + data(5, data(1, "zs") + data(9, "w") + number(20, 8))
derivative = (data(1, "x") + data(1, "") + data(2, "g") + data(3, "/op") + data(4, "Gradient") + xs + data(5, data(1, "y") + data(4, "y") + number(20, 3)) +
              data(7, "ai.onnx.preview.training"))
check("no input of Gradient", linear(nodes=[node("MatMul", ["x", "w"], ["y"]), loss, derivative], outputs=[f("loss"), f("g", 2, 4)],
                                     extra=data(8, data(1, "ai.onnx.preview.training") + number(2, 1))), 3, "input 1 is missing", "/op", flags=["--forward-only"])
states = body([node("Identity", [n], [n + "o"]) for n in "abc"], "abc", ["ao", "bo", "co"])
check("a scalar state", linear(nodes=[node("Scan", ["", "p", "q", "x"], ["u", "v", "y"], "/op", body=states, num_scan_inputs=1), loss], opset=8, initializers=[],
                               inputs=[f("p", 2), f("q"), f("x", 2, 3)]), 3, "have no batch in common", "/op")
check("too large a size", linear(inputs=[f("x", "batch", 4)]), 2, "--dim 'batch=N'", flags=["--dim", "batch=281474976710655"])

product = node("MatMul", ["x", "w"], ["m"])
check("a condition of floats", linear(nodes=[product, node("Constant", [], ["c"], value_float=1.0), node("Compress", ["m", "c"], ["y"], "/op"), loss]),
      3, "the condition is no vector of bools", "/op")
for epsilon in (-1.0, float("nan"), float("inf")):
    check(f"an epsilon of {epsilon}", linear(nodes=[product, node("LayerNormalization", ["m", "s"], ["y"], "/op", epsilon=epsilon), loss],
                                             initializers=[weight("w", 4, 3), weight("s", 3)]), 3, "its epsilon is", "/op")
check("a name that weights cannot have", linear(nodes=[node("MatMul", ["x", "__metadata__"], ["y"]), loss], initializers=[weight("__metadata__", 4, 3)]),
      4, "'__metadata__', which no file of weights can hold")

# what an exporter adds as JSON
record = lambda key, text: linear(extra=data(14, data(1, f"zero.{key}") + data(2, text)))  # noqa: E731
for key, code in (("padding_idx", 3), ("batch_norm", 3), ("tied", 0)):  # of another form a tie is none
    for text in ("[" * 200000, '{"a":' * 200000, "[" * 65 + "]" * 65, '{"a": 1, "a": 2}', "[1] ]", "nan", '"\x01"', "1e999"):
        check(f"{key} {text[:9]}", record(key, text), code, *[f"metadata zero.{key}"] * (code > 0))
    check(f"{key} of 5 MB", record(key, '["' + "a" * 5000000 + '"]'), code, *["4194304"] * (code > 0))
check("row 2^63", record("padding_idx", '{"w": 9223372036854775808}'), 3, "'w' is neither an integer nor null")
check("row 1.5", record("padding_idx", '{"w": 1.5}'), 3, "'w' is neither an integer nor null")
check("no row", record("padding_idx", '{"w": null}'), 0)
check("no rows", record("padding_idx", "3"), 3, "is no object of rows by name")

# limits
for limit, value in (("nodes", 1), ("name-bytes", 2), ("model-bytes", 100), ("node-attributes", 0), ("rank", 1)):
    check(f"limit {limit}", good, 3, flags=["--limit", f"{limit}={value}"])
check("limit raised", linear(nodes=[node("MatMul", ["x", "w"], ["y"], "n" * 5000), loss]), 0, flags=["--limit", "name-bytes=6000"])
check("limit unknown", good, 2, "names of limits are", flags=["--limit", "nonsense=3"])

print(f"{count} cases, {len(failures)} wrong")
sys.exit(bool(failures))
