#!/bin/sh
# Takes out of an image's root what the agent never runs: what installs, mounts, or changes users (with that, every setuid
# file), documentation but the licences, logs, and what differs from one installation to the next.
set -eu

# In this order, since a package's scripts may run what a later one brings.
unwanted='apt adduser passwd login mount e2fsprogs logsave util-linux-extra util-linux bsdutils libpam-runtime
libpam-modules libpam-modules-bin gpgv debian-archive-keyring init-system-helpers usrmerge usr-is-merged debconf perl-base'
for package in $unwanted; do
	dpkg --purge --force-depends --force-remove-essential --force-remove-protected "$package"
done

# As in the Containerfile: byte code that is not checked against its source at run time.
PYTHONHASHSEED=0 python3 -m compileall -q -f --invalidation-mode unchecked-hash /usr/lib/python3 /usr/lib/python3.* /usr/share/python3

find /usr/share/doc -type f ! -name copyright -delete
find /usr/share/doc -xtype l -delete # links to those; others lead to licences
rm -rf /usr/share/man /usr/share/info /usr/share/locale /usr/share/lintian /usr/share/bug
rm -rf /var/lib/apt /var/cache/* /var/log/* /var/lib/dpkg/*-old /run/* /tmp/* /strip.sh /root/.??*
rm -f /etc/machine-id /var/lib/dbus/machine-id # one for each host, not for each image
find / -xdev ! -type l ! -path '/tmp' ! -path '/dev/*' -perm /6022 -exec chmod a-s,go-w {} +
