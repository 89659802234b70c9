#!/bin/sh
# Steps that xfstests needs wherever it runs (sourced): by `xfstests.sh` in a guest, by
# `tests/fuse/xfstests.sh` on this machine. `host` tells the test that started them.

# In the folder that is to be the root, which has /usr and /xfstests: the rest of a Debian, and users.
make_debian() { # ETC: files of /etc
  for link in bin sbin lib lib64; do ln -s usr/$link $link; done
  mkdir -p etc/pam.d dev proc sys tmp run var/lib/nfs/rpc_pipefs var/lib/nfs/nfsdcld var/tmp root home
  mkdir -p mnt/test mnt/scratch export
  for dir in dev proc sys tmp run; do mount --rbind /$dir $dir; done
  cp -r "$1"/* etc
  ln -s /proc/mounts etc/mtab
  printf '127.0.0.1 localhost %s\n' "$(hostname)" >etc/hosts
  printf '%s: files\n' passwd group hosts protocols services >etc/nsswitch.conf
  printf '%s required pam_permit.so\n' auth account password session >etc/pam.d/other
  cat >etc/passwd <<END
root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/:/bin/bash
bin:x:2:2:bin:/bin:/bin/bash
fsgqa:x:1001:1001::/home:/bin/bash
fsgqa2:x:1002:1002::/home:/bin/bash
123456-fsgqa:x:1003:1003::/home:/bin/bash
nobody:x:65534:65534:nobody:/:/bin/bash
END
  sed 's/^\([^:]*\):x:[0-9]*:\([0-9]*\):.*/\1:x:\2:/;s/^nobody/nogroup/' etc/passwd >etc/group
}

# Some tests choose what they expect by a link among themselves: a copy that they may change.
copy_tests() { # DIR: holds the copies
  for dir in generic nfs; do
    cp -r xfstests/tests/$dir "$1"
    mount --bind "$1/$dir" xfstests/tests/$dir
  done
}

descendants() { # ROOT PID: those below it, itself last
  for child in $(chroot "$1" pgrep -P "$2"); do descendants "$1" "$child"; done
  echo "$2"
}

# Ends a test that takes too long, with all that it started.
watch_tests() { # ROOT SECONDS LOG
  last='' since=0
  while sleep 5; do
    pid=$(chroot "$1" pgrep -o -f '^/bin/bash [^ ]*/tests/(generic|nfs)/[0-9]*$') || continue
    [ "$pid" = "$last" ] || { last=$pid since=0; }
    since=$((since + 5))
    [ $since -ge "$2" ] || continue
    echo "after $since s of $(tr '\0' ' ' </proc/"$pid"/cmdline)" >>"$3"
    ps -o pid,stat,args >>"$3"
    # shellcheck disable=SC2046 # a list of numbers
    kill -KILL $(descendants "$1" "$pid") 2>/dev/null
  done
}

# A line of `check` is its name, and then a time (behind that of the time before, with `-i`), or why it was
# not run, or what went wrong. Each outcome is told the host at once: `host OUTCOME NAME SECONDS REASON`.
tell_outcomes() {
  begun=$(date +%s)
  while IFS= read -r line; do
    echo "$line"
    case $line in generic/[0-9]* | nfs/[0-9]*) ;; *) continue ;; esac
    name=${line%%[!a-z0-9/]*}
    reason=$(echo "${line#"$name"}" | tr -cs 'A-Za-z0-9[]/.,_-' ' ')
    case $reason in
      *'[not run]'*) outcome=skipped reason=${reason#*run]} ;;
      *[!0-9s.\ ]*) outcome=FAILED ;;
      *) outcome=passed reason='' ;;
    esac
    ended=$(date +%s)
    host "$outcome $name $((ended - begun)) $reason" || fail "the host does not listen"
    begun=$ended
  done
}

# Runs `check` in ROOT with the /local.config there; what failed tests left goes to OUT.
run_check() { # ROOT SECONDS OUT RESULTS WORD...
  root=$1 out=$3 results=$4
  watch_tests "$root" "$2" "$out/killed.txt" &
  watcher=$!
  shift 4
  HOST_OPTIONS=/local.config DIFF_LENGTH=40 chroot "$root" /bin/bash -c \
    'cd /xfstests && exec ./check "$@"' check "$@" </dev/null 2>&1 | tell_outcomes
  kill $watcher
  for dir in generic nfs; do
    mkdir -p "$out/$dir"
    cp "$root$results/$dir"/*.out.bad "$root$results/$dir"/*.full "$root$results/$dir"/*.dmesg \
      "$out/$dir" 2>/dev/null
  done
}
