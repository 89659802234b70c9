#!/bin/sh
# knfsd.sh sync|async: this kernel's own server as a distribution starts it, with its files on ext4 in
# memory. Says `serving ADDRESS KERNEL`, and serves until it is ended.
# shellcheck source-path=SCRIPTDIR/../guest source=common.sh
. /job/common.sh
set -e
image=/dev/shm/image

make_export() {
  truncate -s 1G $image
  mkfs.ext4 -q $image
  mkdir -p /export
  mount -o loop $image /export
}

start_server() { # sync|async
  mkdir -p /var/lib/nfs/rpc_pipefs /var/lib/nfs/nfsdcld
  touch /var/lib/nfs/etab /var/lib/nfs/rmtab
  mount -t rpc_pipefs rpc_pipefs /var/lib/nfs/rpc_pipefs
  mount -t nfsd nfsd /proc/fs/nfsd
  echo "/export *(rw,no_root_squash,insecure,no_subtree_check,$1,fsid=0)" >/etc/exports
  nfsdcld
  echo 1048576 >/proc/fs/nfsd/max_block_size # what it takes with more memory, and what Weft does
  exportfs -ra
  rpc.mountd -N 3
  rpc.nfsd -N 3 8
}

echo 10000 >/proc/sys/net/ipv4/tcp_rto_min_us # see try_again_soon in kernelbench.sh
modprobe -a loop ext4 nfsd || fail "this kernel has no server"
make_export
start_server "$1"
address=$(ip -4 -o addr show scope global | awk '{ sub("/.*", "", $4); print $4; exit }')
echo "serving $address $(uname -r)"
while :; do sleep 3600; done
