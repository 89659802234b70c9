#!/bin/sh
# pairs.sh NAME PORT JUDGE WORKERS OPTIONS: mounts the server at PORT, and does on it what the judge at
# port JUDGE of the same host asks for.
# shellcheck source-path=SCRIPTDIR source=common.sh
. /job/common.sh
name=$1 port=$2 judge=$3 workers=$4 options=$5
mkdir -p /mnt/weft
nfsmount "$SERVER:/" /mnt/weft "$options,port=$port" || fail "mount $options of port $port ($?)"
for n in 0 1 2 3; do
  [ -d "/mnt/weft/d$n" ] || mkdir -p "/mnt/weft/d$n" || fail "mkdir d$n" # of another server than ours
done
hand "$SERVER" "$judge" "$name" /mnt/weft "$workers" || fail "a worker has ended early"
umount /mnt/weft || fail "umount"
