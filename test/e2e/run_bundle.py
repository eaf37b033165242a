#!/usr/bin/env python3
"""Programs away from where they were built: `cmake --install`, moved elsewhere, and the archive of tools/bundle.sh in a root that has
the C library and nothing else, where the example is compiled, trained by two ranks and exported. The bare root needs the right to
change the root (root, or user namespaces); that case is skipped without."""
import json, os, pathlib, re, shutil, subprocess, sys, tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import ROOT, Case, Skip, Suite

suite = Suite(__doc__)
BUILD = suite.bin.parent
LIMIT = 30 << 20
LOADER, LIBRARIES = "ld-linux-x86-64.so.2", "lib/x86_64-linux-gnu"
C_LIBRARY = ("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1")
FLAGS = ("--world-size", 2, "--zero-stage", 3, "--dim", "batch=4")
RUN = ("-n", 2, "--threads", 1, "--byte-level", "--shift-labels", "--steps", 3, "--quiet")


def call(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    if done.returncode:
        raise Case(f"{' '.join(map(str, command))}\n      exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-1500:]}")
    return done.stdout


def hardened(moved):
    """What CMakeLists.txt asks of what is linked in a Release build (SECURITY.md); nvcc links the CUDA plugin."""
    cache = (BUILD / "CMakeCache.txt").read_text()
    if "CMAKE_BUILD_TYPE:STRING=Release\n" not in cache or not re.search(r"^ZC_SANITIZE:STRING=$", cache, re.M):
        return
    wanted = {"relocations that are read-only": "GNU_RELRO", "its functions bound at the start": r"\(FLAGS_1\).*\bNOW\b",
              "guarded stacks": r"\bUND __stack_chk_fail\b", "copies that know how much room there is": r"\bUND __\w+_chk\b"}
    for path in sorted([*(moved / "bin").iterdir(), *(moved / "lib/zero-compile").glob("libzc_mpi.so")]):
        seen = call("readelf", "-Wld", path)
        seen += call("readelf", "-W", "--dyn-syms", path)
        here = {**wanted, "an address of its own": r"\(FLAGS_1\).*\bPIE\b"} if path.parent.name == "bin" else wanted
        if lacks := [what for what, sign in here.items() if not re.search(sign, seen)]:
            raise Case(f"{path.name} has not {', '.join(lacks)}")


def installed():
    """Where it was put and where it is then are not the same: nothing depends on the prefix."""
    call("cmake", "--install", BUILD, "--prefix", suite.dir / "prefix")
    moved = suite.dir / "moved"
    (suite.dir / "prefix").rename(moved)
    there = {str(path.relative_to(moved)) for path in moved.rglob("*") if path.is_file()}
    wanted = {f"bin/{name}" for name in ("zero-compile", "zero-run", "zero-opt", "zero-translate")} | {"share/doc/zero-compile/docs/cli.md"}
    if (suite.bin / "libzc_mpi.so").exists():
        wanted.add("lib/zero-compile/libzc_mpi.so")
    if wanted - there:
        raise Case(f"not installed: {' '.join(sorted(wanted - there))}")
    if parts := [path for path in there if path.endswith((".a", ".o"))]:
        raise Case(f"parts of programs are installed: {' '.join(sorted(parts))}")
    for name in ("zero-compile", "zero-run", "zero-opt", "zero-translate"):
        call(moved / "bin" / name, "--version")
    # The plugin is found where it was installed: what MPI says of itself is the same as in the build.
    plugin = [line for line in call(moved / "bin/zero-run", "doctor").splitlines() if "MPI" in line]
    if plugin != [line for line in call(suite.bin / "zero-run", "doctor").splitlines() if "MPI" in line]:
        raise Case(f"the plugin is not found: {plugin}")
    for name in ("zero-run", "zero-compile", "zero-opt", "zero-translate"):
        path = [line for line in call("readelf", "-d", moved / "bin" / name).splitlines() if "PATH)" in line]
        folders = path[0].split("[")[1].rstrip("]").split(":") if path else []
        if not folders or folders[0] != "$ORIGIN/../lib/zero-compile" or "" in folders:
            raise Case(f"{name} looks for libraries in {folders}")
    hardened(moved)
    return f"{len(there)} files"


def bundle():
    """Unpacked, with a file that goes along; -> its folder."""
    archive = suite.dir / "bundle.tar.xz"
    call(ROOT / "tools/bundle.sh", "-b", BUILD, "-0", "-o", archive, ROOT / "examples/gpt/gpt.onnx")
    if archive.stat().st_size > LIMIT:
        raise Case(f"{archive.stat().st_size} bytes, more than {LIMIT}")
    with tarfile.open(archive) as packed:
        strange = [member.name for member in packed if not (member.isfile() or member.isdir()) or member.name.startswith(("/", ".."))]
        if strange:
            raise Case(f"in the archive: {strange[:5]}")
        packed.extractall(suite.dir / "unpacked")
    (folder,) = (suite.dir / "unpacked").iterdir()
    if not (folder / "examples/gpt/gpt.onnx").exists():
        raise Case("what was to go along is not there")
    if not list((folder / "share/doc/zero-compile/licences").iterdir()):
        raise Case("no licences")
    return folder, archive.stat().st_size


def entrance(root):
    """The words that run a command in there. /proc, which every system has, is where programs learn their own place."""
    words = ["unshare", *([] if os.geteuid() == 0 else ["-r"]), "-m", "-p", "-f", "sh", "-c",
             'enter=$(PATH=$PATH:/usr/sbin:/sbin; command -v chroot) && mount -t proc proc "$0/proc" && exec env -i "$enter" "$0" "$@"', root]
    try:
        done = subprocess.run([*words, f"/lib64/{LOADER}", "--version"], capture_output=True, text=True)
    except FileNotFoundError:
        raise Skip("the root cannot be changed here: there is no `unshare`")
    if done.returncode:
        raise Skip(f"the root may not be changed here: {done.stderr.strip()}")
    return words


def bare_root():
    """A root with a C library, the archive and a text."""
    folder, size = bundle()
    root = suite.dir / "root"
    for name in ("lib64", LIBRARIES, "proc", "tmp"):
        (root / name).mkdir(parents=True)
    shutil.copy(f"/lib64/{LOADER}", root / "lib64" / LOADER)
    for name in C_LIBRARY:
        shutil.copy(f"/{LIBRARIES}/{name}", root / LIBRARIES / name)
    (root / "text").write_bytes((ROOT / "README.md").read_bytes())
    folder.rename(root / "zc")
    enter = entrance(root)
    inside = lambda *command: call(*enter, *command)
    inside("/zc/bin/zero-compile", "/zc/examples/gpt/gpt.onnx", *FLAGS, "-o", "/gpt.plan")
    inside("/zc/bin/zero-run", "/gpt.plan", "--tokens", "/text", *RUN, "--out", "/run")
    inside("/zc/bin/zero-run", "export", "/run/final", "--onnx", "/trained.onnx")
    inside("/zc/bin/zero-opt", "--version")
    losses = lambda run: [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    plan = suite.compile(ROOT / "examples/gpt/gpt.onnx", suite.dir / "here.plan", *FLAGS)
    suite.tool("zero-run", plan, "--tokens", ROOT / "README.md", *RUN, "--out", suite.dir / "here")
    if losses(root / "run") != losses(suite.dir / "here") or len(losses(root / "run")) != 3:
        raise Case(f"losses {losses(root / 'run')} there, {losses(suite.dir / 'here')} here")
    if (root / "trained.onnx").stat().st_size < 1 << 20:
        raise Case("the exported model is too small")
    return f"{size / 2**20:.1f} MiB"


def refusals():
    """Nothing is written."""
    for words, code in ((["--what"], 2), (["-o", suite.dir / "none.tar.xz", "-b", BUILD, suite.dir / "none"], 1),
                        (["-b", suite.dir, "-o", suite.dir / "none.tar.xz"], 1)):
        done = subprocess.run([ROOT / "tools/bundle.sh", *words], capture_output=True, text=True)
        if done.returncode != code or not done.stderr.startswith("bundle: "):
            raise Case(f"{words}: exit code {done.returncode}: {done.stderr[-300:]}")
    if (suite.dir / "none.tar.xz").exists():
        raise Case("an archive was written")


suite.run([("installed", installed)])  # alone: what installs writes a list of it into the build's folder, as the bundle does
suite.run([("in a bare root", bare_root), ("refusals", refusals)])
suite.finish()
