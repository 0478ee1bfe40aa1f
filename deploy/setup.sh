#!/bin/bash
# Sets up this machine to run numaudit from a checkout (`run`), to show it in a guest (`lab`), or to run all its tests (`test`).
# Idempotent; says what it installs; fails with the missing command named.
set -euo pipefail
cd "$(dirname "$0")/.."

run_packages=(python3 python3-venv)
guest_packages=(qemu-system-x86 qemu-system-common busybox-static kmod cpio)
test_packages=(python3-bpfcc gcc libc6-dev numactl runc openssl buildah mmdebstrap systemd man-db chromium fonts-dejavu-core zsh fish tmux)

say() { echo "setup: $*" >&2; }

what=${1-run}
case "$# $what" in
"0 run" | "1 run" | "1 lab" | "1 test") ;;
*) say "usage: deploy/setup.sh [run|lab|test]"; exit 2 ;;
esac

install_packages() {
	local missing=() package
	for package in "$@"; do
		dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
	done
	[ ${#missing[@]} -eq 0 ] && return
	if [ "$(id -u)" -ne 0 ]; then
		say "these Debian packages are missing: ${missing[*]}"
		say "install them (sudo apt-get install --no-install-recommends ${missing[*]}) and run this again"
		exit 3
	fi
	say "installing Debian packages: ${missing[*]}"
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq >&2
	apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

need() { command -v "$1" >/dev/null || { say "the command $1 is missing: $2"; exit 3; }; }

need apt-get "this set-up knows Debian and its relatives only; see README.md for what is needed elsewhere"
case $what in
run) install_packages "${run_packages[@]}" ;;
lab) install_packages "${run_packages[@]}" "${guest_packages[@]}" ;;
test) install_packages "${run_packages[@]}" "${guest_packages[@]}" "${test_packages[@]}" ;;
esac

# The distribution's own interpreter: only that one can have the binding of the eBPF compiler, which tests need.
need /usr/bin/python3 "install the package python3"
if [ ! -x .venv/bin/python ]; then
	say "making a virtual environment in .venv"
	/usr/bin/python3 -m venv --system-site-packages .venv
fi
extra= stamp=.venv/.numaudit-run
[ "$what" = test ] && extra='[dev]' stamp=.venv/.numaudit-test
if [ ! -e "$stamp" ] || [ pyproject.toml -nt "$stamp" ]; then
	say "installing numaudit and its Python packages into .venv"
	.venv/bin/python -m pip install -q --disable-pip-version-check --editable ".$extra" 2> >(grep -v '^WARNING' >&2)
	touch "$stamp"
fi
if [ "$what" = lab ]; then
	[ -d .cache/vm/kernels/6.12 ] || say "fetching a kernel for the guest, some 40 MB, into .cache"
	.venv/bin/python tests/vm/kernels.py 6.12
fi
if [ "$what" = test ]; then
	.venv/bin/python tests/vm/kernels.py 6.1 6.12
	.venv/bin/python tests/vm/kernels.py arm64-6.12 || say "no arm64 guest: its tests will be skipped, and fail in CI"
	.venv/bin/python tests/integration/tools.py
	.venv/bin/python tests/support/checkov_venv.py
	command -v node >/dev/null && command -v npm >/dev/null || install_packages nodejs npm
	.venv/bin/python tests/integration/npm_packages.py || say "no npm packages: the tests of the pages in a browser and of the dashboards' types will be skipped, and fail in CI"
fi
