#!/bin/bash
# Builds the image of deploy/Containerfile without a registry: mmdebstrap makes the base, buildah the rest, below .cache/image.
# Does nothing if nothing it is made from has changed. Prints the folder of the image's unpacked root file system.
#
#     deploy/image/build.sh          for this machine's architecture
#     deploy/image/build.sh arm64    for another one, emulated: takes ten times as long
set -euo pipefail
cd "$(dirname "$0")/../.."

base_name=docker.io/library/debian:bookworm-slim

say() { echo "image: $*" >&2; }
fail() { say "$*"; exit 3; }

case "$#:${1-arm64}" in
[01]:amd64 | [01]:arm64) ;;
*) say "usage: deploy/image/build.sh [amd64|arm64]"; exit 2 ;;
esac
for command in dpkg mmdebstrap buildah; do
	command -v $command >/dev/null || fail "the command $command is missing: install the package $command, or run deploy/setup.sh test"
done
[ "$(id -u)" -eq 0 ] || fail "building the image without a registry needs root; podman build -f deploy/Containerfile . does not"

here=$(dpkg --print-architecture)
architecture=${1-$here}
cache=$PWD/.cache/image
[ "$architecture" = "$here" ] || cache+=/$architecture

mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9

sources=(agent bpf deploy/Containerfile deploy/image pyproject.toml README.md LICENSE .dockerignore)
inputs=$(find "${sources[@]}" -type f ! -name '*.pyc' -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -d ' ' -f 1)
if [ "$(cat "$cache/inputs" 2>/dev/null)" = "$inputs" ] && [ -d "$cache/rootfs" ]; then
	echo "$cache/rootfs"
	exit
fi

[ "$architecture" = "$here" ] || . deploy/image/emulate.sh

log=$cache/build.log
: >"$log"
logged() { "$@" >>"$log" 2>&1 || { tail -n 20 "$log" >&2; fail "\`$*\` failed; all it said is in $log"; }; }
driver=overlay
buildah() { command buildah --root "$cache/storage" --runroot "$cache/run" --storage-driver $driver "$@"; }

# Old builds stay as a cache of the steps, until they are too many.
[ "$(du -sm "$cache/storage" 2>/dev/null | cut -f 1)" -lt 6000 ] 2>/dev/null || rm -rf "$cache/storage"
# Overlays cannot be stacked everywhere, as on a container's own root; copies take longer.
buildah info >/dev/null 2>&1 || { rm -rf "$cache/storage"; driver=vfs; }

if [ ! -f "$cache/base.tar" ]; then
	say "making a root of Debian bookworm with mmdebstrap (once; half a minute)"
	logged mmdebstrap --architectures="$architecture" --skip=check/qemu --variant=minbase --include=usr-is-merged --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
		--skip=output/dev --format=tar bookworm "$cache/base.tar.new"
	mv "$cache/base.tar.new" "$cache/base.tar"
	rm -rf "$cache/storage"
fi
if ! buildah inspect --type image numaudit-base >/dev/null 2>&1; then
	container=$(buildah from --arch "$architecture" scratch)
	logged buildah add "$container" "$cache/base.tar" /
	logged buildah commit --timestamp 0 --rm "$container" numaudit-base
fi

say "building the image with buildah (a minute or two when Debian's packages are not in its cache)"
# The last commit that changed anything in the image: other commits make the same image.
read -r revision time < <(git log -1 --format='%H %ct' -- "${sources[@]}" 2>/dev/null || true) || true
[ -z "$(git status --porcelain -- "${sources[@]}" 2>/dev/null)" ] || revision+=-modified
version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' agent/numaudit/__init__.py)
arguments=(--build-arg BASE=localhost/numaudit-base --build-arg BASE_NAME="$base_name"
	--build-arg VERSION="$version" --build-arg REVISION="${revision:-unknown}" --build-arg SOURCE_DATE_EPOCH="${time:-0}")
# Only an address that others can open is worth a label, and none may carry a password.
source=${SOURCE_URL-$(git remote get-url origin 2>/dev/null | grep -E '^https://[^@]*$' || true)}
arguments+=(--build-arg SOURCE_URL="$source")
[ -z "${PIP_CERT-}" ] || arguments+=(--secret "id=pip_cert,src=$PIP_CERT")
logged buildah build --arch "$architecture" --isolation chroot --layers --timestamp "${time:-0}" "${arguments[@]}" \
	--file deploy/Containerfile --tag numaudit .

container=$(buildah from numaudit)
rm -rf "$cache/rootfs.new"
cp -a "$(buildah mount "$container")" "$cache/rootfs.new"
logged buildah rm "$container"
buildah inspect --format '{{.Config}}' numaudit >"$cache/config.json"
rm -rf "$cache/rootfs"
mv "$cache/rootfs.new" "$cache/rootfs"
echo "$inputs" >"$cache/inputs"
echo "$cache/rootfs"
