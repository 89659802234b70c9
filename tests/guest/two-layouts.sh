#!/bin/sh
# Both clients write one striped file through layouts, and change what the other is writing.
# shellcheck source-path=SCRIPTDIR source=two-clients.sh
# shellcheck disable=SC2086,SC2154 # no flag is no argument; d and role come from two-clients.sh, which sources this

MIB=1048576

# Every second piece each, through the page cache and past it. Each time a new file: a client takes
# changes of a file that it writes itself for its own, and keeps what it cached of the other half.
half() { # FILE SEED PIECE [FLAG...]
  file=$1 seed=$2 piece=$3
  shift 3
  [ "$role" = a ] && start=0 || start=$piece
  ranges write "$file" "$seed" "$start" $((16 * MIB - start)) "every=$piece" create sync "$@"
}
seed=0
for flag in "" direct; do
  for piece in $MIB 65536; do
    seed=$((seed + 1))
    # shellcheck disable=SC2086 # no flag is no argument
    both half "$d/halves$seed" $seed $piece $flag
    both has "$d/halves$seed" $seed $((16 * MIB))
  done
done

# a writes for seconds, until it is told to hurry; b changes the file meanwhile. Nobody gets an
# error.
starts() { # FILE SEED [FLAG]
  rm -f /tmp/hurry
  ranges write "$1" "$2" 0 $((16 * MIB)) create sync slow=/tmp/hurry ${3:+"$3"} &
  writer=$!
  until_true 30 "bytes of $1" test -s "$1"
}
ends() {
  : >/tmp/hurry
  wait $writer
}
changes() { # COMMAND FILE...: several times
  for _ in 1 2 3 4 5 6; do
    "$@" || return 1
    usleep 100000
  done
}
shows() { is "$(facts "$1" "$2")" "$3"; }
written() { # FILE SEED: all of it, but for what was cut away
  ranges check "$1" "$2" 0 $((16 * MIB)) holes && is "$(wc -c <"$1")" $((16 * MIB))
}

# Truncated: a gives its layout back each time, and asks for another one.
seed=10
asked() { layouts=$(sent LAYOUTGET); }
a asked
for flag in "" direct; do
  file=$d/cut$flag
  a starts "$file" $seed $flag
  b ls "$d"
  b changes truncate -s 100000 "$file"
  a ends
  both written "$file" $seed
  b truncate -s 1234567 "$file"
  both shows %s "$file" 1234567
done
asked_again() { [ $(($(sent LAYOUTGET) - layouts)) -gt 2 ]; }
a asked_again

# Given other modes and owners.
a starts "$d/mode" 20
b ls "$d"
b changes chmod 600 "$d/mode"
b changes chown 7:8 "$d/mode"
a ends
both has "$d/mode" 20 $((16 * MIB))
both shows '%a %u:%g' "$d/mode" '600 7:8'

# Removed: it lives until a closes it.
a starts "$d/gone" 30
b ls "$d"
b rm "$d/gone"
a ends
both ls "$d"
both not test -e "$d/gone"

# Read: what is there, and nothing else.
reads() { # FILE SEED
  for _ in 1 2 3 4 5; do
    ranges check "$1" "$2" 0 "$(facts %s "$1")" holes || return 1
    usleep 100000
  done
}
a starts "$d/live" 31
b ls "$d"
b reads "$d/live" 31
a ends
both has "$d/live" 31 $((16 * MIB))
