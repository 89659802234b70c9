#!/bin/sh
# distributions.sh PORT MEBIBYTES: directories choose how their files are spread, by setfattr; then
# for versions 4.1 and 4.2 a file of random bytes is written in each, and read back after a remount.
# Prints `host sample NAME` before and after, and what the kernel counted.
# shellcheck source-path=SCRIPTDIR source=common.sh
. /job/common.sh
port=$1 mebibytes=$2 name=user.weft.layout

choose() { # DIR WORDS
  mkdir "/mnt/$1" || fail "mkdir $1"
  setfattr -n $name -v "$2" "/mnt/$1" || fail "set the layout of $1"
  mkdir "/mnt/$1/sub" || fail "mkdir $1/sub"
  getfattr --only-values -n $name "/mnt/$1/sub" >/tmp/inherited || fail "no layout of $1/sub"
  proof "$1" inherited "$(tr ' ' '_' </tmp/inherited)"
}

dd if=/dev/urandom of=/tmp/data bs=1M count="$mebibytes" 2>/dev/null || fail "no random data"
want=$(md5_of /tmp/data)
mount_weft /mnt 4.2 "$port"
choose list "distribution=cyclic servers=1,1,3"
choose one "stripe_unit=2MiB stripe_count=1"
choose copies "distribution=replicated copies=3"
choose grows "distribution=variable rounds=2 later_unit=4MiB stripe_count=2"
setfattr -n $name -v "distribution=none" /mnt/one 2>/tmp/err && fail "a bad layout was taken"
grep -q "Invalid argument" /tmp/err || fail "a bad layout: $(cat /tmp/err)"
getfattr -d /mnt/list 2>/dev/null | grep -q "^$name=" || fail "the layout is not listed"
unmount /mnt

for version in 4.1 4.2; do
  for dir in list one grows copies; do
    mount_weft /mnt $version "$port"
    file=/mnt/$dir/sub/file-$version
    host sample "$version.$dir.idle" || fail "the host could not take a sample"
    dd if=/tmp/data of="$file" bs=1M conv=fsync 2>/dev/null || fail "write $file"
    host sample "$version.$dir.written" || fail "the host could not take a sample"
    unmount /mnt
    drop_caches
    mount_weft /mnt $version "$port"
    got=$(md5_of "$file") || fail "read $file"
    [ "$got" = "$want" ] || fail "$file: read back $got, wrote $want"
    host sample "$version.$dir.read" || fail "the host could not take a sample"
    truncate -s 5000000 "$file" || fail "truncate $file"
    cut=$(md5_of "$file") && head -c 5000000 /tmp/data >/tmp/cut
    [ "$cut" = "$(md5_of /tmp/cut)" ] || fail "$file: cut wrongly"
    unmount /mnt
    drop_caches
  done
done
