#!/bin/sh
# xfstests.sh SERVER PORT PORT SECONDS BLOCK WORD...: xfstests, which others wrote to judge file systems,
# on two file systems (/test and /scratch, which a test may fill to the last byte): two `weft` on the host,
# at the PORTs, or two exports of the `knfsd` of this kernel.
# WORDs are for its `check`; no test gets more than SECONDS. READ and WRITE have BLOCK bytes, of which
# many tests make the size of their files. Each outcome is told the host at once:
# `host OUTCOME NAME SECONDS REASON`. The rig shows the host's programs as /new/usr and xfstests as
# /new/xfstests (and knfsd's as /new/knfsd); the rest of a Debian is made here.
# shellcheck source-path=SCRIPTDIR source=common.sh
. /job/common.sh
server=$1 test_port=$2 scratch_port=$3 seconds=$4 block=$5
shift 5
results=/tmp/results

make_users() {
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

make_root() {
  mount --rbind /new /new # tests change how their root's mounts propagate
  cd /new || fail "no /new"
  for link in bin sbin lib lib64; do ln -s usr/$link $link; done
  mkdir -p etc/pam.d dev proc sys tmp run var/lib/nfs/rpc_pipefs var/lib/nfs/nfsdcld var/tmp root home
  mkdir -p mnt/test mnt/scratch export
  for dir in dev proc sys tmp run; do mount --rbind /$dir $dir; done
  cp -r /job/etc/* /job/alternatives etc
  ln -s /proc/mounts etc/mtab
  printf '127.0.0.1 localhost %s\n' "$(hostname)" >etc/hosts
  printf '%s: files\n' passwd group hosts protocols services >etc/nsswitch.conf
  printf '%s required pam_permit.so\n' auth account password session >etc/pam.d/other
  make_users
  # some tests choose what they expect by a link among themselves
  mkdir /tests
  for dir in generic nfs; do
    cp -r xfstests/tests/$dir /tests
    mount --bind /tests/$dir xfstests/tests/$dir
  done
  options="-o vers=4.2,rsize=$block,wsize=$block"
  cat >local.config <<END
export FSTYP=nfs
export TEST_DEV=$SERVER:/test TEST_DIR=/mnt/test
export SCRATCH_DEV=$SERVER:/scratch SCRATCH_MNT=/mnt/scratch
export TEST_FS_MOUNT_OPTS="$options,port=$test_port"
export MOUNT_OPTIONS="$options,port=$scratch_port"
export RESULT_BASE=$results
END
  cd /job || fail "no /job"
}

# The kernel's own server, as a distribution starts it, with its files on XFS.
start_knfsd() {
  modprobe nfsd || fail "this kernel has no server"
  truncate -s 24G /run/kchost/root /run/kchost/test /run/kchost/scratch
  cat >/new/knfsd.sh <<'END'
set -e
for fs in root test scratch; do mkfs.xfs -q -f /run/kchost/$fs; done
mount -o loop /run/kchost/root /export
for fs in test scratch; do
  mkdir /export/$fs
  mount -o loop /run/kchost/$fs /export/$fs
  chmod 777 /export/$fs
done
mount -t rpc_pipefs rpc_pipefs /var/lib/nfs/rpc_pipefs
mount -t nfsd nfsd /proc/fs/nfsd
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
options=rw,no_root_squash,insecure,no_subtree_check,sync
printf '%s *(%s)\n' /export $options,fsid=0 /export/test $options /export/scratch $options >/etc/exports
cd /knfsd/usr/sbin
./nfsdcld
echo 1048576 >/proc/fs/nfsd/max_block_size # what it takes with more memory, and what Weft does
echo 10 >/proc/fs/nfsd/nfsv4gracetime
./exportfs -ra
./rpc.mountd -N 3
./rpc.nfsd -N 3 8
END
  chroot /new /bin/bash /knfsd.sh || fail "knfsd does not start"
}

make_folders() {
  mount_weft /mnt 4.2 "$test_port"
  mkdir -m 777 /mnt/test
  unmount /mnt
  mount_weft /mnt 4.2 "$scratch_port"
  mkdir -m 777 /mnt/scratch
  unmount /mnt
}

descendants() { # PID: those below it, itself last
  for child in $(chroot /new pgrep -P "$1"); do descendants "$child"; done
  echo "$1"
}

# Ends a test that takes too long, with all that it started.
watch_tests() {
  last='' since=0
  while sleep 5; do
    pid=$(chroot /new pgrep -o -f '^/bin/bash [^ ]*/tests/(generic|nfs)/[0-9]*$') || continue
    [ "$pid" = "$last" ] || { last=$pid since=0; }
    since=$((since + 5))
    [ $since -ge "$seconds" ] || continue
    echo "after $since s of $(tr '\0' ' ' </proc/"$pid"/cmdline)" >>/out/killed.txt
    ps -o pid,stat,args >>/out/killed.txt
    # shellcheck disable=SC2046 # a list of numbers
    kill -KILL $(descendants "$pid") 2>/dev/null
  done
}

# A line of `check` is its name, and then a time (behind that of the time before, with `-i`), or why it was
# not run, or what went wrong.
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

modprobe loop || fail "this kernel has no loop devices"
case $server in
  weft) make_folders ;;
  knfsd) SERVER=127.0.0.1 test_port=2049 scratch_port=2049 ;;
  *) fail "what is $server?" ;;
esac
make_root
[ "$server" = weft ] || start_knfsd
watch_tests &
watcher=$!
HOST_OPTIONS=/local.config DIFF_LENGTH=40 chroot /new /bin/bash -c 'cd /xfstests && exec ./check "$@"' \
  check "$@" </dev/null 2>&1 | tell_outcomes
kill $watcher
for dir in generic nfs; do
  mkdir -p /out/$dir
  cp $results/$dir/*.out.bad $results/$dir/*.full $results/$dir/*.dmesg /out/$dir 2>/dev/null
done
exit 0
