#!/usr/bin/env python3
"""tools/wheel_files.py against an index of this machine: headers by ranges, whole wheels where there are none, what is refused."""
import hashlib, http.server, io, json, os, pathlib, re, subprocess, sys, threading, zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import ROOT, Case, Suite

suite = Suite(__doc__)
HEADERS = {"include/cublasLt.h": b"// LT\n", "include/nested/more.h": b"// more\n"}
LIBRARY = os.urandom(8 << 20)  # does not compress
sent = {}  # bytes of the wheel, by index


def wheel():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in HEADERS.items():
            archive.writestr(f"nvidia/thing/{name}", content)
        archive.writestr("nvidia/thing/lib/libthing.so.13", LIBRARY)
        archive.writestr("nvidia/thing/include/../../escaped.h", b"")
        archive.writestr("nvidia_thing-1.2.dist-info/METADATA", b"")
    return packed.getvalue()


WHEEL = wheel()


class Index(http.server.BaseHTTPRequestHandler):
    """/NAME/thing/ lists it; of what is wrong with that index NAME says."""

    def do_GET(self):
        name, file = self.path.split("/")[1], self.path.split("/")[-1]
        if not file:
            sha256 = "0" * 64 if name == "tampered" else hashlib.sha256(WHEEL).hexdigest()
            names = ["thing-1.2.tar.gz", "thing-1.1-py3-none-any.whl", "thing-1.2-py3-none-win_amd64.whl", "thing-1.2-py3-none-manylinux1_x86_64.manylinux_2_5_x86_64.whl"]
            return self.answer(200, json.dumps({"files": [{"filename": each, "url": f"/{name}/{each}", "hashes": {"sha256": sha256}} for each in names]}).encode())
        if "1.2-py3-none-manylinux" not in file:
            return self.answer(404, b"")
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if asked and name in ("ranges", "torn"):
            begin, end = int(asked[1]), int(asked[2]) + 1
            piece = WHEEL[begin:end] if name == "ranges" or end - begin == 1 else bytes(end - begin)
            return self.answer(206, piece, {"Content-Range": f"bytes {begin}-{end - 1}/{len(WHEEL)}"})
        return self.answer(200, WHEEL)

    def answer(self, status, body, headers=()):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **dict(headers)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        index = self.path.split("/")[1]
        sent[index] = sent.get(index, 0) + len(body)  # before it is sent: who has read it may look at once
        try:
            self.wfile.write(body)
        except ConnectionError:  # who asked for a range does not read the whole
            sent[index] -= len(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
threading.Thread(target=server.serve_forever, daemon=True).start()


def bring(index, folder, *more, requirement="thing==1.2"):
    return subprocess.run([sys.executable, ROOT / "tools/wheel_files.py", folder, *more, requirement], capture_output=True, text=True,
                          env={**os.environ, "PIP_INDEX_URL": f"http://127.0.0.1:{server.server_port}/{index}", "no_proxy": "127.0.0.1"})


def taken(index, folder, *more, files):
    done = bring(index, suite.dir / folder, *more)
    if done.returncode:
        raise Case(done.stderr)
    found = {str(path.relative_to(suite.dir / folder)): path.read_bytes() for path in (suite.dir / folder).rglob("*") if path.is_file() and path.name != ".thing"}
    if found != files:
        raise Case(f"{sorted(found)} instead of {sorted(files)}")


def ranges():
    taken("ranges", "few", files=HEADERS)
    if sent["ranges"] > len(WHEEL) / 2:
        raise Case(f"{sent['ranges']} bytes were fetched of {len(WHEEL)}")
    before = sent["ranges"]
    taken("ranges", "few", files=HEADERS)
    if sent["ranges"] != before:
        raise Case("what is there was fetched again")
    taken("ranges", "few", "--libraries", files={**HEADERS, "lib/libthing.so.13": LIBRARY})


def refused(index, why, **more):
    def run():
        folder = suite.dir / f"refused-{index}"
        done = bring(index, folder, **more)
        if done.returncode not in (1, 2) or not re.search(why, done.stderr.splitlines()[-1]) or "Traceback" in done.stderr or (folder / ".thing").exists():
            raise Case(f"exit code {done.returncode}: {done.stderr}")
    return run


suite.run([("headers by ranges of bytes, once; then libraries too", ranges),
           ("an index without ranges", lambda: taken("whole", "whole", files=HEADERS)),
           ("a wheel of another hash", refused("tampered", "has SHA-256 .* and should have 0000")),
           ("ranges of other bytes", refused("torn", "wheel_files: thing==1.2: ")),
           ("no such version", refused("ranges-of-old", r"no wheel of thing==7\.0 for ", requirement="thing==7.0")),
           ("no version", refused("none", "PACKAGE==VERSION", requirement="thing"))])
suite.finish()
