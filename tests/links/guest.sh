#!/bin/sh
# guest.sh MIB: writes a file of that size, and reads it with as much read ahead as Linux does by itself
# and as `weft client-setup` sets; three times each. Says what it was, in MiB/s.
mib=$1
nfsmount "$SERVER:/" /mnt vers=4.2 || exit 1
device=$(awk '$5 == "/mnt" { print $3 }' /proc/self/mountinfo)
now() { # hundredths of a second
  read -r uptime _ </proc/uptime
  echo "${uptime%.*}${uptime#*.}"
}
timed() { # WHAT COMMAND...
  what=$1
  shift
  begun=$(now)
  "$@" || exit 1
  echo "$what $((mib * 100 / ($(now) - begun)))"
}
write() { dd if=/dev/zero of=/mnt/linux bs=1M count="$mib" conv=fsync 2>/dev/null; }
read_back() { dd if=/mnt/linux of=/dev/null bs=1M 2>/dev/null; }
forget() { echo 3 >/proc/sys/vm/drop_caches; }
for _ in 1 2 3; do
  timed write write
  forget
  echo 128 >"/sys/class/bdi/$device/read_ahead_kb"
  timed near read_back
  forget
  weft client-setup >/dev/null 2>&1 # it says that it does not last
  [ "$(cat "/sys/class/bdi/$device/read_ahead_kb")" = 15360 ] || exit 1
  timed far read_back
done
umount /mnt
