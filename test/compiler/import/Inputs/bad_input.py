"""Bad models: each must give its exit code and message, quickly, and no output file. Usage: bad_input.py ZERO-TRANSLATE FOLDER"""
import os
import random
import shutil
import subprocess
import sys

from model import *  # noqa: F403

tool, folder = sys.argv[1:3]
shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder + "/sub")
failures = cases = 0


def check(name, content, code, message, *flags, path=None):
    global failures, cases
    cases += 1
    target = path or os.path.join(folder, "model.onnx")
    if content is not None:
        with open(target, "wb") as out:
            out.write(content)
    output = os.path.join(folder, "out.mlir")
    run = subprocess.run([tool, "--import-onnx", target, "-o", output, *flags], capture_output=True, text=True, timeout=300,
                         errors="replace")
    wrong = run.returncode != code or message not in run.stderr or (code and os.path.exists(output))
    if wrong:
        failures += 1
        print(f"{name}: exit {run.returncode} for {code}, wanted '{message}', got:\n{run.stderr}")
    if os.path.exists(output):
        os.remove(output)


def external(*entries, dims=(4, 3)):
    body = b"".join(number(1, d) for d in dims) + number(2, FLOAT) + data(8, "w")
    return body + b"".join(data(13, data(1, k) + data(2, v)) for k, v in entries) + number(14, 1)


def raw(dims, dtype, payload):
    return b"".join(number(1, d) for d in dims) + number(2, dtype) + data(8, "w") + data(9, payload)


good = linear()
check("good", good, 0, "")

