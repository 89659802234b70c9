# What one phase of one run says, for each of its `files` files: its rate, the servers' processor time in
# milliseconds, and the RPCs by operation. Files: what /proc/self/mountstats said before, when the
# work was done (waited), and in the end (total), and the notes of cpu.sh, maybe none.
FNR == 1 { which = FILENAME; sub(/.*\./, "", which); on = 0 }
$1 == "begin" && $2 == phase { cpu = -$3; next }
$1 == "end" && $2 == phase { printf "cpu %.4f\n", (cpu + $3) / files; next }
$1 == "device" { on = ($5 == "/mnt"); next }
on && $1 ~ /^[A-Z_0-9]+:$/ { sub(":", "", $1); sent[which, $1] = $2; operations[$1] }
END {
  printf "rate %.3f\n", files / seconds
  for (operation in operations) {
    before = sent["before", operation]
    waited += report("waited." operation, sent["waited", operation] - before)
    total += report("total." operation, sent["total", operation] - before)
  }
  report("waited", waited)
  report("total", total)
}
function report(what, number) {
  printf "%s %.4f\n", what, number / files
  return number
}
