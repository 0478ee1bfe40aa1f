# For build.sh, which reads it: this kernel runs programs for $architecture, by qemu, until the script ends.
# qemu-user-static comes from apt into .cache, not onto the system.
machine=$([ "$architecture" = arm64 ] && echo aarch64 || echo x86_64)
qemu=$PWD/.cache/tools/qemu-user
binfmt=/proc/sys/fs/binfmt_misc
stop_emulation() { [ ! -e "$binfmt/numaudit-$machine" ] || echo -1 >"$binfmt/numaudit-$machine"; }

[ -e "$binfmt/register" ] || mount -t binfmt_misc binfmt_misc "$binfmt" ||
	fail "this kernel does not run programs for $architecture, and has no binfmt_misc to emulate them by"
# Whatever already runs them, such as Debian's binfmt-support, is good.
if ! grep -q enabled "$binfmt"/*"$machine"* 2>/dev/null; then
	if [ ! -x "$qemu/usr/bin/qemu-$machine-static" ]; then
		say "fetching qemu-user-static"
		mkdir -p "$qemu"
		(cd "$qemu" && apt-get -q -o APT::Sandbox::User=root download qemu-user-static >&2 && dpkg -x qemu-user-static_*.deb . && rm qemu-user-static_*.deb) ||
			fail "apt has no qemu-user-static"
	fi
	trap stop_emulation EXIT
	# The magic of an ELF program for that machine, as in the package; F: the kernel opens qemu now, outside of any chroot.
	sed -E "s#^:[^:]*#:numaudit-$machine#; s#:[^:]*:[A-Z]*\$#:$qemu/usr/bin/qemu-$machine-static:OPF#" "$qemu/usr/lib/binfmt.d/qemu-$machine.conf" |
		tr -d '\n' >"$binfmt/register"
fi
