#!/bin/sh
# client-setup.sh PORT: `weft client-setup` changes how far ahead is read of what is mounted, and of
# what will be where nfsrahead of nfs-utils is.
# shellcheck source-path=SCRIPTDIR source=common.sh
. /job/common.sh
port=$1
program=/usr/libexec/nfsrahead

device_of() { awk -v at="$1" '$5 == at { print $3 }' /proc/self/mountinfo; }
ahead() { cat "/sys/class/bdi/$(device_of "$1")/read_ahead_kb"; }
is() { [ "$2" = "$3" ] || fail "$1 is $2, not $3"; }

mount_weft /mnt 4.2 "$port"
before=$(ahead /mnt)
weft client-setup >/tmp/told 2>/tmp/why && fail "it lasts without nfsrahead"
grep -q 'does not last' /tmp/why || fail "no word of that it does not last: $(cat /tmp/why)"
is "what was told" "$(cat /tmp/told)" "/mnt: 15360 KiB ahead ($before before)."
is "what is read ahead" "$(ahead /mnt)" 15360
[ ! -e /etc/nfs.conf.d ] || fail "a configuration for a program that is not there"

mkdir -p /usr/libexec
cp /usr/local/bin/nfsrahead $program
weft client-setup --read-ahead 4MiB >/tmp/told || fail "client-setup"
is "what is read ahead" "$(ahead /mnt)" 4096
is "what udev is told" "$($program -F "$(device_of /mnt)")" 4096
weft client-setup --read-ahead 2GiB 2>/dev/null && fail "2 GiB are read ahead"
unmount /mnt
proof 4.2 set 2
