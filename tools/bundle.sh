#!/usr/bin/env bash
# Packs the programs of a build with the libraries they need into one archive, which runs on any x86-64 Linux with glibc 2.36 or
# newer, without any package: unpack it anywhere and run bin/zero-compile, bin/zero-run.
#   tools/bundle.sh [-o FILE] [-b BUILD] [-c BUILD] [-0..-9] [EXTRA...]
#     -o FILE    the archive (default: build/zero-compile-VERSION-x86_64-linux.tar.xz)
#     -b BUILD   a build folder (default: build/release, which is built first)
#     -c BUILD   a build folder with the plugin for GPUs, where that of -b has none; cuBLASLt and NCCL stay the machine's
#     -0..-9     how hard xz tries (9: two minutes; 3 is twice as fast and a tenth larger)
#     EXTRA      files and folders that go along: those of this repository at their places below the top of the archive, others by name
# The C library stays the machine's, and so do MPI and its launcher: ranks as processes need Open MPI 4 there (libmpi.so.40).
# An archive of more than 30 MiB is an error.
set -euo pipefail
root=$(dirname "$(dirname "$(realpath "${BASH_SOURCE[0]}")")")
glibc=2.36
limit=$((30 << 20))
build=$root/build/release cuda='' output='' preset=9 extra=()

die() {
  echo "bundle: $*" >&2
  exit 1
}

given=''
while (($#)); do
  case $1 in
  -o) output=${2-} && shift 2 || die "-o needs a file" ;;
  -b) given=${2-} && shift 2 || die "-b needs a folder" ;;
  -c) cuda=${2-} && shift 2 || die "-c needs a folder" ;;
  -[0-9]) preset=${1#-} && shift ;;
  -h | --help) sed -n '2,/^set /{/^set /d;s/^# \?//p}' "$0"; exit 0 ;;
  -*) echo "bundle: unknown flag \"$1\"; see --help" >&2; exit 2 ;;
  *) extra+=("$1") && shift ;;
  esac
done
[[ ! $cuda || -f $cuda/bin/libzc_cuda.so ]] || die "\"$cuda/bin\" has no libzc_cuda.so: configure it with -DZC_CUDA=ON, and build zc_cuda"
for e in "${extra[@]}"; do [[ -e $e ]] || die "no \"$e\""; done
if [[ $given ]]; then
  build=$(realpath "$given")
else
  [[ -f $build/build.ninja ]] || cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release >&2
  ninja -C "$build" zero-compile zero-run zero-opt zero-translate >&2
fi
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt" 2>/dev/null) || version=''
[[ $version ]] || die "\"$build\" is no build folder"
name=zero-compile-$version-x86_64-linux
output=$(realpath -m "${output:-$root/build/$name.tar.xz}")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
stage=$work/$name libraries=$work/$name/lib/zero-compile
cmake --install "$build" --prefix "$stage" >"$work/install.log" || die "cmake --install: $(tail -n 3 "$work/install.log")"
mkdir -p "$libraries"
[[ ! $cuda ]] || cp "$cuda/bin/libzc_cuda.so" "$libraries/"

# What the programs load, found by the loader itself; the C library's own parts are left to the machine.
ours='/(ld-linux-x86-64|libc|libm|libmvec|libpthread|libdl|librt|libresolv|libutil|libanl|libnss_[a-z]+)\.so\.[0-9]+$'
ldd "$stage"/bin/* | awk '$2 == "=>" { print $3 }' | sort -u | grep -Ev "$ours" >"$work/libraries" || true
grep -q '^not$' "$work/libraries" && die "a library is missing: $(ldd "$stage"/bin/* | grep 'not found' | sort -u)"
while read -r library; do
  cp -L "$library" "$libraries/"
done <"$work/libraries"
strip "$stage"/bin/*
strip --strip-unneeded "$libraries"/*.so*

# The terms under which they may be passed on, as the distribution states them.
licences=$stage/share/doc/zero-compile/licences
mkdir -p "$licences"
while read -r library; do
  # dpkg knows some files by their place before /lib became a link.
  file=$(realpath "$library")
  owner=$({ dpkg -S "$file" || dpkg -S "${file#/usr}" || dpkg -S "$library"; } 2>/dev/null | head -n 1 | cut -d: -f1) || owner=''
  if [[ $owner && -r /usr/share/doc/$owner/copyright ]]; then
    cp -L "/usr/share/doc/$owner/copyright" "$licences/$owner"
  else
    echo "bundle: warning: no licence found of $library" >&2
  fi
done <"$work/libraries"

# Nothing but the C library may come from elsewhere, and of that nothing newer than promised.
elsewhere=$(ldd "$stage"/bin/* | awk '$2 == "=>" { print $3 }' | grep -v "^$stage/" | sort -u | grep -Ev "$ours") &&
  die "loaded from outside of the archive: $elsewhere"
newest=$(objdump -T "$stage"/bin/* "$libraries"/*.so* | grep -o 'GLIBC_2\.[0-9]*' | cut -d_ -f2 | sort -uV | tail -n 1)
[[ $(printf '%s\n' "$newest" "$glibc" | sort -V | tail -n 1) == "$glibc" ]] || die "needs glibc $newest, newer than $glibc"

for e in "${extra[@]}"; do
  place=$(realpath "$e")
  [[ $place == "$root"/* ]] && place=$stage/$(dirname "${place#"$root"/}") || place=$stage
  mkdir -p "$place"
  cp -rL "$e" "$place/"
  find "$place/$(basename "$e")" -type f -perm -u+x -exec strip {} \; 2>/dev/null || true # but scripts
done

mkdir -p "$(dirname "$output")"
# One stream with a window over everything: the programs share much of their code.
tar -C "$work" --owner=0 --group=0 --numeric-owner --sort=name -cf - "$name" | xz --lzma2="preset=$preset,dict=64MiB" >"$work/archive"
bytes=$(stat -c %s "$work/archive")
((bytes <= limit)) || die "the archive takes $bytes bytes, more than $limit"
mv "$work/archive" "$output"
echo "$output"
echo "bundle: $bytes bytes packed, $(du -sb "$stage" | cut -f1) unpacked, needs glibc $newest" >&2
