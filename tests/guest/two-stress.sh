#!/bin/sh
# Both clients do everything that fsstress (of xfstests) can do, in one folder under the same names and each
# in a folder of its own. What they find afterwards is the same.
# shellcheck source-path=SCRIPTDIR source=two-clients.sh
# shellcheck disable=SC2154 # d, role, version and port come from two-clients.sh, which sources this
seconds=40

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
# Names, types, modes, owners, links, sizes, times; and what is in the files, of which some end after
# petabytes of nothing.
look() {
  cd "$d" || return 1
  find . | sort | xargs stat -c '%N %f %h %u:%g %s %t:%T %Y %Z' >/tmp/names &&
    find . -type f | sort | while read -r file; do
      sum=$({ head -c 16777216 "$file" && tail -c 1048576 "$file"; } | md5sum) || return 1
      echo "$file $sum"
    done >/tmp/contents
  result=$?
  cd / && return $result
}
has_files() { [ "$(wc -l </tmp/contents)" -gt 20 ] || { cat /tmp/names; return 1; }; }
alike() { # FILE of /tmp: the other has the same
  step=$((step + 1))
  host meet "$step" "alike-$1-$(md5_of "/tmp/$1")" && return
  cat "/tmp/$1"
  fail "$role, step $step: the other has other $1"
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
both is "$(ls -A "$d")" ''
