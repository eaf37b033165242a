#!/usr/bin/env python3
"""Takes headers out of PyPI's wheels, which hold them beside libraries of hundreds of megabytes. Standard library only.

  wheel_files.py FOLDER PACKAGE==VERSION...               what lies under include/, into FOLDER/include
  wheel_files.py FOLDER --libraries PACKAGE==VERSION...   and the libraries, into FOLDER/lib

Of headers no more is fetched than they are (ranges of bytes, RFC 9110 section 14); where the index serves no ranges, and for libraries, whole
wheels, whose hash is compared. The index is PIP_INDEX_URL's, or PyPI (its JSON: PEP 691). FOLDER/.PACKAGE says what is there, and is written
last."""
import argparse
import hashlib
import io
import json
import os
import pathlib
import platform
import re
import shutil
import sys
import tempfile
import urllib.parse
import urllib.request
import zipfile

HEADER, LIBRARY = re.compile(r"(?:^|/)include/((?!.*\.\.).*[^/])$"), re.compile(r"(?:^|/)lib/([^/]*\.so[.\d]*)$")
READ_AT_ONCE = 1 << 20  # a wheel's directory and its headers lie in a few such pieces


class NoRanges(Exception):
    """The index serves files as a whole only."""


def answer_of(url, headers):
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=180)


class Remote(io.RawIOBase):
    """A file behind a URL, of which what is read is fetched."""

    def __init__(self, url):
        self.url, self.at = url, 0
        with self.range(0, 1) as answer:
            self.size = int(answer.headers["Content-Range"].rsplit("/", 1)[1])

    def range(self, begin, end):
        answer = answer_of(self.url, {"Range": f"bytes={begin}-{end - 1}"})
        if answer.status != 206:
            answer.close()
            raise NoRanges(self.url)
        return answer

    def seekable(self):
        return True

    def readable(self):
        return True

    def seek(self, offset, whence=io.SEEK_SET):
        self.at = {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence] + offset
        return self.at

    def readinto(self, buffer):
        end = min(self.at + len(buffer), self.size)
        if end <= self.at:
            return 0
        with self.range(self.at, end) as answer:
            piece = answer.read()
        buffer[:len(piece)] = piece
        self.at += len(piece)
        return len(piece)


def as_requirement(text):
    if not re.fullmatch(r"[\w.-]+==[\w.+!]+", text):
        raise argparse.ArgumentTypeError(f'"{text}" is not of the form PACKAGE==VERSION')
    return text


def name_of(requirement):
    return requirement.split("==")[0]


def wheel_of(requirement):
    """(where it lies, its SHA-256)"""
    name, version = requirement.split("==")
    index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
    with answer_of(f"{index}/{name}/", {"Accept": "application/vnd.pypi.simple.v1+json"}) as answer:
        files = json.load(answer)["files"]
    for file in files:
        if not file["filename"].endswith(".whl"):
            continue
        _, of, *_, where = file["filename"].removesuffix(".whl").split("-")
        if of == version and (where == "any" or "manylinux" in where and where.endswith(platform.machine())):
            return urllib.parse.urljoin(f"{index}/{name}/", file["url"]), file["hashes"]["sha256"]
    raise OSError(f"{index} has no wheel of {requirement} for {platform.machine()}")


def unpack(archive, folder, libraries):
    for name in archive.namelist():
        header, library = HEADER.search(name), LIBRARY.search(name)
        if not header and not (libraries and library):
            continue
        target = folder / "include" / header[1] if header else folder / "lib" / library[1]
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(name) as source, open(target, "wb") as copy:
            shutil.copyfileobj(source, copy)


def fetch_headers(url, folder):
    with zipfile.ZipFile(io.BufferedReader(Remote(url), READ_AT_ONCE)) as archive:
        unpack(archive, folder, False)


def fetch_wheel(url, sha256, folder, libraries):
    found = hashlib.sha256()
    with tempfile.TemporaryFile(dir=folder) as wheel:
        with answer_of(url, {}) as answer:
            while piece := answer.read(READ_AT_ONCE):
                wheel.write(piece)
                found.update(piece)
        if found.hexdigest() != sha256:
            raise OSError(f"{url} has SHA-256 {found.hexdigest()}, and should have {sha256}")
        with zipfile.ZipFile(wheel) as archive:
            unpack(archive, folder, libraries)


def bring(requirement, folder, libraries):
    url, sha256 = wheel_of(requirement)
    try:
        if libraries:
            raise NoRanges(url)
        fetch_headers(url, folder)
    except NoRanges:
        fetch_wheel(url, sha256, folder, libraries)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--libraries", action="store_true")
    parser.add_argument("requirements", nargs="+", metavar="PACKAGE==VERSION", type=as_requirement)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)

    def stamp(requirement):
        return options.folder / f".{name_of(requirement)}"

    def has(requirement):
        there = stamp(requirement).read_text().split() if stamp(requirement).exists() else []
        return there[:1] == [requirement] and (not options.libraries or "libraries" in there)

    for requirement in options.requirements:
        if has(requirement):
            continue
        try:
            bring(requirement, options.folder, options.libraries)
        except (OSError, KeyError, ValueError, zipfile.BadZipFile) as why:
            sys.exit(f"wheel_files: {requirement}: {why}")
        stamp(requirement).write_text(f"{requirement}{' libraries' if options.libraries else ''}\n")


if __name__ == "__main__":
    main()
