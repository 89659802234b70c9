#!/bin/sh
# away.sh PORT ACT...: a client at work while data server 1 is not what it was. Before the first
# act there are old files; right after each act, which is told to the host as `host ACT`, before any
# server can have noticed:
#   - everything is listed, the old files that have nothing on data server 1 (`host elsewhere` names
#     them) are read, new files are made, written, read and removed, each within 5 s;
#   - the other old files are read too: their bytes are right, or there is an error, or no answer
#     within 8 s; after the acts `start`, `free`, `remove`, `copy` and `newest` they must be right.
# shellcheck source-path=SCRIPTDIR source=common.sh
. /job/common.sh
port=$1
shift
old='1 2 3 4 5 6'
kib=3072
limit=500 # hundredths of a second
patience=8

now() { sed 's/\.//; s/ .*//' /proc/uptime; }

# The same bytes for the same name, on either side of a restart.
content() { yes "the bytes of $1" | head -c $((kib * 1024)); }

# quick WHAT COMMAND...: it succeeds, soon.
quick() {
  what=$1
  shift
  began=$(now)
  until "$@"; do
    # Nobody knows of a full disk before it was asked, or a writer was told: he tries again.
    if [ "$act" != fill ] || ! grep -q 'No space left' /tmp/dd; then fail "$what ($act)"; fi
    full=$((full + 1))
    [ $(($(now) - began)) -le $limit ] || fail "$what: no space left ($act)"
  done
  took=$(($(now) - began))
  [ $took -le $limit ] || fail "$what took $took hundredths of a second ($act)"
  [ $took -le "$slowest" ] || slowest=$took
}

make() {
  content "$1" | dd of="/mnt/$1" bs=1M iflag=fullblock conv=fsync 2>/tmp/dd && return
  cat /tmp/dd
  rm "/mnt/$1"
  return 1
}
same() { [ "$(md5_of "/mnt/$1")" = "$(content "$1" | md5_of -)" ]; }
# Kernels keep what they have read: it is to come from the servers.
fresh() { echo 1 >/proc/sys/vm/drop_caches; }

# Right, an error, or nothing: `right`, `error`, `silent`. Other bytes are a failure.
fate() {
  timeout $patience cat "/mnt/$1" >/tmp/fate 2>/tmp/why
  case $? in
    0) [ "$(md5_of /tmp/fate)" = "$(content "$1" | md5_of -)" ] || fail "WRONG BYTES in $1 ($act)"
      echo right ;;
    143 | 124 | 137) echo silent ;;
    *) echo error ;;
  esac
}

others_and_new() {
  fresh
  quick "listing" ls -l /mnt >/tmp/listing
  host elsewhere || fail "host elsewhere"
  while read -r name; do
    quick "reading $name" same "$name"
  done </mnt/.elsewhere
  for n in 1 2 3; do
    quick "new file $act-$n" make "new-$act-$n"
    fresh
    quick "reading new file $act-$n" same "new-$act-$n"
    quick "a small file" sh -c "echo $act >/mnt/small-$act-$n && sync /mnt/small-$act-$n"
  done
  quick "removing" rm "/mnt/new-$act-1"
  quick "listing again" ls -l /mnt >/tmp/listing
}

mount_weft /mnt 4.2 "$port"
act=before slowest=0 full=0
: >/tmp/dd
for n in $old; do make "old-$n" || fail "old-$n"; done
for act; do
  slowest=0 full=0
  host "$act" || fail "host $act"
  others_and_new
  host "noticed $act" || fail "host noticed $act"
  fates=
  for n in $old; do
    fate=$(fate "old-$n") || { echo "$fate"; exit 1; }
    fates="$fates $fate"
  done
  echo "$act: $fates; slowest $slowest hundredths of a second; $full times no space left"
  proof 4.2 "$act" "$slowest"
  case $act in start | free | remove | copy | newest)
    [ "$fates" = " right right right right right right" ] || fail "after $act:$fates" ;;
  esac
done
host end || fail "host end"
