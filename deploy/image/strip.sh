#!/bin/sh
# Takes out of an image's root what the agent never runs: what installs, mounts, or changes users (with that, every setuid
# file), libraries that only those need, all of systemd but journalctl, documentation but the licences, logs, and what
# differs from one installation to the next.
set -eu

# In this order, since a package's scripts may run what a later one brings; dpkg itself needs diffutils.
unwanted='apt adduser passwd login mount e2fsprogs logsave util-linux-extra util-linux bsdutils libpam-runtime
libpam-modules libpam-modules-bin gpgv debian-archive-keyring init-system-helpers usrmerge usr-is-merged debconf perl-base
libapt-pkg6.0 libgnutls30 libp11-kit0 libunistring2 libidn2-0 libtasn1-6 libnettle8 libhogweed6
libcryptsetup12 libdevmapper1.02.1 dmsetup libfdisk1 libext2fs2 libss2 libsmartcols1 libsemanage2 libsemanage-common libsepol2
libjson-c5 libapparmor1 libxxhash0 libudev1 sysvinit-utils hostname media-types
libdb5.3 libsqlite3-0 libreadline8 readline-common libncursesw6 ncurses-bin
libnsl2 libtirpc3 libtirpc-common libgssapi-krb5-2 libkrb5-3 libk5crypto3 libkrb5support0 libcom-err2 libkeyutils1
bash diffutils'
for package in $unwanted; do
	dpkg --purge --force-depends --force-remove-essential --force-remove-protected "$package"
done

# journalctl is what the image has systemd for. The list of packages goes on to name systemd: the program is its own.
while read -r path; do
	case $path in
	/bin/journalctl | /usr/share/doc/*) ;;
	*) if [ -f "$path" ] || { [ -L "$path" ] && [ ! -d "$path" ]; }; then rm "$path"; fi ;;
	esac
done </var/lib/dpkg/info/systemd.list
rm /usr/lib/*-linux-gnu/systemd/libsystemd-core-*.so

# Of Python: modules whose libraries went above, its own tests, and the texts of `help()`. Of the C library: the conversion of
# character sets, which Python has of its own, and the making of locales.
python=/usr/lib/python3.11
for module in _sqlite3 _dbm nis readline _curses _curses_panel _ctypes_test _testimportmultiple _testmultiphase xxlimited xxlimited_35; do
	rm $python/lib-dynload/$module.cpython-*.so
done
rm -r $python/test $python/pydoc_data $python/turtle.py
rm -r /usr/lib/*-linux-gnu/gconv /usr/bin/localedef

find $python -name __pycache__ -prune -exec rm -r {} +
# As in the Containerfile: byte code that is not checked against its source at run time.
PYTHONHASHSEED=0 python3 -m compileall -q -f --invalidation-mode unchecked-hash /usr/lib/python3 /usr/lib/python3.* /usr/share/python3

find /usr/share/doc -type f ! -name copyright -delete
find /usr/share/doc -xtype l -delete # links to those; others lead to licences
rm -rf /usr/share/man /usr/share/info /usr/share/locale /usr/share/lintian /usr/share/bug /var/lib/dpkg/info/*.md5sums
rm -rf /var/lib/apt /var/cache/* /var/log/* /var/lib/dpkg/*-old /run/* /tmp/* /snapshot.sh /strip.sh /root/.??*
rm -f /etc/machine-id /var/lib/dbus/machine-id # one for each host, not for each image
rm -f /usr/bin/dpkg* /usr/sbin/dpkg* /usr/bin/tar # last: all that could install
find / -xdev ! -type l ! -path '/tmp' ! -path '/dev/*' -perm /6022 -exec chmod a-s,go-w {} +
