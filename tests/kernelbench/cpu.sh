#!/usr/bin/env bash
# cpu.sh begin|end PHASE: notes what processor time the servers have had until now, in milliseconds, as a
# line `begin|end PHASE MS` of the file $KERNELBENCH_CPU. The guest's `host` calls it. The servers are
# the processes $KERNELBENCH_PIDS; without any there is nothing to note.
set -eu -o pipefail
[ -n "$KERNELBENCH_PIDS" ] || exit 0
sum=0
for pid in $KERNELBENCH_PIDS; do
  ticks=$(sed 's/.*) //' "/proc/$pid/stat" | awk '{ print $12 + $13 }') # a name may have blanks
  sum=$((sum + ticks * 1000 / $(getconf CLK_TCK)))
done
echo "$1 $2 $sum" >>"$KERNELBENCH_CPU"
