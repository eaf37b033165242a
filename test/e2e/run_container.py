#!/usr/bin/env python3
"""As `docker run IMAGE mpirun ...` starts it: in a namespace of processes whose number 1 is the launcher, or the shell that started
it. Ranks run to the end and give the losses of a run outside; a launcher that is killed takes them with it all the same. Needs the
right to make such a namespace (root, or user namespaces); skipped without."""
import json, os, pathlib, shutil, signal, subprocess, sys, tempfile, time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import SKIPPED, Case, Suite, same

NAMESPACE = ["unshare", *([] if os.geteuid() == 0 else ["-r"]), "-p", "-f", "--mount-proc", "--kill-child"]
try:
    refused = subprocess.run([*NAMESPACE, "true"], capture_output=True, text=True).stderr.strip()
except FileNotFoundError:
    refused = "there is no unshare"
if refused:
    print(f"no namespace of processes: {refused}")
    sys.exit(SKIPPED)

if not shutil.which("mpirun"):
    print("there is no mpirun")
    sys.exit(SKIPPED)

suite = Suite(__doc__)
FOLDER, RANKS = suite.models / "gpt2", 2
PLAN = suite.compile(FOLDER / "ts17.onnx", suite.dir / "job.plan", "--world-size", RANKS, "--zero-stage", 2)
MPI = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", str(RANKS)]


def flags(out, steps):
    return ["--data", FOLDER / "inputs.safetensors", "--steps", steps, "--threads", 1, "--quiet", "--out", out]


def start(out, steps, shell):
    """Number 1 is mpirun itself, or a shell that waits for it. With a folder of its own for Open MPI's files, and for the memory
    that its ranks share: those are named after the launcher's number, which every namespace begins anew, and a launcher that was killed leaves them."""
    job = [*map(str, [*MPIRUN, suite.bin / "zero-run", PLAN, *flags(out, steps)])]
    return subprocess.Popen([*NAMESPACE, *(["sh", "-c", '"$@"; exit $?', "sh"] if shell else []), *job], text=True,
                            env={**MPI, "OMPI_MCA_orte_tmpdir_base": (own := tempfile.mkdtemp(dir=suite.dir)), "OMPI_MCA_btl_vader_backing_directory": own}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def losses(out):
    metrics = out / "metrics.jsonl"
    return [json.loads(line)["loss"] for line in metrics.read_text().splitlines()] if metrics.exists() else []


def number_one(shell):
    expected = [m["loss"] for m in suite.train(PLAN, suite.dir / f"outside-{shell}", "-n", RANKS, *flags(suite.dir, 4)[:-2])]
    out = suite.dir / f"inside-{shell}"
    job = start(out, 4, shell)
    err = job.communicate(timeout=600)[1]
    if job.returncode != 0:
        raise Case(f"exit code {job.returncode}: {err[-1000:]}")
    same("loss", losses(out), expected)


def ends_with_its_launcher():
    """The launcher dies; what it started does not go on by itself."""
    out = suite.dir / "killed"
    job = start(out, 1000000, shell=True)
    deadline = time.time() + 300
    while len(losses(out)) < 2 and job.poll() is None and time.time() < deadline:
        time.sleep(0.1)
    ranks = ours(out)
    if len(ranks) != RANKS + 1:  # and mpirun, whose arguments these are too
        job.poll() is None and job.kill()
        raise Case(f"{sorted(ranks.values())}: {job.stderr.read() if job.poll() is not None else ''}")
    os.kill(next(pid for pid, name in ranks.items() if name == "mpirun"), signal.SIGKILL)
    deadline = time.time() + 120
    while (left := ours(out)) and time.time() < deadline:
        time.sleep(0.1)
    job.kill()
    job.communicate()
    if left:
        raise Case(f"{len(left)} ranks go on without their launcher")


def ours(out):
    """Processes of the job that writes to `out`, but what only holds the namespace: the program's name of each."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if str(out) in words and (name := pathlib.PurePath(words[0]).name) in ("mpirun", "zero-run"):
            found[int(folder.name)] = name
    return found


suite.run([("mpirun is number 1", lambda: number_one(False)), ("a shell is number 1", lambda: number_one(True)),
           ("ranks end with their launcher", ends_with_its_launcher)])
suite.finish()
