#!/bin/sh
# Close-to-open between two clients: what one wrote and closed, the other sees when it opens.
# shellcheck source-path=SCRIPTDIR source=two-clients.sh
# shellcheck disable=SC2154 # d and role come from two-clients.sh, which sources this

# New contents each way: less than a page, several pages, several stripe units; longer and shorter.
for round in 1 2 3 4; do
  for size in 100 70000 $((5000000 * (round % 2))); do
    a put "$d/new" $((2 * round)) $((size + round))
    b has "$d/new" $((2 * round)) $((size + round))
    b put "$d/new" $((2 * round + 1)) "$size"
    a has "$d/new" $((2 * round + 1)) "$size"
  done
done

# Same file, same size, new bytes: nothing but the change attribute tells.
a put "$d/same" 1 3000000
for seed in 2 4; do
  b has "$d/same" $((seed - 1)) 3000000
  b ranges write "$d/same" $seed 0 3000000
  a has "$d/same" $seed 3000000
  a ranges write "$d/same" $((seed + 1)) 0 3000000
done
b has "$d/same" 5 3000000

# Each grows the file behind the other's end.
for turn in 0 2 4; do
  a ranges write "$d/grown" 1 $((turn * 700000)) 700000 create
  b has "$d/grown" 1 $(((turn + 1) * 700000))
  b ranges write "$d/grown" 1 $(((turn + 1) * 700000)) 700000
  a has "$d/grown" 1 $(((turn + 2) * 700000))
done
append() { echo "$role$1" >>"$d/lines"; }
for line in 1 2 3 4 5; do
  a append $line
  b append $line
  printf 'a%s\nb%s\n' $line $line >>/tmp/lines
done
both cmp /tmp/lines "$d/lines"

# Truncated and grown by truncation.
zeros_from() { # FILE START SIZE
  is "$(wc -c <"$1")" "$3" && is "$(tail -c +$(($2 + 1)) "$1" | tr -d '\0' | wc -c)" 0
}
a put "$d/cut" 1 3000000
b has "$d/cut" 1 3000000
a truncate -s 1234567 "$d/cut"
b has "$d/cut" 1 1234567
b truncate -s 4000000 "$d/cut"
a ranges check "$d/cut" 1 0 1234567
a zeros_from "$d/cut" 1234567 4000000

# A file that the other has open is replaced, and removed: the other keeps its own.
open_file() { exec 9<"$1"; }
keeps() { # SEED SIZE, past the cache
  put /tmp/kept "$1" "$2"
  echo 3 >/proc/sys/vm/drop_caches
  cmp /tmp/kept - <&9
}
close_file() { exec 9<&-; }
a put "$d/old" 1 2500000
a put "$d/next" 2 100000
b has "$d/old" 1 2500000
b open_file "$d/old"
a mv "$d/next" "$d/old"
b keeps 1 2500000
b close_file
# The client opens by the handle it remembers while it believes the directory unchanged (30 s);
# reading the directory makes it look.
b ls "$d"
b has "$d/old" 2 100000
b not test -e "$d/next"
b open_file "$d/old"
a rm "$d/old"
b keeps 2 100000
b close_file
b ls "$d"
b not test -e "$d/old"

# Attributes.
shows() { is "$(facts "$1" "$2")" "$3"; }
dated() { touch -d @1234567890 "$1" && chmod 640 "$1"; }
remember() { seen=$(facts %Y "$1"); }
newer() { [ "$(facts %Y "$1")" -gt "$seen" ] || { echo "still of $seen"; return 1; }; }
a put "$d/facts" 1 12345
b shows '%s %a' "$d/facts" '12345 644'
a dated "$d/facts"
b shows '%s %a %Y' "$d/facts" '12345 640 1234567890'
b put "$d/facts" 1 23456
a shows %s "$d/facts" 23456
a remember "$d/facts"
both sleep 1
b ranges write "$d/facts" 1 23456 2000000
a newer "$d/facts"
a shows %s "$d/facts" 2023456

# Names.
make() { mkdir "$d/names" && (cd "$d/names" && for n in $(seq "$1"); do : >"n$n" || exit 1; done); }
drop() { (cd "$d/names" && for n in $(seq "$1"); do rm "n$n" || exit 1; done); }
lists() { is "$(find "$d/names" -mindepth 1 | wc -l)" "$1"; }
b not test -e "$d/names/n1"
a make 30
b ls "$d"
b lists 30
b test -e "$d/names/n1"
b drop 20
a lists 10
a not test -e "$d/names/n1"
a mv "$d/names/n30" "$d/names/n1"
b lists 10
b test -e "$d/names/n1"
b not test -e "$d/names/n30"
b rm -r "$d/names"
a ls "$d"
a not test -e "$d/names"
