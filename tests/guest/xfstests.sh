#!/bin/sh
# xfstests.sh SERVER PORT PORT SECONDS BLOCK WORD...: xfstests, which others wrote to judge file systems,
# on two file systems (/test and /scratch, which a test may fill to the last byte): two `weft` on the host,
# at the PORTs, or two exports of the `knfsd` of this kernel.
# WORDs are for its `check`; no test gets more than SECONDS. READ and WRITE have BLOCK bytes, of which
# many tests make the size of their files. The rig shows the host's programs as /new/usr and xfstests as
# /new/xfstests (and knfsd's as /new/knfsd); the rest of a Debian is made here.
# shellcheck source-path=SCRIPTDIR source=common.sh
. /job/common.sh
# shellcheck source=xfstests-steps.sh
. /job/xfstests-steps.sh
server=$1 test_port=$2 scratch_port=$3 seconds=$4 block=$5
shift 5
results=/tmp/results

make_root() {
  mount --rbind /new /new # tests change how their root's mounts propagate
  cd /new || fail "no /new"
  mkdir /tests
  cp -r /job/alternatives /job/etc
  make_debian /job/etc
  copy_tests /tests
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

modprobe loop || fail "this kernel has no loop devices"
case $server in
  weft) make_folders ;;
  knfsd) SERVER=127.0.0.1 test_port=2049 scratch_port=2049 ;;
  *) fail "what is $server?" ;;
esac
make_root
[ "$server" = weft ] || start_knfsd
run_check /new "$seconds" /out $results "$@"
exit 0
