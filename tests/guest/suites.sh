#!/bin/sh
# suites.sh PORT SEED FSX-OPERATIONS STRESS-OPERATIONS VERSION...: programs that others wrote to judge
# file systems (pjdfstest, fsx), and our own stress with its models, on Weft. Prints each test of
# pjdfstest that did not pass as "pjdfstest VERSION OUTCOME NAME"; the test on the host knows which
# of them are expected.
# shellcheck source-path=SCRIPTDIR source=common.sh
. /job/common.sh
port=$1 seed=$2 fsx_operations=$3 stress_operations=$4
shift 4

# Users that pjdfstest works as, and a second file system for its links across.
printf 'daemon:x:1:1:daemon:/:/bin/sh\n' >>/etc/passwd
printf 'daemon:x:1:\n' >>/etc/group
mkdir /second
mount -t tmpfs second /second

pjdfstest_config() { # ALLOW-REMOUNT
  cat <<END
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.01
allow_remount = $1
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
END
}

# pjdfstest runs a copy of `sleep` under another name, as which busybox is nothing, and ends.
export PATH="/usr/local/bin:$PATH"

# The tests of read-only file systems remount, for which nobody else may have a file open: they go
# first and alone, and are left out of the rest.
judge() { # VERSION
  mkdir -m 777 /mnt/pjdfstest-"$1"
  for remount in true false; do
    pjdfstest_config $remount >/tmp/pjdfstest.toml
    only=''
    [ $remount = false ] || only=erofs
    # shellcheck disable=SC2086 # a word or none
    pjdfstest -c /tmp/pjdfstest.toml -p /mnt/pjdfstest-"$1" -s /second $only 2>&1 |
      sed 's/\x1b\[[0-9;]*m//g' >/tmp/pjdfstest.$remount
    grep -q '^Summary: ' /tmp/pjdfstest.$remount || {
      tail -5 /tmp/pjdfstest.$remount
      fail "$1: pjdfstest broke off"
    }
  done
  grep -v '^[a-z_:0-9]*::erofs_' /tmp/pjdfstest.false |
    cat /tmp/pjdfstest.true - >/out/pjdfstest-"$1".txt
  sed -n "s/^\([a-z0-9_:]*\)  *\(FAILED\|skipped\)\$/pjdfstest $1 \2 \1/p" /out/pjdfstest-"$1".txt
  proof "$1" pjdfstest "$(grep -c '^[a-z0-9_:]* *ok$' /out/pjdfstest-"$1".txt)"
}

# Files of four stripe units, with operations that cross them; none of no bytes, which
# posix_fallocate refuses on any file system (fsx then takes that for a failure).
fsx_config() { # MAP-WEIGHT PUNCH-WEIGHT
  cat <<END
flen = 4194304
[opsize]
min = 1
max = 131072
[weights]
close_open = 1
invalidate = 1
mapread = $1
mapwrite = $1
read = 10
write = 10
truncate = 5
fsync = 1
fdatasync = 1
posix_fallocate = 2
punch_hole = $2
sendfile = 3
posix_fadvise = 1
copy_file_range = 3
END
}

exercise() { # VERSION
  punch=0
  [ "$1" = 4.1 ] || punch=3 # DEALLOCATE came with 4.2
  for map in 0 10; do
    fsx_config $map $punch >/tmp/fsx.toml
    number=$((seed + map))
    fsx -f /tmp/fsx.toml -N "$fsx_operations" -S $number -P /out /mnt/fsx-"$1"-$map >/tmp/fsx 2>&1 || {
      tail -40 /tmp/fsx
      fail "$1: fsx, seed $number, weight of mappings $map"
    }
    rm /mnt/fsx-"$1"-$map
  done
  proof "$1" fsx "$fsx_operations"
}

# Several processes, and what they left again after a remount.
strain() { # VERSION
  stress run /mnt/stress-"$1" /tmp/manifest 4 "$stress_operations" "$seed" || fail "$1: stress"
  # Through layouts, not around them; the counts go with the mount.
  proof "$1" pnfs "$(sed -n 's/^[[:space:]]*LAYOUTGET: \([0-9]*\) .*/\1/p' /proc/self/mountstats)"
  unmount /mnt
  drop_caches
  mount_weft /mnt "$1" "$port"
  stress check /mnt/stress-"$1" /tmp/manifest || fail "$1: stress, after a remount"
  rm -r /mnt/stress-"$1" || fail "$1: cannot remove what stress left"
  proof "$1" stress "$stress_operations"
}

for version; do
  mount_weft /mnt "$version" "$port"
  judge "$version"
  exercise "$version"
  strain "$version"
  unmount /mnt
done
