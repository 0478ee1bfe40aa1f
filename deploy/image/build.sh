#!/bin/bash
# Builds the image of deploy/Containerfile without a registry: mmdebstrap makes the base, buildah the rest, below .cache/image.
# Does nothing if nothing it is made from has changed. Prints the folder of the image's unpacked root file system.
set -euo pipefail
cd "$(dirname "$0")/../.."

cache=$PWD/.cache/image
base_name=docker.io/library/debian:bookworm-slim

say() { echo "image: $*" >&2; }
fail() { say "$*"; exit 3; }

[ $# -eq 0 ] || { say "usage: deploy/image/build.sh (it takes no arguments)"; exit 2; }
for command in mmdebstrap buildah; do
	command -v $command >/dev/null || fail "the command $command is missing: install the package $command, or run deploy/setup.sh test"
done
[ "$(id -u)" -eq 0 ] || fail "building the image without a registry needs root; podman build -f deploy/Containerfile . does not"

mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9

inputs=$(git ls-files -co --exclude-standard -- agent bpf deploy/Containerfile deploy/image pyproject.toml README.md LICENSE .dockerignore |
	xargs -d '\n' sha256sum | sha256sum | cut -d ' ' -f 1)
if [ "$(cat "$cache/inputs" 2>/dev/null)" = "$inputs" ] && [ -d "$cache/rootfs" ]; then
	echo "$cache/rootfs"
	exit
fi

log=$cache/build.log
: >"$log"
logged() { "$@" >>"$log" 2>&1 || { tail -n 20 "$log" >&2; fail "\`$*\` failed; all it said is in $log"; }; }
buildah() { command buildah --root "$cache/storage" --runroot "$cache/run" --storage-driver vfs "$@"; }

if [ ! -e "$cache/base.tar" ]; then
	say "making a root of Debian bookworm with mmdebstrap (once; half a minute)"
	logged mmdebstrap --variant=minbase --include=usr-is-merged --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
		--skip=output/dev bookworm "$cache/base.tar.new"
	mv "$cache/base.tar.new" "$cache/base.tar"
	rm -rf "$cache/storage"
fi
if ! buildah inspect --type image numaudit-base >/dev/null 2>&1; then
	container=$(buildah from scratch)
	logged buildah add "$container" "$cache/base.tar" /
	logged buildah commit --timestamp 0 --rm "$container" numaudit-base
fi

say "building the image with buildah (a minute or two when Debian's packages are not in its cache)"
version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' agent/numaudit/__init__.py)
arguments=(--build-arg BASE=localhost/numaudit-base --build-arg BASE_NAME="$base_name"
	--build-arg VERSION="$version" --build-arg REVISION="$(git rev-parse HEAD)")
mounts=()
if [ -n "${PIP_CERT-}" ]; then
	mounts+=(--volume "$PIP_CERT:/mnt/ca.crt:ro")
	arguments+=(--build-arg PIP_CERT=/mnt/ca.crt)
fi
logged buildah build --isolation chroot --layers --timestamp "$(git log -1 --format=%ct)" "${mounts[@]}" "${arguments[@]}" \
	--file deploy/Containerfile --tag numaudit .

container=$(buildah from numaudit)
rm -rf "$cache/rootfs.new"
cp -a "$(buildah mount "$container")" "$cache/rootfs.new"
logged buildah rm "$container"
logged buildah rmi --prune
rm -rf "$cache/rootfs"
mv "$cache/rootfs.new" "$cache/rootfs"
echo "$inputs" >"$cache/inputs"
echo "$cache/rootfs"
