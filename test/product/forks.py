#!/usr/bin/env python3
"""Runs `zero` in forks of a process that has imported what its commands import, and has computed nothing: imports are two thirds of most
commands' time. On stdin a JSON object per line: "arguments", "folder" (or null), "environment", "out" and "err", files that stdout and stderr
go to. Answers each with a line, the exit code; that of what takes ten minutes is SIGALRM's. A fork does what is to be done at its exit, but does
not take its modules apart, which takes a second."""
import atexit, importlib, json, os, signal, sys

LIMIT = 600  # seconds

# numpy's OpenBLAS would begin its threads as it is imported; forks have only the one that forked.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
for name in ("torch", "torch.onnx._internal.exporter._core", "torch._dynamo", "onnx", "onnxscript", "safetensors.torch", "tokenizers",
             "transformers.models.auto.modeling_auto", "transformers.models.gpt2.modeling_gpt2", "zero_compile.cli", "zero_compile.exporting.export",
             "zero_compile.pipeline", "zero_compile.tasks", "zero_compile.text.tokens", "zero_compile.weights", "zero_compile.exporting.check"):
    try:
        importlib.import_module(name)
    except ImportError:
        pass  # the command that needs it says so
del os.environ["OPENBLAS_NUM_THREADS"]


def become(request):
    """This process is `zero` with those arguments from now on; does not return."""
    signal.alarm(LIMIT)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in ((1, request["out"]), (2, request["err"])):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    if request["folder"]:
        os.chdir(request["folder"])
    sys.argv = ["zero", *request["arguments"]]
    try:
        code = importlib.import_module("zero_compile.cli").main()
    except SystemExit as end:  # --version and --help
        code = end.code or 0
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    threads = os.listdir("/proc/self/task")
    if len(threads) != 1:
        sys.exit(f"an import has begun threads ({len(threads)}), which forks would not have")
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            become(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answers, flush=True)
