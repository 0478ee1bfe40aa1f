#!/bin/sh
# Makes apt take Debian's packages as they were at a moment, such as 20261101T000000Z; without one, the newest of bookworm.
# Debian signs the lists of that moment, and they have run out since then.
set -eu
moment=${1-}
[ -n "$moment" ] || exit 0
case $moment in
[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]T[0-9][0-9][0-9][0-9][0-9][0-9]Z) ;;
*) echo "snapshot: $moment is no moment such as 20261101T000000Z" >&2; exit 2 ;;
esac
sources=${2-/etc/apt}
rm -rf "$sources/sources.list.d"
for part in "debian $moment bookworm" "debian $moment bookworm-updates" "debian-security $moment bookworm-security"; do
	set -- $part
	echo "deb [check-valid-until=no] http://snapshot.debian.org/archive/$1/$2 $3 main"
done >"$sources/sources.list"
