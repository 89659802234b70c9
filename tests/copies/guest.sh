#!/bin/sh
# guest.sh FILES BYTES PORT REPEATS: copies a tree of so many files into the cluster and out again, by
# `cp -r` on a mount of the kernel and by `weft cp -r`, in turns, and compares what came of it. Says what it
# was in files/s, as WHAT RATE. What is copied in is durable in the end, what is copied out lies in memory.
files=$1 bytes=$2 port=$3 repeats=$4
export WEFT_SERVER="$SERVER:$port"
fail() {
  echo "FAIL: $*"
  exit 1
}
mount_new() { nfsmount "$SERVER:/" /mnt "vers=4.2,port=$port" || fail mount; }
now() { # hundredths of a second
  read -r uptime _ </proc/uptime
  echo "${uptime%.*}${uptime#*.}"
}
timed() { # WHAT COMMAND...
  what=$1
  shift
  begun=$(now)
  "$@" >/tmp/said 2>&1 || fail "$what: $(tail -3 /tmp/said)"
  echo "$what $((files * 100 / ($(now) - begun + 1)))"
}
same() { # A B
  diff -r "$1" "$2" >/tmp/said 2>&1 || fail "$2 is not $1: $(tail -3 /tmp/said)"
}
kernel_in() { cp -r /src /mnt/kernel && sync; }
kernel_out() { cp -r /mnt/kernel /tmp/out; }
mkdir -p /src /mnt
head -c "$bytes" /dev/urandom >/tmp/seed
n=0
while [ $n -lt "$files" ]; do
  dir=/src/$((n / 100))
  [ $((n % 100)) != 0 ] || mkdir -p "$dir"
  { echo "$n"; cat /tmp/seed; } | head -c "$bytes" >"$dir/file-$n"
  n=$((n + 1))
done
for _ in $(seq "$repeats"); do
  mount_new
  timed kernel-in kernel_in
  umount /mnt
  mount_new
  timed kernel-out kernel_out
  same /src /tmp/out
  rm -rf /tmp/out
  timed own-in weft cp -r /src :/own
  timed own-out weft cp -r :/own /tmp/out
  same /src /tmp/out
  rm -rf /tmp/out /mnt/own /mnt/kernel
  umount /mnt
done
