#!/bin/sh
# guest.sh PORT COUNT: mounts the server's root and works through the phases of kernelbench.sh, COUNT files
# each, measured as phases.sh says.
# shellcheck source-path=SCRIPTDIR/../guest source=common.sh
. /job/common.sh
# shellcheck source-path=SCRIPTDIR source=phases.sh
. /job/phases.sh
port=$1 count=$2

mount_new() { mount_server /mnt "$port"; }

phase() { # PHASE COMMAND [BLOCKS]
  begin "$1"
  seconds=$(files "$2" /mnt/d "$count" "/out/$1.before" "/out/$1.waited" "${3:-}") || fail "phase $1"
  end "$1" "$count" "$seconds"
}

unmeasured() { # COMMAND [BLOCKS]
  files "$1" /mnt/d "$count" /dev/null /dev/null "${2:-}" >/dev/null || fail "$1"
}

phase_tar() {
  mkdir /tmp/tree /mnt/t || fail "mkdir"
  files tree /tmp/tree $tree_dirs $tree_files || fail "no tree"
  (cd /tmp/tree && tar -cf /tmp/tree.tar dir*) || fail "no tarball"
  timed tar $((tree_dirs * tree_files)) extract
}

stream_write() {
  repeat=0
  while [ $repeat -lt $stream_mib ]; do
    cat /tmp/mib || return 1
    repeat=$((repeat + 1))
  done | dd of=/mnt/stream bs=1M iflag=fullblock conv=fsync
}

stream_read() { dd if=/mnt/stream of=/dev/null bs=1M; }

stream_compare() {
  repeat=0
  while [ $repeat -lt $stream_mib ]; do
    dd if=/mnt/stream of=/tmp/read bs=1M skip=$repeat count=1 2>/dev/null || return 1
    cmp /tmp/mib /tmp/read || return 1
    repeat=$((repeat + 1))
  done
}

extract() {
  tar -xf /tmp/tree.tar -C /mnt/t || return 1
  sync
}

prepare_client

# On one mount, as who works in a folder does.
mount_new
mkdir /mnt/d || fail "mkdir"
phase_idle
phase create create
phase write write
phase read read w
phase overwrite overwrite
phase append append
phase truncate truncate
phase chmod chmod
phase stat stat t
phase rename rename
phase remove remove
unmount /mnt

# What a client does not know yet.
mount_new
phase write-new write
unmount /mnt
mount_new
phase read-cold read w
phase read-again read w
unmount /mnt

mount_new
phase medium medium
unmount /mnt
mount_new
phase medium-read medium-read
phase medium-remove medium-remove
unmount /mnt

# Files larger than anybody keeps.
dd if=/dev/urandom of=/tmp/mib bs=1M count=1 2>/dev/null || fail "no bytes"
mount_new
timed stream $stream_mib stream_write
unmount /mnt
mount_new
timed stream-read $stream_mib stream_read
stream_compare || fail "the stream differs"
rm /mnt/stream || fail "rm"
unmount /mnt

mount_new
phase_tar
unmeasured overwrite
unmeasured append
unmount /mnt

# What the writing phases wrote, as the server has it.
mount_new
unmeasured read oa
diff -r /tmp/tree /mnt/t >/dev/null || fail "tar x: the files differ"
unmount /mnt

mount_new
timed rm $((tree_dirs * tree_files)) rm -rf /mnt/t
unmount /mnt
