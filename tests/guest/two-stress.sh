#!/bin/sh
# Both clients do everything that fsstress (of xfstests) can do, in one folder under the same names and each
# in a folder of its own. What they find afterwards is the same.
# shellcheck source-path=SCRIPTDIR source=two-clients.sh
# shellcheck disable=SC2154 # d, role, version and port come from two-clients.sh, which sources this
seconds=30

in_folder() { # NAME SEED
  fsstress -d "$d/$1" -p 2 -n 1000000 --duration=$seconds -s "$2"
}
stress() { # SEED
  in_folder same "$1" &
  same=$!
  in_folder "own-$role" "$1" || return 1
  wait $same
}
remount() { unmount /mnt && mount_weft /mnt "$version" "$port"; }
# What is in a file: of some, whose end is after petabytes of nothing, only the first and the last.
sum_of() { # FILE
  (
    # shellcheck disable=SC3040 # busybox has it
    set -o pipefail
    { head -c 2097152 "$1" && tail -c 1048576 "$1"; } | md5sum
  )
}
sums() {
  while read -r file; do
    sum=$(sum_of "$file") || return 1
    echo "$file $sum"
  done
}
# Names, types, modes, owners, links, sizes, times; and what is in the files.
look() {
  (
    cd "$d" && find . >/tmp/all && find . -type f >/tmp/files &&
      sort /tmp/all | xargs stat -c '%N %f %h %u:%g %s %t:%T %Y %Z' >/tmp/names &&
      sort /tmp/files | sums >/tmp/contents
  )
}
has_files() { [ "$(wc -l </tmp/contents)" -gt 20 ] || { cat /tmp/names; return 1; }; }
alike() { # FILE of /tmp, which the other has too
  cat "/tmp/$1"
  meet "alike-$1-$(md5_of "/tmp/$1")"
}
folders() { mkdir "$d/same" "$d/own-a" "$d/own-b"; }
removed() { rm -r "$d/same" "$d/own-a" "$d/own-b"; }

a folders
seed=$(od -A n -N 3 -t u4 /dev/urandom)
echo "$role: seed $seed"
both stress "$seed"
both remount
both look
both has_files
alike names
alike contents
a removed
both remount
both is "$(find "$d")" "$d"
