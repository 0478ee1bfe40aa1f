#!/bin/bash
# Sets up this machine to run numaudit from a checkout (`run`), to show it in a guest (`lab`), for `make check` (`check`), or to
# run all its tests (`test`) or those of one part. Idempotent; says what it installs; fails with the missing command named.
set -euo pipefail
cd "$(dirname "$0")/.."

run_packages=(python3 python3-venv)
guest_packages=(qemu-system-x86 qemu-system-common busybox-static kmod cpio)
test_packages=(python3-bpfcc gcc libc6-dev numactl runc openssl systemd man-db zsh fish tmux)
image_packages=(buildah mmdebstrap)
browser_packages=(chromium fonts-dejavu-core)
parts=(attack bench browser deploy faults guest host image integration journeys packaging soak)

say() { echo "setup: $*" >&2; }
among() { local one=$1 other; shift; for other in "$@"; do [ "$one" != "$other" ] || return 0; done; return 1; }

what=${1-run} part=${2-}
case "$# $what" in
"0 run" | "1 run" | "1 lab" | "1 check" | "1 test") ;;
"2 test") among "$part" "${parts[@]}" || { say "no part ${part@Q} of the tests; the parts are ${parts[*]}"; exit 2; } ;;
*) say "usage: deploy/setup.sh [run|lab|check|test [PART]]"; exit 2 ;;
esac

# Whether the tests to run include one of these parts.
testing() { [ "$what" = test ] && { [ -z "$part" ] || among "$part" "$@"; }; }

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
	waiting_apt update -qq >&2
	waiting_apt install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# apt-get that waits while another one works, as upgrades in the background do on a fresh machine. It is asked again: its own
# DPkg::Lock::Timeout waits for dpkg's locks, but not for those of the lists and of the archives.
patience=600
waiting_apt() {
	local end=$((SECONDS + patience)) is_said='' said
	while ! said=$(LC_ALL=C apt-get "$@" 2>&1); do
		if [[ $said != *"Could not get lock"* ]] || ((SECONDS >= end)); then echo "$said" >&2; exit 3; fi
		[ "$is_said" ] || say "another program uses apt: waiting for it, up to $patience seconds"
		is_said=yes
		sleep 2
	done
}

need() { command -v "$1" >/dev/null || { say "the command $1 is missing: $2"; exit 3; }; }

# Every package is asked for at once: apt takes its time for each question.
packages=("${run_packages[@]}")
[ "$what" != lab ] || packages+=("${guest_packages[@]}")
[ "$what" != test ] || packages+=("${test_packages[@]}")
if testing guest; then packages+=("${guest_packages[@]}"); fi
if testing guest image; then packages+=("${image_packages[@]}"); fi
if testing browser; then packages+=("${browser_packages[@]}"); fi
if testing browser integration && ! { command -v node && command -v npm; } >/dev/null; then packages+=(nodejs npm); fi
if [ "$what" != check ] || ! /usr/bin/python3 -c 'import ensurepip' 2>/dev/null; then
	need apt-get "this set-up knows Debian and its relatives only; see README.md for what is needed elsewhere"
	install_packages "${packages[@]}"
fi

# The distribution's own interpreter: only that one can have the binding of the eBPF compiler, which tests need.
need /usr/bin/python3 "install the package python3"
if [ ! -x .venv/bin/python ]; then
	say "making a virtual environment in .venv"
	/usr/bin/python3 -m venv --system-site-packages .venv
fi
# Each stamp stands for what the ones before it stand for, and more.
declare -A extras=([run]='' [lab]='' [check]='[check]' [test]='[dev]')
declare -A stamps=([run]='run check test' [lab]='run check test' [check]='check test' [test]=test)
is_installed() {
	local stamp
	for stamp in ${stamps[$what]}; do
		[ ! -e ".venv/.numaudit-$stamp" ] || [ pyproject.toml -nt ".venv/.numaudit-$stamp" ] || return 0
	done
	return 1
}
install_python() { .venv/bin/python -m pip install -q --disable-pip-version-check "$@" 2> >(grep -v '^WARNING' >&2); }
if ! is_installed; then
	say "installing numaudit and its Python packages into .venv"
	if [ -z "${extras[$what]}" ]; then # for those who run it: the packages of the image, by their hashes, and no other
		install_python --require-hashes --only-binary=:all: -r deploy/image/requirements.txt -r deploy/image/build.txt
		install_python --no-index --no-deps --no-build-isolation --editable .
	else
		install_python --editable ".${extras[$what]}"
	fi
	touch ".venv/.numaudit-${what/lab/run}"
fi
if [ "$what" = lab ]; then
	[ -d .cache/vm/kernels/6.12 ] || say "fetching a kernel for the guest, some 40 MB, into .cache"
	.venv/bin/python tests/vm/kernels.py 6.12
fi
if testing guest; then
	.venv/bin/python tests/vm/kernels.py 6.1 6.12
	.venv/bin/python tests/vm/programs.py || say "no real launchers for the guest: their tests will be skipped, and fail in CI"
	.venv/bin/python tests/vm/kernels.py arm64-6.12 || say "no arm64 guest: its tests will be skipped, and fail in CI"
fi
if testing deploy guest image integration journeys; then .venv/bin/python tests/integration/tools.py; fi
if testing browser integration; then
	.venv/bin/python tests/integration/npm_packages.py || say "no npm packages: the tests of the pages in a browser and of the dashboards' types will be skipped, and fail in CI"
fi
