#!/bin/sh
# guest.sh PORT COUNT: mounts the server's root and works through the phases of kernelbench.sh, COUNT files
# each. Of each phase /out gets what /proc/self/mountstats said before (PHASE.before), when the work was
# done (PHASE.waited) and when everything else that it leads to was (PHASE.total), and a line
# `PHASE FILES SECONDS` in /out/times. The host is told `begin PHASE` and `end PHASE`. With
# DIR_DELEGATIONS=off the client does not ask for delegations of directories, if it ever does.
# shellcheck source-path=SCRIPTDIR/../guest source=common.sh
. /job/common.sh
port=$1 count=$2
# Longer than a client waits before it sends what is not urgent.
settle_seconds=1
tree_dirs=20 tree_files=50

mount_new() { mount_weft /mnt 4.2 "$port"; }

begin() { host begin "$1" || fail "the host does not listen"; }

end() { # PHASE FILES SECONDS
  sync
  sleep $settle_seconds
  cat /proc/self/mountstats >"/out/$1.total"
  host end "$1" || fail "the host does not listen"
  echo "$*" >>/out/times
}

phase() { # PHASE COMMAND [BLOCKS]
  begin "$1"
  seconds=$(files "$2" /mnt/d "$count" "/out/$1.before" "/out/$1.waited" "${3:-}") || fail "phase $1"
  end "$1" "$count" "$seconds"
}

unmeasured() { # COMMAND [BLOCKS]
  files "$1" /mnt/d "$count" /dev/null /dev/null "${2:-}" >/dev/null || fail "$1"
}

# What a server does while nobody asks, to judge the others by.
phase_idle() {
  begin idle
  cat /proc/self/mountstats >/out/idle.before
  cp /out/idle.before /out/idle.waited
  end idle 1 1
}

uptime_now() { cut -d' ' -f1 /proc/uptime; }

phase_tar() {
  mkdir /tmp/tree /mnt/t || fail "mkdir"
  files tree /tmp/tree $tree_dirs $tree_files || fail "no tree"
  (cd /tmp/tree && tar -cf /tmp/tree.tar dir*) || fail "no tarball"
  begin tar
  cat /proc/self/mountstats >/out/tar.before
  begun=$(uptime_now)
  tar -xf /tmp/tree.tar -C /mnt/t || fail "tar x"
  sync
  ended=$(uptime_now)
  cat /proc/self/mountstats >/out/tar.waited
  end tar $((tree_dirs * tree_files)) "$(awk -v a="$begun" -v b="$ended" 'BEGIN { printf "%.2f", b - a }')"
}

try_again_soon() { # see kernelbench.sh
  wait_us=/proc/sys/net/ipv4/tcp_rto_min_us
  [ ! -e $wait_us ] || echo 10000 >$wait_us
}

refuse_dir_delegations() {
  wanted=/sys/module/nfsv4/parameters/directory_delegations
  modprobe nfsv4 || fail "no NFS client"
  [ ! -e $wanted ] || echo N >$wanted
}

try_again_soon
[ "$DIR_DELEGATIONS" = on ] || refuse_dir_delegations

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
