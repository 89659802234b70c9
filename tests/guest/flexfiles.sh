#!/bin/sh
# flexfiles.sh PORT MEBIBYTES: for versions 4.1 and 4.2, writes a file of random bytes that ends in
# the middle of a page, remounts, reads it back, also past the cache, and behind its end when it
# was made longer. Prints what the kernel counted, with `host sample NAME` before and after.
# shellcheck source-path=SCRIPTDIR source=common.sh
. /job/common.sh
port=$1 mebibytes=$2

dd if=/dev/urandom of=/tmp/data bs=1M count="$mebibytes" 2>/dev/null || fail "no random data"
echo "the end" >>/tmp/data
want=$(md5_of /tmp/data)
for version in 4.1 4.2; do
  mount_weft /mnt $version "$port"
  file=/mnt/flex-$version
  host sample "$version.idle" || fail "the host could not take a sample"
  dd if=/tmp/data of=$file bs=1M conv=fsync 2>/dev/null || fail "write $file"
  host sample "$version.written" || fail "the host could not take a sample"
  pnfs_counters $version write
  unmount /mnt
  drop_caches

  mount_weft /mnt $version "$port"
  got=$(md5_of $file) || fail "read $file"
  host sample "$version.read" || fail "the host could not take a sample"
  pnfs_counters $version read
  [ "$got" = "$want" ] || fail "vers=$version: read back $got, wrote $want"
  proof $version md5 "$got"
  direct=$(dd if=$file bs=1M iflag=direct 2>/dev/null | md5sum | cut -d' ' -f1)
  [ "$direct" = "$want" ] || fail "vers=$version: read past the cache $direct, wrote $want"

  # Longer by a hole: zeros, cached or not.
  cp $file /mnt/longer || fail "copy"
  truncate -s $(((mebibytes + 2) << 20)) /mnt/longer || fail "truncate"
  cp /tmp/data /tmp/longer && truncate -s $(((mebibytes + 2) << 20)) /tmp/longer
  longer=$(md5_of /tmp/longer)
  unmount /mnt
  drop_caches
  mount_weft /mnt $version "$port"
  [ "$(md5_of /mnt/longer)" = "$longer" ] || fail "vers=$version: a longer file differs"
  direct=$(dd if=/mnt/longer bs=1M iflag=direct 2>/dev/null | md5sum | cut -d' ' -f1)
  [ "$direct" = "$longer" ] || fail "vers=$version: a longer file differs past the cache"
  rm /mnt/longer /tmp/longer
  unmount /mnt
  drop_caches

  # The owner takes rights away while he writes: handles end, and every byte arrives.
  mount_weft /mnt $version "$port"
  exec 8<>"$file"
  n=0
  while [ $n -lt 4 ]; do
    dd if=/tmp/data bs=1M skip=$((n * mebibytes / 4)) count=$((mebibytes / 4)) conv=fsync >&8 \
      2>/tmp/dd.err &
    writer=$!
    chmod 0600 "$file" || fail "chmod $file"
    chmod 0644 "$file" || fail "chmod $file"
    wait $writer || fail "vers=$version: $(cat /tmp/dd.err)"
    n=$((n + 1))
  done
  exec 8>&-
  host sample "$version.fenced" || fail "the host could not take a sample"
  unmount /mnt
  drop_caches
  mount_weft /mnt $version "$port"
  [ "$(md5_of "$file")" = "$want" ] || fail "vers=$version: bytes were lost by chmod"
  unmount /mnt
  drop_caches
done