# not a model
check("missing", None, 3, "no such file", path=folder + "/none.onnx")
check("empty", b"", 3, "is empty")
check("one byte", b"\x08", 3, "")
check("text", b"hello, this is a text file\n", 3, "it is text")
check("gzip", b"\x1f\x8b\x08\x00" + bytes(40), 3, "gzip")
check("zip", b"PK\x03\x04" + bytes(40), 3, "zip archive")
check("directory", None, 3, "", path=folder + "/sub")
check("device", None, 3, "", path="/dev/zero")
os.mkfifo(folder + "/fifo")
check("fifo", None, 3, "", path=folder + "/fifo")
check("no graph", number(1, 8) + data(8, number(2, 17)), 3, "has no graph")
for percent in range(5, 100, 5):
    check(f"cut at {percent} %", good[:len(good) * percent // 100], 3, "")
rng = random.Random(0)
check("random", bytes(rng.randrange(256) for _ in range(100000)), 3, "")
for k in range(60):  # any byte may be flipped: an error or a model, never a crash
    at = rng.randrange(len(good))
    flipped = good[:at] + bytes([good[at] ^ (1 << rng.randrange(8))]) + good[at + 1:]
    path = os.path.join(folder, "flip.onnx")
    with open(path, "wb") as out:
        out.write(flipped)
    cases += 1
    status = subprocess.run([tool, "--import-onnx", path, "-o", os.path.join(folder, "flip.mlir")], capture_output=True, timeout=300).returncode
    if status not in (0, 2, 3, 4):
        failures += 1
        print(f"byte {at} flipped: exit {status}")
check("group", good + b"\x0b" * 200, 3, "type that this format does not use")

# versions
check("ir 2", linear(ir=2), 4, "ir_version 2")
check("opset 0", linear(opset=0), 3, "version 0")
check("opset 99", linear(opset=99), 4, "opset 99")
check("opset twice", linear(extra=data(8, data(1, "") + number(2, 17))), 3, "twice")

# structure
x_relu = lambda i, o, n="": node("Relu", [i], [o], n)  # noqa: E731
check("undefined", linear(nodes=[x_relu("nope", "loss", "/r")]), 3, "uses 'nope' before it is defined")
check("cycle", linear(nodes=[x_relu("b", "a"), x_relu("a", "b")]), 3, "before it is defined")
check("defined twice", linear(nodes=[x_relu("x", "y"), x_relu("x", "y")]), 3, "value 'y' is defined twice")
check("output undefined", linear(outputs=[f("nothing")]), 3, "graph output 'nothing' is never computed")
check("no outputs", linear(outputs=[]), 3, "no outputs")
check("initializer twice", linear(initializers=[weight("w", 4, 3)] * 2), 3, "'w' is defined twice")
check("long name", linear(initializers=[weight("w" * 5000, 1), weight("w", 4, 3)]), 3, "5000 bytes")
check("control characters", linear(nodes=[x_relu("\x1b[31m", "loss")]), 3, "\\x1B[31m")

# operators, all at once
two = [node("Frobnicate", ["x"], ["y"], "/one"), node("Relu", ["y"], ["z"]), node("Quux", ["z"], ["loss"], "/two", "my.domain")]
check("unsupported op", linear(nodes=two), 4, "'Frobnicate' of opset 17 ('/one')")
check("unsupported op", linear(nodes=two), 4, "'my.domain.Quux' of opset 0 ('/two')")
check("dangling op", linear(nodes=[node("Frobnicate", ["x"], ["q"]), node("ReduceMean", ["x"], ["loss"], keepdims=0)]), 0, "")
check("too old", linear(nodes=[node("Add", ["x", "x"], ["loss"])], opset=6), 4, "'Add' of opset 6")
# functions and subgraphs
call = lambda name, *inputs: node(name, list(inputs), ["loss"], "/f", "local")  # noqa: E731
nothing = [node("Identity", ["a"], ["b"])]
check("function", linear(nodes=[call("F", "x")], extra=function("F", ["a"], ["b"], [node("Quux", ["a"], ["b"], "/q")])), 4, "'Quux' of opset 17 ('/q')")
check("function inputs", linear(nodes=[call("F", "x", "x")], extra=function("F", ["a"], ["b"], nothing)), 3, "is called with 2 inputs and 1 outputs")
check("function twice", linear(nodes=[call("F", "x")], extra=function("F", ["a"], ["b"], nothing) * 2), 3, "function 'F' is defined twice")
check("function output", linear(nodes=[call("F", "x")], extra=function("F", ["a"], ["c"], nothing)), 3, "output 'c' is never computed")
check("function sees the model", linear(nodes=[call("F", "x")], extra=function("F", ["a"], ["b"], [node("Add", ["a", "w"], ["b"])])), 3, "uses 'w' before it is defined")
check("function attribute", linear(nodes=[call("F", "x")], extra=function("F", ["a"], ["b"], nothing, ["alpha"])), 3, "needs attribute 'alpha'")
check("function label", linear(nodes=[call("F", "x")], extra=function("F", ["a"], ["b"], [node("Softmax", ["a"], ["b"], "/s", axis=9)])), 3, 'node "/f//s"')
branch = Ref("branch")
branch.kind = 5
chosen = [node("Constant", [], ["c"], value=tensor([], BOOL, [True])), node("If", ["c"], ["d"], then_branch=branch, else_branch=branch),
          node("ReduceMean", ["d"], ["b"], keepdims=0)]
check("default branch", linear(nodes=[call("F", "x")], extra=function("F", ["a"], ["b"], chosen, branch=body([node("Neg", ["a"], ["t"])], [], ["t"]))), 0, "")
check("default branch names", linear(nodes=[call("F", "x")], extra=function("F", ["a"], ["b"], chosen, branch=body([node("Neg", ["q"], ["t"])], [], ["t"]))), 3, "uses 'q' before it is defined")
inner = lambda name: [node(name, ["a"], ["b"], "", "local")]  # noqa: E731
check("recursion", linear(nodes=[call("F", "x")], extra=function("F", ["a"], ["b"], inner("G")) + function("G", ["a"], ["b"], inner("F"))), 3, "calls itself")
chain = b"".join(function(f"F{k}", ["a"], ["b"], inner(f"F{k + 1}")) for k in range(100)) + function("F100", ["a"], ["b"], nothing)
check("deep functions", linear(nodes=[call("F0", "x")], extra=chain), 3, "65 deep, more than 64")
twice = lambda k: [node(f"F{k}", ["a"], ["c"], "", "local"), node(f"F{k}", ["c"], ["b"], "", "local")]  # noqa: E731
bomb = b"".join(function(f"F{k}", ["a"], ["b"], twice(k + 1)) for k in range(40)) + function("F40", ["a"], ["b"], nothing)
check("function bomb", linear(nodes=[call("F0", "x")], extra=bomb), 3, "more than 1000000 nodes")
loop = lambda trips: dict(nodes=[node("Loop", ["m", "", "x"], ["loss"], "/loop", body=body([node("Identity", ["t"], ["u"])], ["i", "t", "v"], ["t", "v"]))],  # noqa: E731
                          initializers=[ints("m", [trips], [])])
check("loop", linear(nodes=loop(3)["nodes"] + [node("ReduceMean", ["loss"], ["l"], keepdims=0)], initializers=loop(3)["initializers"], outputs=[f("l")]), 0, "")
check("loop bomb", linear(**loop(1 << 60)), 3, "more than 1000000 nodes")
check("if on data", linear(nodes=[node("ReduceMax", ["x"], ["m"], keepdims=0), node("Cast", ["m"], ["c"], to=9),
                                  node("If", ["c"], ["loss"], "/if", then_branch=body([node("Neg", ["m"], ["t"])], [], ["t"]), else_branch=body([], [], ["m"]))]), 4, "the condition of If is computed from the data")
check("subgraph names", linear(nodes=[node("If", ["c"], ["loss"], then_branch=body([node("Neg", ["q"], ["t"])], [], ["t"]))], initializers=[tensor([], BOOL, [True], "c")]), 3, "uses 'q' before it is defined")
check("no branch", linear(nodes=[node("If", ["c"], ["loss"])], initializers=[tensor([], BOOL, [True], "c")]), 3, "needs attribute 'then_branch'")
check("training_info", linear(extra=data(20, data(2, b""))), 4, "training_info")

# attributes and operands
check("attribute type", linear(nodes=[node("ReduceMean", ["x"], ["loss"], axes="one")]), 3, "attribute 'axes'")
check("axis", linear(nodes=[node("Softmax", ["x"], ["loss"], axis=7)]), 3, "axis 7")
check("shapes", linear(initializers=[weight("w", 5, 3)]), 3, "node \"/mm\"")
check("no operand", linear(nodes=[node("MatMul", ["x"], ["loss"])]), 3, "input 1 is missing")
check("operands", linear(nodes=[node("Relu", ["x", "x"], ["loss"])]), 3, "at most 1")
reshape = lambda *shape: dict(nodes=[node("Reshape", ["x", "s"], ["loss"])], initializers=[ints("s", list(shape))])  # noqa: E731
check("two -1", linear(**reshape(-1, -1)), 3, "more than one -1")
check("elements", linear(**reshape(3, 3)), 3, "cannot reshape [2, 4] (8 elements) to [3, 3]")
dynamic = dict(nodes=[node("Reshape", ["x", "s"], ["loss"])], inputs=[f("x", 2, 4), i("s", 1)], initializers=[])
check("dynamic shape", linear(**dynamic), 4, "is computed from the data")
gather = dict(nodes=[node("Gather", ["w", "k"], ["loss"])], initializers=[weight("w", 4), ints("k", [9])])
check("constant index", linear(**gather), 3, "index 9 is outside [-4, 4)")
huge = lambda *shape: dict(  # noqa: E731
    nodes=[node("ConstantOfShape", ["s"], ["c"]), node("ReduceMean", ["c"], ["loss"], keepdims=0)], initializers=[ints("s", list(shape))])
check("splat of any size", linear(**huge(2**40)), 0, "")
check("too large", linear(**huge(2**60)), 3, "2^48")
split = dict(nodes=[node("Split", ["x", "s"], ["loss", "b"], axis=1)], initializers=[ints("s", [1, 2])])
check("split sizes", linear(**split), 3, "make 3, but dimension 1 has 4")
range0 = dict(nodes=[node("Range", ["a", "b", "c"], ["loss"])],
              initializers=[ints(n, [v], []) for n, v in zip("abc", (0, 4, 0))])
check("range step", linear(**range0), 3, "delta is 0")
# blocks of 2^64 elements, each of which fits into its dimension's padding
blocks = dict(nodes=[node("Col2Im", ["x", "i", "b"], ["loss"], pads=[2**16 - 1] * 4 + [0] * 4)], inputs=[f("x", 1, 4, 4)], opset=18,
              initializers=[ints("i", [1] * 4), ints("b", [2**16] * 4)])
check("blocks beyond 64 bits", linear(**blocks), 4, "of more elements than 64 bits count")
grid = lambda n: dict(nodes=[node("GridSample", ["x", "g"], ["loss"])], inputs=[f("x", 1, 2, *[3] * n), f("g", 1, *[2] * n, n)], opset=20, initializers=[])  # noqa: E731
check("sampled dimensions", linear(**grid(4)), 4, "of 4 spatial dimensions")

# tensors
for dims in ([2**33, 2**33], [2**62, 4], [2**20] * 3):
    check(f"dims {dims}", linear(initializers=[raw(dims, FLOAT, b"")]), 3, "2^48")
check("negative dim", linear(initializers=[raw([-4, 3], FLOAT, bytes(48))]), 3, "negative dimension -4")
check("rank", linear(initializers=[raw([1] * 100, FLOAT, bytes(4))]), 3, "rank 100")
check("raw short", linear(initializers=[raw([4, 3], FLOAT, bytes(47))]), 3, "has 47 bytes, but its shape needs 48")
check("raw long", linear(initializers=[raw([4, 3], FLOAT, bytes(5000))]), 3, "has 5000 bytes, but its shape needs 48")
check("raw twice", linear(initializers=[raw([4, 3], FLOAT, bytes(48)) + data(9, bytes(48))]), 3, "several times")
both = raw([4, 3], FLOAT, bytes(48)) + data(4, bytes(48))
check("raw and floats", linear(initializers=[both]), 3, "")
check("type 0", linear(initializers=[raw([4, 3], 0, bytes(48))]), 3, "data_type 0")
check("type 99", linear(initializers=[raw([4, 3], 99, bytes(48))]), 3, "data_type 99")
check("string", linear(initializers=[raw([4, 3], 8, bytes(48))]), 4, "STRING")
check("input type", linear(inputs=[value_info("x", 14, [2, 4])]), 4, "COMPLEX64")

# external data
secret = os.path.join(folder, "secret.bin")
inner = os.path.join(folder, "sub", "model.onnx")
with open(secret, "wb") as out:
    out.write(bytes(48))
shutil.copy(secret, os.path.join(folder, "sub", "w.bin"))
os.symlink("../secret.bin", os.path.join(folder, "sub", "link.bin"))
os.symlink("..", os.path.join(folder, "sub", "up"))
os.link(secret, os.path.join(folder, "sub", "hard.bin"))
os.mkfifo(os.path.join(folder, "sub", "pipe"))
outside = lambda *e, **k: linear(initializers=[external(*e, **k)])  # noqa: E731
check("external", outside(("location", "w.bin")), 0, "", path=inner)
for location in ("../secret.bin", "a/../../secret.bin", secret, "", "link.bin", "up/secret.bin", "hard.bin", "pipe", ".", "none.bin",
                 "w.bin\0x", "x" * 5000, "C:\\w.bin", "*/_ORT_MEM_ADDR_/*", "/proc/self/fd/0"):
    check(f"location {location[:30]!r}", outside(("location", location)), 3, "external data location", path=inner)
for key, value in (("offset", "-1"), ("offset", "0x10"), ("offset", "1e3"), ("offset", "8 "), ("length", "-1"),
                   ("offset", "99999999999999999999")):
    check(f"{key} {value}", outside(("location", "w.bin"), (key, value)), 3, "is not a number >= 0", path=inner)
check("length", outside(("location", "w.bin"), ("length", "40")), 3, "length 40, but the shape needs 48", path=inner)
check("past the end", outside(("location", "w.bin"), ("offset", "4")), 3, "needs bytes 4 to 52", path=inner)
check("wrap", outside(("location", "w.bin"), ("offset", str(2**63 - 1))), 3, "which has 48", path=inner)
check("unknown key", outside(("location", "w.bin"), ("evil", "1")), 3, "unknown key 'evil'", path=inner)
check("key twice", outside(("location", "w.bin"), ("location", "w.bin")), 3, "twice", path=inner)

# dimensions
named = linear(inputs=[f("x", "batch", "width")])
check("unbound", named, 2, "'batch', 'width'")
check("unbound", named, 2, "--dim 'batch=N' --dim 'width=N'")
check("unknown", named, 2, "no symbolic dimension 'bath'", "--dim", "batch=2", "--dim", "width=4", "--dim", "bath=2")
check("unknown, none bound", named, 2, "did you mean 'batch'?", "--dim", "bath=2")
check("unknown, all named", named, 2, "dimensions are 'batch', 'width'", "--dim", "rows=2")
check("bound", named, 0, "", "--dim", "batch=2", "--dim", "width=4")
check("bad size", named, 2, "is not NAME=N", "--dim", "batch=0")
check("wrong size", named, 3, "/mm", "--dim", "batch=2", "--dim", "width=5")

# loss
check("no loss", linear(outputs=[f("y")]), 2, "no output is a floating-point scalar")
parts = dict(nodes=[node("ReduceMean", ["x"], ["a"], keepdims=0), node("ReduceMax", ["x"], ["b"], keepdims=0)],
             outputs=[f("a"), f("b")], initializers=[])
check("several", linear(**parts), 2, "2 outputs could be the loss: 'a', 'b'")
check("chosen", linear(**parts), 0, "", "--loss", "b")
check("no such loss", linear(**parts), 2, "no graph output 'c'", "--loss", "c")
integer = dict(nodes=[node("ReduceMax", ["k"], ["loss"], keepdims=0)], inputs=[i("k", 3)], initializers=[])
check("integer loss", linear(**integer), 2, "no output is a floating-point scalar")
check("loss of a vector", linear(outputs=[f("y"), f("loss")]), 2, "output 'y' is not a floating-point scalar", "--loss", "y")
check("glob", good, 2, "no parameter matches 'nope*'", "--frozen", "nope*")

print(f"{cases} cases, {failures} wrong")
sys.exit(failures > 0)
