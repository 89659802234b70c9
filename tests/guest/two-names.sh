#!/bin/sh
# Both clients create, move and remove in the same directories at once.
# shellcheck source-path=SCRIPTDIR source=two-clients.sh
# shellcheck disable=SC2154 # d and role come from two-clients.sh, which sources this

# Of two that want the same name, exactly one gets it.
contest() { # COMMAND...: tries it for each of 60 names, noting what was won
  for n in $(seq 60); do
    "$@" "$n" 2>/dev/null && echo "$n" >>"$d/won.$1.$role"
  done
  :
}
each_won_once() { is "$(sort -n "$d/won.$1.a" "$d/won.$1.b" | tr '\n' ' ')" "$(seq 60 | tr '\n' ' ')"; }
make() { mkdir "$d/dir$1"; }
create() { (set -C && : >"$d/file$1"); }
move() { mv -n "$d/file$1" "$d/moved.$role.$1" && [ -e "$d/moved.$role.$1" ]; }
unmake() { rmdir "$d/dir$1"; }
tie() { ln "$d/won.make.a" "$d/tie$1"; }
untie() { rm "$d/tie$1"; }
for how in make create move unmake tie untie; do
  a touch "$d/won.$how.a" "$d/won.$how.b"
  both contest $how
  both each_won_once $how
done

# A directory as a lock: whoever made it is alone, and sees what the last one wrote.
count() {
  for _ in $(seq 20); do
    until_true 60 "directory lock" mkdir "$d/lock" 2>/dev/null
    echo $(($(cat "$d/number") + 1)) >"$d/number" || return 1
    rmdir "$d/lock" || return 1
  done
}
counted() { is "$(cat "$d/number")" "$1"; }
zero() { echo 0 >"$d/number"; }
a zero
both count
both counted 40

# Trees, side by side, and then one that both remove.
copy() { cp -a /job/tree "$d/tree.$role" && cp -a /job/tree "$d/more.$role"; }
equal() { diff -r /job/tree "$d/$1"; }
both copy
both equal tree.a
both equal more.b
both mv "$d/more.$role" "$d/tree.a/"
# rm leaves a directory alone when something in it went away under its hands.
removed() {
  rm -rf "$d/tree.a" 2>/dev/null
  ls "$d" >/dev/null && [ ! -e "$d/tree.a" ]
}
remove() { until_true 60 "removal by two" removed; }
both remove
both not test -e "$d/tree.a"
both equal tree.b
